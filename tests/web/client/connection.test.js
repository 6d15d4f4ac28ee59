// The connection of the page, on simulated sockets and time.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";

const sockets = [];

class Socket {
  static OPEN = 1;
  readyState = 0;
  sent = [];
  constructor(url) {
    this.url = new URL(url);
    sockets.push(this);
  }
  send(frame) {
    this.sent.push(JSON.parse(frame));
  }
  close() {
    this.closed = true;
  }
  welcome(fields = {}) {
    this.readyState = 1;
    this.receive({ type: "welcome", resume: "t", epoch: "e", seq: 0, ...fields });
  }
  receive(event) {
    this.onmessage({ data: JSON.stringify(event) });
  }
  end(code, reason = "") {
    this.readyState = 3;
    this.onclose({ code, reason });
  }
}

globalThis.WebSocket = Socket;

const { WebSocketConnection } = await import("../../../clients/js/connection.js");

const RESUMED = { resumed: { ok: true, replayed: 0 } };
const say = (id, final = true) => ({ type: "say", id, text: id, final });
const source = (seq, id) => ({ type: "source", seq, id, ord: seq });
const ack = (id, ord, rev = 1) => ({ type: "ack", id, rev, ord });
const BUSY = { type: "error", code: "busy", retry: true, retry_ms: 400 };

let events, states, connection;
beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  mock.method(Math, "random", () => 1);
  sockets.length = 0;
  events = [];
  states = [];
  connection = new WebSocketConnection(() => "ws://here/v1/ws?room=r", {
    onEvent: (event) => events.push(event),
    onState: (...state) => states.push(state),
  });
  connection.open();
});
afterEach(() => mock.reset());

const ids = () => events.filter(({ seq }) => seq).map(({ id }) => id);
const sentBy = (socket) => socket.sent.map(({ id, rev }) => [id, rev]);

test("a broken socket is opened again with the position of the page", () => {
  sockets[0].welcome();
  sockets[0].receive(source(1, "x"));
  sockets[0].end(1006);
  assert.deepEqual(states, [["connecting"], ["open"], ["waiting", 0.25]]);
  mock.timers.tick(250);
  const { searchParams } = sockets[1].url;
  assert.deepEqual(["room", "resume", "epoch", "seq"].map((name) => searchParams.get(name)),
                   ["r", "t", "e", "1"]);
  sockets[1].welcome(RESUMED);
  sockets[1].receive(source(1, "x"));
  sockets[1].receive(source(2, "y"));
  assert.deepEqual(ids(), ["x", "y"], "each event is received once");
});

test("waiting times grow until a connection has been stable", () => {
  for (const seconds of [0.25, 0.5, 1]) {
    sockets.at(-1).end(1006);
    assert.deepEqual(states.at(-1), ["waiting", seconds]);
    mock.timers.tick(seconds * 1000);
  }
  sockets.at(-1).welcome();
  mock.timers.tick(5000);
  sockets.at(-1).end(4008);
  assert.deepEqual(states.at(-1), ["waiting", 0.25]);
});

test("messages that may be lost are sent again on the next socket", () => {
  assert.equal(connection.send(say("early")), true);
  sockets[0].welcome();
  connection.send(say("a"));
  connection.send(say("b", false));
  sockets[0].receive(ack("early", 1));
  sockets[0].receive(source(1, "early"));
  sockets[0].receive(ack("a", 2));
  assert.deepEqual(sentBy(sockets[0]), [["early", 1], ["a", 1], ["b", 1]]);
  sockets[0].end(1006);
  connection.send(say("b"));
  assert.equal(connection.send({ type: "want", langs: [] }), false, "the next address contains it");
  mock.timers.tick(250);
  sockets[1].welcome(RESUMED);
  sockets[1].receive(ack("a", 2));
  assert.deepEqual(sentBy(sockets[1]), [["a", 1], ["b", 2]]);
  connection.send({ type: "cancel", id: "b" });
  sockets[1].end(1006);
  mock.timers.tick(500);
  sockets.at(-1).welcome(RESUMED);
  assert.deepEqual(sentBy(sockets.at(-1)), [["a", 1]]);
});

test("a message that a busy gateway refused is sent again, and the page receives no error", () => {
  sockets[0].welcome();
  connection.send(say("a"));
  sockets[0].receive({ ...BUSY, id: "a" });
  sockets[0].receive({ ...BUSY, id: "unknown" });
  mock.timers.tick(400);
  assert.deepEqual(sentBy(sockets[0]), [["a", 1], ["a", 1]]);
  assert.deepEqual(events.filter(({ type }) => type === "error").map(({ id }) => id), ["unknown"]);
});

test("utterances begin in their order, also when the first is refused for a while", () => {
  sockets[0].welcome();
  connection.send(say("a"));
  connection.send(say("b", false));
  sockets[0].receive({ ...BUSY, id: "a" });
  connection.send(say("b"));
  connection.send(say("c"));
  mock.timers.tick(399);
  assert.deepEqual(sentBy(sockets[0]), [["a", 1]]);
  mock.timers.tick(1);
  sockets[0].receive(ack("a", 1));
  sockets[0].receive(ack("b", 2, 2));
  assert.deepEqual(sentBy(sockets[0]), [["a", 1], ["a", 1], ["b", 2], ["c", 1]]);
});

test("an utterance that is refused for good or cancelled keeps no later one waiting", () => {
  sockets[0].welcome();
  for (const id of ["a", "b", "c", "d"]) connection.send(say(id, id !== "c"));
  sockets[0].receive({ type: "error", code: "too_long", retry: false, id: "a" });
  sockets[0].receive({ ...BUSY, id: "b" });
  connection.send({ type: "cancel", id: "b" });
  sockets[0].receive({ ...BUSY, id: "c" }); // the text is not finished: its next revision says all of it
  assert.deepEqual(sockets[0].sent.map(({ type, id }) => `${type} ${id}`), ["say a", "say b", "cancel b", "say c", "say d"]);
  mock.timers.tick(400);
  assert.equal(sockets[0].sent.length, 5, "what was cancelled is not said again");
});

test("an utterance that is not answered is said again, since the gateway may not have read it", () => {
  sockets[0].welcome();
  connection.send(say("a", false));
  connection.send(say("a"));
  connection.send(say("b"));
  sockets[0].receive({ type: "error", code: "rate", retry: true, retry_ms: 20 });
  mock.timers.tick(5000);
  assert.deepEqual(sentBy(sockets[0]), [["a", 1], ["a", 2], ["a", 2]]);
  sockets[0].receive(ack("a", 1, 2));
  mock.timers.tick(4999);
  assert.deepEqual(sentBy(sockets[0]).slice(3), [["b", 1]]);
});

test("who leaves says first what still waits for its turn", () => {
  sockets[0].welcome();
  for (const id of ["a", "b", "c"]) connection.send(say(id));
  connection.send({ type: "bye" });
  assert.deepEqual(sockets[0].sent.map(({ type, id }) => id ?? type), ["a", "b", "c", "bye"]);
});

test("before a planned restart the next socket opens before the old one is left", () => {
  sockets[0].welcome();
  connection.send(say("growing", false));
  sockets[0].receive({ type: "ack", id: "growing", rev: 1, ord: 1 });
  sockets[0].receive({ type: "goaway", in_ms: 10_000, why: "Restart." });
  connection.send(say("growing"));
  connection.send(say("new"));
  assert.deepEqual(sentBy(sockets[0]), [["growing", 1], ["growing", 2]], "no new utterance is sent");
  mock.timers.tick(250);
  sockets[0].receive({ type: "ack", id: "growing", rev: 2, ord: 1 });
  sockets[0].receive(source(1, "growing"));
  sockets[1].welcome(RESUMED);
  sockets[0].receive(source(2, "z")); // the next socket receives it as well
  sockets[1].receive(source(1, "growing"));
  sockets[1].receive(source(2, "z"));
  assert.deepEqual(sentBy(sockets[1]), [["new", 1]]);
  assert.deepEqual(ids(), ["growing", "z"]);
  sockets[0].end(4001);
  assert.deepEqual(states.map(([name]) => name), ["connecting", "open", "open"]);
});

test("the old socket is read to its end if the next process does not know the room", () => {
  sockets[0].welcome();
  sockets[0].receive({ type: "goaway", in_ms: 10_000, why: "Restart." });
  mock.timers.tick(250);
  sockets[1].welcome({ epoch: "f", resumed: { ok: false, replayed: 0 } });
  sockets[1].receive(source(1, "new"));
  sockets[0].receive(source(1, "old"));
  sockets[0].end(4001);
  assert.deepEqual(ids(), ["old", "new"]);
});

test("the page retries until the gateway has restarted", () => {
  sockets[0].welcome();
  sockets[0].receive({ type: "goaway", in_ms: 10_000, why: "Restart." });
  mock.timers.tick(250);
  sockets[1].end(4001);
  sockets[0].end(4001);
  assert.deepEqual(states.at(-1)[0], "waiting");
  mock.timers.tick(1000);
  sockets.at(-1).welcome();
  assert.deepEqual(states.at(-1), ["open"]);
});

test("the page does not reconnect to a room that has ended", () => {
  sockets[0].welcome();
  sockets[0].receive({ type: "goaway", in_ms: 10_000, why: "Restart." });
  mock.timers.tick(250);
  sockets[0].end(4410, "The room has ended.");
  assert.deepEqual(states.at(-1), ["closed", "The room has ended.", 4410]);
  assert.equal(sockets[1].closed, true);
  mock.timers.tick(60_000);
  assert.equal(sockets.length, 2);
});

test("a refused resume token is dropped before the page gives up", () => {
  sockets[0].welcome();
  sockets[0].end(1006);
  mock.timers.tick(250);
  sockets[1].end(4401);
  mock.timers.tick(1000);
  assert.equal(sockets[2].url.searchParams.has("resume"), false);
  sockets[2].end(4401);
  assert.deepEqual(states.at(-1), ["closed", "code 4401", 4401]);
});

test("a connection without frames for too long is treated as dead", () => {
  sockets[0].welcome();
  mock.timers.tick(30_000);
  sockets[0].receive({ type: "tick", seq: 0 });
  mock.timers.tick(37_000);
  assert.equal(states.at(-1)[0], "open");
  mock.timers.tick(1000);
  assert.equal(states.at(-1)[0], "waiting");
  assert.equal(sockets[0].closed, true);
});

test("a connection that is woken reconnects at once", () => {
  sockets[0].welcome();
  connection.wake();
  assert.equal(sockets.length, 1, "it works");
  sockets[0].end(1006);
  connection.wake();
  assert.equal(sockets.length, 2);
  connection.close();
  connection.wake();
  assert.equal(sockets.length, 2, "a closed connection is not opened again");
});

test("a connection that the page closed is not opened again", () => {
  sockets[0].welcome();
  sockets[0].receive({ type: "goaway", in_ms: 10_000, why: "Restart." });
  mock.timers.tick(250);
  connection.close();
  assert.deepEqual(sockets.map(({ closed }) => closed), [true, true]);
  sockets[0].end(1000);
  mock.timers.tick(600_000);
  assert.equal(sockets.length, 2);
  assert.deepEqual(states.at(-1), ["closed", "you left", 1000]);
});
