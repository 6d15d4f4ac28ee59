// What a page keeps so that it can come back.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Ledger, Position, backoff, worthRetrying } from "../../web_demo/recovery.js";

test("a restart, a fault and a broken line are worth a new socket", () => {
  for (const code of [1001, 1002, 1005, 1006, 1012, 4000, 4001, 4008, 4029, 4399]) {
    assert.equal(worthRetrying(code), true, code);
  }
});

test("a finished talk and what would only happen again are not", () => {
  for (const code of [1000, 1007, 1009, 4400, 4401, 4403, 4404, 4409, 4410, 4499]) {
    assert.equal(worthRetrying(code), false, code);
  }
});

test("waits grow, with jitter from nothing, to a longest one", () => {
  assert.deepEqual([0, 1, 2, 3].map((n) => backoff(n, () => 1)), [0.25, 0.5, 1, 2]);
  assert.equal(backoff(50, () => 1), 15);
  assert.equal(backoff(3, () => 0), 0);
});

const welcome = (fields) => ({ type: "welcome", resume: "t", epoch: "e", seq: 3, ...fields });
const source = (seq, id = "a", ord = seq) => ({ type: "source", seq, id, ord });

test("attempts to come back are numbered, and the first visit is none", () => {
  const position = new Position();
  const attempt = () => new URL(position.address("ws://here/v1/ws")).searchParams.get("attempt");
  assert.equal(attempt(), null);
  position.welcome(welcome());
  assert.deepEqual([attempt(), attempt()], ["1", "2"]);
  position.welcome(welcome({ resume: "u" }));
  assert.equal(attempt(), "3", "a new token does not begin anew");
});

test("a page says how far it has come, and takes no event twice", () => {
  const position = new Position();
  assert.deepEqual(position.query(), {});
  position.welcome(welcome());
  assert.deepEqual([3, 4, 4, 9, 5].map((seq) => position.fresh(source(seq))),
                   [false, true, false, true, false]);
  for (const event of [{ type: "delta" }, { type: "tick", seq: 1 }, { type: "cancelled" }]) {
    assert.equal(position.fresh(event), true, event.type);
  }
  assert.deepEqual(position.query(), { resume: "t", epoch: "e", seq: 9 });
});

test("of one number there is an event for each tag of its language", () => {
  const position = new Position();
  const final = (lang, seq = 4) => ({ type: "final", seq, lang });
  position.welcome(welcome());
  assert.equal(position.fresh(final("de", 3)), false, "it came with the welcome");
  assert.equal(position.query(true).seq, 3);
  assert.deepEqual(["de", "de", "de-AT", "de-AT"].map((lang) => position.fresh(final(lang))),
                   [true, false, true, false]);
  assert.deepEqual([position.query(true).seq, position.query(false).seq], [3, 4]);
  position.welcome(welcome({ epoch: "g", seq: 9 }));
  assert.equal(position.query(true).seq, 9);
});

test("a history that goes on keeps the number, another one begins anew", () => {
  const position = new Position();
  position.welcome(welcome());
  position.fresh(source(7));
  position.welcome(welcome({ epoch: "f", seq: 1, resumed: { ok: true, replayed: 0 } }));
  assert.deepEqual(position.query(), { resume: "t", epoch: "f", seq: 7 });
  position.welcome(welcome({ epoch: "f", seq: 8, resumed: { ok: false, replayed: 0 } }));
  assert.equal(position.query().seq, 7, "what comes of before is known");
  position.welcome(welcome({ epoch: "g", seq: 1, resume: null }));
  assert.deepEqual(position.query(), { epoch: "g", seq: 1 });
  position.forget();
  assert.deepEqual(position.query(), {});
});

const say = (id, text, final = true) => ({ type: "say", id, text, final });
const ack = (id, rev, ord) => ({ type: "ack", id, rev, ord });
const texts = (ledger) => ledger.repeat().map(({ id, rev, text }) => [id, rev, text]);

test("what was said is kept, with its revision, until its original comes", () => {
  const ledger = new Ledger();
  assert.deepEqual(ledger.say(say("a", "one")), { ...say("a", "one"), rev: 1 });
  ledger.say(say("b", "tw", false));
  ledger.say(say("b", "two"));
  assert.deepEqual(texts(ledger), [["a", 1, "one"], ["b", 2, "two"]]);
  for (const event of [ack("a", 1, 1), source(1, "a"), ack("b", 1, 2), source(2, "b")]) ledger.hear(event);
  assert.deepEqual(texts(ledger), [["b", 2, "two"]], "the newest revision was not accepted yet");
  ledger.hear(ack("b", 2, 2));
  assert.deepEqual(texts(ledger), []);
});

test("a long utterance is kept until its last part has come", () => {
  const ledger = new Ledger();
  ledger.say(say("a", "one. two", false));
  assert.equal(ledger.growing("a"), false);
  for (const event of [ack("a", 1, 1), source(1, "a")]) ledger.hear(event);
  assert.equal(ledger.growing("a"), true);
  ledger.say(say("a", "one. two. three"));
  for (const event of [ack("a", 2, 3), source(2, "a.2")]) ledger.hear(event);
  assert.equal(ledger.repeat().length, 1);
  ledger.hear(source(3, "a.3"));
  assert.equal(ledger.repeat().length, 0);
});

test("what was cancelled or taken back is not said again", () => {
  const ends = [{ type: "cancelled", seq: 9, id: "a.2" }, { type: "retracted", seq: 9, id: "a" }];
  for (const end of ends) {
    const ledger = new Ledger();
    ledger.say(say("a", "one", false));
    ledger.hear({ type: "cancelled", seq: 8, id: "a", lang: "de" });
    ledger.hear({ type: "cancelled", id: "a" });
    ledger.hear({ type: "presence" });
    assert.equal(ledger.repeat().length, 1);
    ledger.hear(end);
    assert.equal(ledger.repeat().length, 0);
  }
  const ledger = new Ledger();
  ledger.say(say("a", "one", false));
  ledger.hear(source(1, "a"));
  ledger.hear({ type: "cancelled", seq: 9, id: "a" });
  assert.equal(ledger.repeat().length, 1, "that was its first part");
  ledger.cancel("a");
  assert.equal(ledger.get("a"), null);
});

test("what is refused for now is said again where it is whole, and else forgotten", () => {
  const ledger = new Ledger();
  const busy = { type: "error", code: "busy", retry: true };
  const whole = ledger.say(say("a", "one"));
  ledger.say(say("b", "tw", false));
  assert.equal(ledger.refused({ ...busy, id: "a" }), whole);
  assert.equal(ledger.refused({ ...busy, id: "b" }), null);
  assert.equal(ledger.refused({ ...busy, code: "rate", id: "a" }), null);
  assert.deepEqual(texts(ledger), [["a", 1, "one"]]);
  assert.equal(ledger.refused({ type: "error", code: "stale", retry: false, id: "a" }), null);
  assert.equal(ledger.refused(busy), null);
  assert.deepEqual(texts(ledger), []);
});

test("no more is kept than anybody says in a while", () => {
  const ledger = new Ledger();
  const taken = Array.from({ length: 200 }, (_, n) => ledger.say(say(`u${n}`, "x")));
  assert.equal(taken.filter(Boolean).length, 100);
  assert.notEqual(ledger.say(say("u0", "xy")), null, "what was begun may go on");
});
