// Settings in the address of a page, and links to a meeting.

import assert from "node:assert/strict";
import { test } from "node:test";

import { inventRoomName, meetingLink, readSettings, roomOf, roomOfCode } from "../../../web_demo/connection/meeting-url.js";

const HERE = "http://127.0.0.1:8000/";

test("the page connects to the gateway that served it", () => {
  assert.equal(readSettings("", HERE).gateway.href, "ws://127.0.0.1:8000/");
  assert.equal(readSettings("", "https://a.example").gateway.href, "wss://a.example/");
});

test("no parameter of a link makes the page connect to another host", () => {
  for (const name of ["gateway", "http", "host", "url", "server"]) {
    const { gateway, http } = readSettings(`?${name}=wss://b.example:9`, HERE);
    assert.deepEqual([gateway.href, http.href], ["ws://127.0.0.1:8000/", HERE]);
  }
});

test("a page below a path belongs to the gateway that is mounted there", () => {
  const { gateway, http } = readSettings("?room=a", "https://a.example/meetings/captions/join.html?room=a#key=b");
  assert.equal(gateway.href, "wss://a.example/meetings/captions/");
  assert.equal(new URL("v1/languages", http).href, "https://a.example/meetings/captions/v1/languages");
});

test("at most three languages are read from the address, each once", () => {
  assert.deepEqual(readSettings("?to=de,fr,de,%20es,ja", HERE).to, ["de", "fr", "es"]);
  assert.deepEqual(readSettings("", HERE).to, []);
});

test("an unknown role becomes that of a speaker", () => {
  assert.equal(readSettings("?role=king", HERE).role, "speak");
  assert.equal(readSettings("?role=view", HERE).role, "view");
});

test("invented room names are valid and differ from each other", () => {
  const names = new Set(Array.from({ length: 50 }, () => inventRoomName()));
  assert.equal(names.size, 50);
  for (const name of names) assert.match(name, /^[a-z]{4}-[a-z]{4}-\d\d$/);
});

test("a link contains the room, and nothing else of the page's address", () => {
  assert.equal(meetingLink(`${HERE}?x=1#y`, "join.html", { room: "demo" }), `${HERE}join.html?room=demo`);
});

test("a link has the name of the meeting, so that everybody who is invited sees it", () => {
  assert.equal(meetingLink(HERE, "./", { room: "demo", name: "Weekly sync" }), `${HERE}?room=demo&name=Weekly+sync`);
  assert.equal(readSettings("?room=demo&name=Weekly+sync", HERE).name, "Weekly sync");
  assert.equal(readSettings("?room=demo", HERE).name, "");
});

test("every name of a room in an address becomes one that the gateway takes", () => {
  const taken = /^[A-Za-z0-9_-]{1,64}$/;
  for (const name of ["weekly sync", "Réunion d’équipe", "a".repeat(200), "会議", "🎉", "a/b?c", "  x  "]) {
    const { room } = readSettings(`?room=${encodeURIComponent(name)}`, HERE);
    assert.match(room, taken, name);
    assert.equal(roomOf(room), room, "the same at a reload");
  }
  assert.deepEqual([roomOf("weekly sync"), roomOf("Réunion"), roomOf("Board_2")], ["weekly-sync", "Reunion", "Board_2"]);
  assert.notEqual(roomOf("会議"), roomOf("会话"));
  assert.equal(readSettings("?room=", HERE).room, null);
  assert.equal(readSettings("?room=---", HERE).room !== "", true);
});

test("a code is understood as people hear and type it", () => {
  for (const typed of ["bado-niru-42", "Bado niru 42", " BADONIRU42 ", "bado-niru42"]) assert.equal(roomOfCode(typed), "bado-niru-42");
  assert.equal(roomOfCode("Board"), "Board");
  assert.equal(roomOfCode("  "), "");
});

test("a gateway has one address for sockets and one for requests", () => {
  const { gateway, http } = readSettings("", "https://b.example/join.html?room=a");
  assert.deepEqual([gateway.href, http.href], ["wss://b.example/", "https://b.example/"]);
  assert.equal(readSettings("", HERE).http.href, "http://127.0.0.1:8000/");
});
