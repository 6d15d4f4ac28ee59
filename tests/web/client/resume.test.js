// The state that lets a page continue after its connection broke.

import assert from "node:assert/strict";
import { test } from "node:test";

import { PendingRequests, ResumePosition, backoff, isRetryable } from "../../../clients/js/resume.js";

test("the page reconnects after restarts, faults and broken connections", () => {
  for (const code of [1001, 1002, 1005, 1006, 1012, 4000, 4001, 4008, 4029, 4399]) {
    assert.equal(isRetryable(code), true, code);
  }
});

test("the page does not reconnect after a normal end or a permanent error", () => {
  for (const code of [1000, 1007, 1009, 4400, 4401, 4403, 4404, 4409, 4410, 4499]) {
    assert.equal(isRetryable(code), false, code);
  }
});

test("waiting times grow up to a limit, with full jitter", () => {
  assert.deepEqual([0, 1, 2, 3].map((n) => backoff(n, () => 1)), [0.25, 0.5, 1, 2]);
  assert.equal(backoff(50, () => 1), 15);
  assert.equal(backoff(3, () => 0), 0);
});

const welcome = (fields) => ({ type: "welcome", resume: "t", epoch: "e", seq: 3, ...fields });
const source = (seq, id = "a", ord = seq) => ({ type: "source", seq, id, ord });

test("attempts to resume are numbered, and the first connection has no number", () => {
  const position = new ResumePosition();
  const attempt = () => new URL(position.addTo("ws://here/v1/ws")).searchParams.get("attempt");
  assert.equal(attempt(), null);
  position.welcome(welcome());
  assert.deepEqual([attempt(), attempt()], ["1", "2"]);
  position.welcome(welcome({ resume: "u" }));
  assert.equal(attempt(), "3", "a new token does not restart the count");
});

test("the position counts accepted events, and no event is accepted twice", () => {
  const position = new ResumePosition();
  assert.deepEqual(position.query(), {});
  position.welcome(welcome());
  assert.deepEqual([3, 4, 4, 9, 5].map((seq) => position.accept(source(seq))),
                   [false, true, false, true, false]);
  for (const event of [{ type: "delta" }, { type: "tick", seq: 1 }, { type: "cancelled" }]) {
    assert.equal(position.accept(event), true, event.type);
  }
  assert.deepEqual(position.query(), { resume: "t", epoch: "e", seq: 9 });
});

test("events of one number are accepted once for each language tag", () => {
  const position = new ResumePosition();
  const final = (lang, seq = 4) => ({ type: "final", seq, lang });
  position.welcome(welcome());
  assert.equal(position.accept(final("de", 3)), false, "the welcome included it");
  assert.equal(position.query(true).seq, 3);
  assert.deepEqual(["de", "de", "de-AT", "de-AT"].map((lang) => position.accept(final(lang))),
                   [true, false, true, false]);
  assert.deepEqual([position.query(true).seq, position.query(false).seq], [3, 4]);
  position.welcome(welcome({ epoch: "g", seq: 9 }));
  assert.equal(position.query(true).seq, 9);
});

test("a resumed epoch keeps the number, and another epoch begins with its own", () => {
  const position = new ResumePosition();
  position.welcome(welcome());
  position.accept(source(7));
  position.welcome(welcome({ epoch: "f", seq: 1, resumed: { ok: true, replayed: 0 } }));
  assert.deepEqual(position.query(), { resume: "t", epoch: "f", seq: 7 });
  position.welcome(welcome({ epoch: "f", seq: 8, resumed: { ok: false, replayed: 0 } }));
  assert.equal(position.query().seq, 7, "earlier events are known");
  position.welcome(welcome({ epoch: "g", seq: 1, resume: null }));
  assert.deepEqual(position.query(), { epoch: "g", seq: 1 });
  position.forget();
  assert.deepEqual(position.query(), {});
});

const say = (id, text, final = true) => ({ type: "say", id, text, final });
const ack = (id, rev, ord) => ({ type: "ack", id, rev, ord });
const texts = (pending) => pending.unconfirmed().map(({ id, rev, text }) => [id, rev, text]);

test("a message is kept with its revision until its source event arrives", () => {
  const pending = new PendingRequests();
  assert.deepEqual(pending.add(say("a", "one")), { ...say("a", "one"), rev: 1 });
  pending.add(say("b", "tw", false));
  pending.add(say("b", "two"));
  assert.deepEqual(texts(pending), [["a", 1, "one"], ["b", 2, "two"]]);
  for (const event of [ack("a", 1, 1), source(1, "a"), ack("b", 1, 2), source(2, "b")]) pending.onEvent(event);
  assert.deepEqual(texts(pending), [["b", 2, "two"]], "the newest revision is not accepted yet");
  pending.onEvent(ack("b", 2, 2));
  assert.deepEqual(texts(pending), []);
});

test("a long utterance is kept until the source of its last segment arrives", () => {
  const pending = new PendingRequests();
  pending.add(say("a", "one. two", false));
  assert.equal(pending.isGrowing("a"), false);
  for (const event of [ack("a", 1, 1), source(1, "a")]) pending.onEvent(event);
  assert.equal(pending.isGrowing("a"), true);
  pending.add(say("a", "one. two. three"));
  for (const event of [ack("a", 2, 3), source(2, "a.2")]) pending.onEvent(event);
  assert.equal(pending.unconfirmed().length, 1);
  pending.onEvent(source(3, "a.3"));
  assert.equal(pending.unconfirmed().length, 0);
});

test("a cancelled or retracted utterance is not sent again", () => {
  const ends = [{ type: "cancelled", seq: 9, id: "a.2" }, { type: "retracted", seq: 9, id: "a" }];
  for (const end of ends) {
    const pending = new PendingRequests();
    pending.add(say("a", "one", false));
    pending.onEvent({ type: "cancelled", seq: 8, id: "a", lang: "de" });
    pending.onEvent({ type: "cancelled", id: "a" });
    pending.onEvent({ type: "presence" });
    assert.equal(pending.unconfirmed().length, 1);
    pending.onEvent(end);
    assert.equal(pending.unconfirmed().length, 0);
  }
  const pending = new PendingRequests();
  pending.add(say("a", "one", false));
  pending.onEvent(source(1, "a"));
  pending.onEvent({ type: "cancelled", seq: 9, id: "a" });
  assert.equal(pending.unconfirmed().length, 1, "that was its first segment");
  pending.remove("a");
  assert.equal(pending.get("a"), null);
});

test("a temporarily refused message is sent again if it is final, and dropped otherwise", () => {
  const pending = new PendingRequests();
  const busy = { type: "error", code: "busy", retry: true };
  const whole = pending.add(say("a", "one"));
  pending.add(say("b", "tw", false));
  assert.equal(pending.onError({ ...busy, id: "a" }), whole);
  assert.equal(pending.onError({ ...busy, id: "b" }), null);
  assert.equal(pending.onError({ ...busy, code: "rate", id: "a" }), null);
  assert.deepEqual(texts(pending), [["a", 1, "one"]]);
  assert.equal(pending.onError({ type: "error", code: "stale", retry: false, id: "a" }), null);
  assert.equal(pending.onError(busy), null);
  assert.deepEqual(texts(pending), []);
});

test("the number of pending utterances is limited", () => {
  const pending = new PendingRequests();
  const taken = Array.from({ length: 200 }, (_, n) => pending.add(say(`u${n}`, "x")));
  assert.equal(taken.filter(Boolean).length, 100);
  assert.notEqual(pending.add(say("u0", "xy")), null, "an utterance that has begun may grow");
});
