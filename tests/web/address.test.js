// The page's address, and the links of a meeting.

import assert from "node:assert/strict";
import { test } from "node:test";

import { inventRoom, link, read } from "../../web_demo/address.js";

const HERE = "http://127.0.0.1:8000";

test("the page talks to whoever served it", () => {
  const { gateway, elsewhere } = read("", HERE);
  assert.deepEqual([gateway.href, elsewhere], ["ws://127.0.0.1:8000/", false]);
  assert.equal(read("", "https://a.example").gateway.href, "wss://a.example/");
});

test("the page talks to the gateway that is named", () => {
  const { gateway, elsewhere } = read("?gateway=wss://b.example:9", HERE);
  assert.deepEqual([gateway.href, elsewhere], ["wss://b.example:9/", true]);
});

test("at most three languages are read, each once", () => {
  assert.deepEqual(read("?to=de,fr,de,%20es,ja", HERE).to, ["de", "fr", "es"]);
  assert.deepEqual(read("", HERE).to, []);
});

test("a role that does not exist is that of a speaker", () => {
  assert.equal(read("?role=king", HERE).role, "speak");
  assert.equal(read("?role=view", HERE).role, "view");
});

test("an invented room can be joined, and is another one each time", () => {
  const names = new Set(Array.from({ length: 50 }, () => inventRoom()));
  assert.equal(names.size, 50);
  for (const name of names) assert.match(name, /^[a-z]{4}-[a-z]{4}-\d\d$/);
});

test("a link names the room, and the gateway where it is not the page's own", () => {
  const room = { room: "demo", ...read("", HERE) };
  assert.equal(link(`${HERE}/?x=1#y`, "join.html", { ...room, room: "demo" }), `${HERE}/join.html?room=demo`);
  const other = { ...read("?gateway=wss://b.example", HERE), room: "demo" };
  assert.equal(new URL(link(HERE, "join.html", other)).searchParams.get("gateway"), "wss://b.example/");
});

test("a gateway has two addresses, for sockets and for requests", () => {
  const { gateway, http } = read("?gateway=wss://b.example", HERE);
  assert.deepEqual([gateway.href, http.href], ["wss://b.example/", "https://b.example/"]);
  assert.equal(read("", HERE).http.href, "http://127.0.0.1:8000/");
});
