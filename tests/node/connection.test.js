// The connection of the JavaScript client on real sockets that break.

import assert from "node:assert/strict";
import { test } from "node:test";

import WebSocket from "ws";

import { EMPTY_STATE, inRoomOrder, reduce } from "../../clients/js/captions.js";
import { WebSocketConnection } from "../../clients/js/connection.js";

Math.random = () => 0; // no waiting before attempts
const room = `page-${Date.now()}`;
const sockets = [];
globalThis.WebSocket = class extends WebSocket {
  constructor(...args) {
    super(...args);
    sockets.push(this);
  }
};

test("an attempt that the gateway receives late does not replace a newer connection", async () => {
  const events = [];
  let arrived = () => {};
  const connection = new WebSocketConnection(
    () => `${process.env.GATEWAY_URL}/v1/ws?room=${room}-late&from=en&to=de`,
    { onEvent: (event) => { events.push(event); arrived(); }, onState: () => arrived() },
  );
  const until = async (done) => {
    while (!done()) await new Promise((resolve) => (arrived = resolve));
  };
  const before = sockets.length;
  connection.open();
  for (let n = 1; n <= 3; n++) {
    await until(() => sockets.length === before + n && connection.isOpen);
    if (n < 3) sockets.at(-1).terminate();
  }
  const late = new WebSocket(sockets.at(-2).url, "gw.v1.json"); // the address of the second attempt
  const code = await new Promise((resolve) => late.on("close", resolve));
  assert.equal(code, 4029);
  connection.send({ type: "say", id: "u1", text: "line", final: true });
  await until(() => events.some(({ type }) => type === "final"));
  assert.equal(sockets.length, before + 3);
  connection.close();
});

test("the page receives each caption once through any number of broken connections", async () => {
  const events = [];
  let arrived = () => {};
  const connection = new WebSocketConnection(
    () => `${process.env.GATEWAY_URL}/v1/ws?room=${room}&from=en&to=de`,
    { onEvent: (event) => { events.push(event); arrived(); }, onState() {} },
  );
  const until = async (done) => {
    while (!done()) await new Promise((resolve) => (arrived = resolve));
  };
  connection.open();
  for (let n = 1; n <= 8; n++) {
    connection.send({ type: "say", id: `u${n}`, text: `line`, final: false });
    if (n % 2) sockets.at(-1).terminate();
    connection.send({ type: "say", id: `u${n}`, text: `line ${n}`, final: true });
    if (n % 3) sockets.at(-1).terminate();
    await until(() => events.some(({ type, id }) => type === "final" && id === `u${n}`));
  }
  const seqs = events.filter(({ seq, type }) => seq && !["welcome", "tick"].includes(type)).map(({ seq }) => seq);
  assert.deepEqual(seqs, Array.from({ length: 16 }, (_, i) => i + 1));
  const shown = inRoomOrder(events.reduce(reduce, EMPTY_STATE)).map(({ captions }) => captions.de.stable);
  assert.deepEqual(shown, Array.from({ length: 8 }, (_, i) => `[de] line ${i + 1}`));
  assert.ok(sockets.length > 5);
  connection.close();
});

test("a line that the gateway refused for a while stays before the one that is said after it", async () => {
  const sources = [];
  const codes = [];
  let arrived = () => {};
  const until = async (done) => {
    while (!done()) await new Promise((resolve) => (arrived = resolve));
  };
  const connection = new WebSocketConnection(() => `${process.env.GATEWAY_URL}/v1/ws?room=${room}-order&from=en`, {
    onEvent: ({ type, id }) => { if (type === "source") sources.push(id); arrived(); },
    onState() {},
  });
  connection.open();
  const socket = sockets.at(-1);
  const { onmessage } = socket;
  socket.onmessage = (message) => { // the connection keeps refusals to itself
    codes.push(JSON.parse(message.data).code);
    onmessage(message);
    arrived();
  };
  const say = (id, final = true) => connection.send({ type: "say", id, text: `line ${id}`, final });
  for (let n = 1; n <= 16; n++) say(`growing${n}`, false); // as many as one socket may have
  say("first");
  await until(() => codes.includes("busy"));
  say("growing1");
  await until(() => sources.length === 1); // there is a place for one more
  say("second");
  await until(() => sources.length === 3);
  connection.close();
  assert.deepEqual(sources, ["growing1", "first", "second"]);
});
