// The event stream of the page, on simulated streams and time.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";

const streams = [];

class Stream {
  #listeners = {};
  constructor(url) {
    this.url = new URL(url);
    streams.push(this);
  }
  addEventListener(name, listener) {
    this.#listeners[name] = listener;
  }
  close() {
    this.closed = true;
  }
  welcome(fields = {}) {
    this.receive({ type: "welcome", resume: "t", epoch: "e", seq: 0, ...fields });
  }
  receive(event) {
    this.onmessage({ data: JSON.stringify(event) });
  }
  end(code) {
    this.#listeners.close({ data: JSON.stringify({ code }) });
  }
}

globalThis.EventSource = Stream;

const { EventStream } = await import("../../../clients/js/event-stream.js");

const source = (seq) => ({ type: "source", seq, id: `u${seq}`, ord: seq });

let heard, states, events, query;
beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  mock.method(Math, "random", () => 1);
  streams.length = 0;
  heard = [];
  states = [];
  query = "?to=de";
  events = new EventStream(() => `http://here/v1/rooms/r/events${query}`, {
    onEvent: (event) => heard.push(event),
    onState: (...state) => states.push(state),
  });
  events.open();
});
afterEach(() => mock.reset());

const ids = () => heard.filter(({ type }) => type === "source").map(({ id }) => id);
const asked = (stream) => Object.fromEntries(stream.url.searchParams);

test("a broken stream is opened again with the position of the page", () => {
  streams[0].welcome();
  streams[0].receive(source(1));
  streams[0].onerror();
  assert.deepEqual(states, [["connecting"], ["open"], ["waiting", 0.25]]);
  mock.timers.tick(250);
  assert.deepEqual(asked(streams[1]), { to: "de", resume: "t", attempt: "1", epoch: "e", seq: "1" });
  assert.equal(streams[0].closed, true);
});

test("a stream that breaks during the replay asks for the missed events again", () => {
  streams[0].welcome();
  streams[0].receive(source(1));
  streams[0].onerror();
  mock.timers.tick(250);
  streams[1].welcome({ seq: 9, resumed: { ok: true, replayed: 8 } });
  streams[1].onerror();
  mock.timers.tick(250);
  assert.equal(asked(streams[2]).seq, "1");
  streams[2].welcome({ seq: 9, resumed: { ok: true, replayed: 8 } });
  streams[2].receive(source(2));
  streams[2].onerror();
  mock.timers.tick(250);
  assert.equal(asked(streams[3]).seq, "2");
  assert.deepEqual(ids(), ["u1", "u2"]);
});

test("a reader of several languages asks for the last number again and receives each event once", () => {
  query = "?to=de,de-AT";
  streams[0].welcome();
  const final = (lang) => ({ type: "final", seq: 2, id: "a", ord: 1, lang });
  streams[0].receive(final("de"));
  streams[0].onerror();
  mock.timers.tick(250);
  assert.equal(asked(streams[1]).seq, "1");
  streams[1].welcome({ seq: 2, resumed: { ok: true, replayed: 2 } });
  streams[1].receive(final("de"));
  streams[1].receive(final("de-AT"));
  assert.deepEqual(heard.filter(({ lang }) => lang).map(({ lang }) => lang), ["de", "de-AT"]);
});

test("waiting times grow until a stream is welcomed", () => {
  for (const seconds of [0.25, 0.5, 1]) {
    streams.at(-1).onerror();
    assert.deepEqual(states.at(-1), ["waiting", seconds]);
    mock.timers.tick(seconds * 1000);
  }
  streams.at(-1).welcome();
  streams.at(-1).end(4008);
  assert.deepEqual(states.at(-1), ["waiting", 0.25]);
});

test("a permanent close code ends the stream", () => {
  streams[0].welcome();
  streams[0].end(4410);
  mock.timers.tick(60_000);
  assert.deepEqual(states.at(-1), ["closed", "code 4410", 4410]);
  assert.equal(streams.length, 1);
});

test("a stream that is woken reconnects at once", () => {
  streams[0].onerror();
  events.wake();
  assert.equal(states.at(-1)[0], "connecting");
  events.close();
  const count = streams.length;
  events.wake();
  assert.equal(streams.length, count, "a closed stream is not opened again");
});

test("a stream sends nothing, and opens again for other languages", () => {
  streams[0].welcome();
  assert.equal(events.send({ type: "say", id: "a", text: "hi" }), false);
  assert.equal(streams.length, 1);
  query = "?to=fr";
  assert.equal(events.send({ type: "want", langs: ["fr"] }), false);
  assert.equal(streams[0].closed, true);
  assert.equal(asked(streams[1]).to, "fr");
});
