// A client of a room, on simulated sockets.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";

import { connect } from "../../../clients/js/index.js";

let sockets;

class Socket {
  readyState = 0;
  sent = [];
  constructor(url, protocols) {
    this.url = new URL(url);
    this.protocols = protocols;
    sockets.push(this);
  }
  send(frame) {
    this.sent.push(JSON.parse(frame));
  }
  close() {}
  welcome(fields = {}) {
    this.readyState = 1;
    this.receive({ type: "welcome", resume: "t", epoch: "e", seq: 0, ...fields });
  }
  receive(event) {
    this.onmessage({ data: JSON.stringify(event) });
  }
  end(code) {
    this.readyState = 3;
    this.onclose({ code, reason: "" });
  }
}

const query = ({ url }) => Object.fromEntries(url.searchParams);
const turn = () => new Promise(setImmediate);

/** Join a room, and return the client once its first socket is open. */
async function join(options = {}) {
  const client = connect("https://captions.example", { room: "r", to: "de", WebSocket: Socket, ...options });
  await turn();
  return client;
}

beforeEach(() => {
  sockets = [];
  mock.timers.enable({ apis: ["setTimeout"] });
});
afterEach(() => mock.reset());

test("the query of a socket has the options, and the languages that were asked for last", async () => {
  const client = await join({ role: "speak", from: "en", speaker: "Ann", to: ["de", "fr"] });
  assert.deepEqual(query(sockets[0]), { room: "r", role: "speak", from: "en", speaker: "Ann", to: "de,fr", hb: "15" });
  sockets[0].welcome();
  client.want(["ja"]);
  assert.deepEqual(sockets[0].sent, [{ type: "want", langs: ["ja"] }]);
  sockets[0].end(1006);
  mock.timers.tick(15_000);
  assert.equal(query(sockets[1]).to, "ja");
});

test("the utterances of the room are told at each change", async () => {
  const shown = [];
  await join({ onChange: ({ utterances }) => shown.push(utterances.map(({ captions }) => captions.de?.stable ?? "")) });
  sockets[0].welcome();
  sockets[0].receive({ type: "source", seq: 1, id: "a", rev: 1, ord: 1, lang: "en", text: "Good morning" });
  sockets[0].receive({ type: "delta", id: "a", rev: 1, lang: "de", add: "Guten", n: 5 });
  sockets[0].receive({ type: "presence", readers: {}, members: 1 });
  assert.deepEqual(shown.slice(-2), [[""], ["Guten"]]);
});

test("a text that is said is shown at once, and sent again with the same id", async () => {
  const client = await join({ from: "en", speaker: "Ann" });
  const id = client.say("Good");
  client.say("Good morning", { id });
  assert.notEqual(client.say("Next"), id);
  const [first] = client.utterances;
  assert.deepEqual([first.id, first.lang, first.text, first.speaker], [id, "en", "Good morning", "Ann"]);
  sockets[0].welcome();
  sockets[0].receive({ type: "ack", id, rev: 2, ord: 1 });
  assert.deepEqual(sockets[0].sent.map(({ text, rev }) => [text, rev]), [["Good morning", 2], ["Next", 1]]);
});

test("what the gateway hears is shown as a text that was said", async () => {
  const client = await join({ speaker: "Ann" });
  sockets[0].welcome();
  sockets[0].receive({ type: "heard", id: "h", rev: 1, lang: "en", text: "Good", t0: 0, t1: 1 });
  const [{ id, lang, text, speaker }] = client.utterances;
  assert.deepEqual([id, lang, text, speaker], ["h", "en", "Good", "Ann"]);
});

test("a key is sent as a sub-protocol and stands in no address", async () => {
  await join({ key: "secret" });
  assert.deepEqual(sockets[0].protocols, ["gw.v1.json", "gw.bearer.secret"]);
  assert.ok(!sockets[0].url.href.includes("secret"));
});

test("a ticket is used once, and another one is requested when the session is forgotten", async () => {
  let tickets = 0;
  const states = [];
  await join({ ticket: async () => `ticket-${++tickets}`, onState: (state) => states.push(state) });
  assert.equal(query(sockets[0]).ticket, "ticket-1");
  sockets[0].welcome();
  sockets[0].end(1006);
  mock.timers.tick(15_000);
  assert.deepEqual([query(sockets[1]).ticket, query(sockets[1]).resume], [undefined, "t"]);
  sockets[1].end(4401); // the resume token is refused
  mock.timers.tick(15_000);
  sockets[2].end(4401); // and so is a socket without a ticket
  await turn();
  assert.equal(query(sockets[3]).ticket, "ticket-2");
  assert.equal(states.includes("closed"), false);
  sockets[3].end(4401);
  await turn();
  assert.deepEqual([states.at(-1), sockets.length], ["closed", 4], "a refused ticket is not replaced again and again");
});

test("a ticket that is not to be had closes the client, and one that comes too late opens nothing", async () => {
  const states = [];
  await join({ ticket: () => Promise.reject(new Error("no ticket")), onState: (...state) => states.push(state) });
  assert.deepEqual(states, [["closed", "Error: no ticket"]]);
  let give;
  const client = await join({ ticket: () => new Promise((resolve) => (give = resolve)) });
  client.close();
  give("late");
  await turn();
  assert.equal(sockets.length, 0);
});

test("a program may leave the room when a caption is there, and is told once that it left", async () => {
  const states = [];
  const client = await join({ onChange: () => client.close(), onState: (...state) => states.push(state) });
  sockets[0].welcome();
  sockets[0].receive({ type: "source", id: "u1", seq: 1, rev: 1, ord: 1, lang: "en", text: "Good morning", final: true });
  assert.deepEqual(states.filter(([state]) => state === "closed"), [["closed", "you left", 1000]]);
});
