// The page's address, and the links of a meeting.

import assert from "node:assert/strict";
import { test } from "node:test";

import { inventRoomName, meetingLink, readSettings } from "../../web_demo/connection/meeting-url.js";

const HERE = "http://127.0.0.1:8000";

test("the page talks to whoever served it", () => {
  const { gateway, elsewhere } = readSettings("", HERE);
  assert.deepEqual([gateway.href, elsewhere], ["ws://127.0.0.1:8000/", false]);
  assert.equal(readSettings("", "https://a.example").gateway.href, "wss://a.example/");
});

test("the page talks to the gateway that is named", () => {
  const { gateway, elsewhere } = readSettings("?gateway=wss://b.example:9", HERE);
  assert.deepEqual([gateway.href, elsewhere], ["wss://b.example:9/", true]);
});

test("at most three languages are read, each once", () => {
  assert.deepEqual(readSettings("?to=de,fr,de,%20es,ja", HERE).to, ["de", "fr", "es"]);
  assert.deepEqual(readSettings("", HERE).to, []);
});

test("a role that does not exist is that of a speaker", () => {
  assert.equal(readSettings("?role=king", HERE).role, "speak");
  assert.equal(readSettings("?role=view", HERE).role, "view");
});

test("an invented room can be joined, and is another one each time", () => {
  const names = new Set(Array.from({ length: 50 }, () => inventRoomName()));
  assert.equal(names.size, 50);
  for (const name of names) assert.match(name, /^[a-z]{4}-[a-z]{4}-\d\d$/);
});

test("a meetingLink names the room, and the gateway where it is not the page's own", () => {
  const room = { room: "demo", ...readSettings("", HERE) };
  assert.equal(meetingLink(`${HERE}/?x=1#y`, "join.html", { ...room, room: "demo" }), `${HERE}/join.html?room=demo`);
  const other = { ...readSettings("?gateway=wss://b.example", HERE), room: "demo" };
  assert.equal(new URL(meetingLink(HERE, "join.html", other)).searchParams.get("gateway"), "wss://b.example/");
});

test("a gateway has two addresses, for sockets and for requests", () => {
  const { gateway, http } = readSettings("?gateway=wss://b.example", HERE);
  assert.deepEqual([gateway.href, http.href], ["wss://b.example/", "https://b.example/"]);
  assert.equal(readSettings("", HERE).http.href, "http://127.0.0.1:8000/");
});
