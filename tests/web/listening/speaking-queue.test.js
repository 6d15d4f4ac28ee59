// Which line is spoken next, how fast, and what is skipped.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { SpeakingQueue } from "../../../web_demo/listening/speaking-queue.js";
import { readScript, timeline } from "../../../web_demo/playback/demo-script.js";

const line = (id, at = 0, text = `This is line ${id}.`) => ({ id, text, at });

function filled(...lines) {
  const queue = new SpeakingQueue();
  for (const one of lines) queue.add(one);
  return queue;
}

/** Take everything out of a queue at one moment. */
function all(queue, now = 0) {
  const taken = [];
  for (let next; (next = queue.next(now)); ) taken.push(next);
  return taken;
}

test("lines are spoken in their order, each once, at the normal rate when nothing waits", () => {
  const queue = filled(line("a"));
  assert.deepEqual(queue.next(0), { part: line("a"), rate: 1, pause: 300, skipped: 0 });
  assert.equal(queue.next(0), null);
  assert.deepEqual(all(filled(line("a"), line("b"))).map(({ part }) => part.id), ["a", "b"]);
});

test("speech that falls behind becomes faster, then its pauses become shorter", () => {
  const steps = [0, 1_000, 2_500, 5_000].map((now) => filled(line("a")).next(now));
  for (const [i, { rate, pause }] of steps.slice(1).entries()) {
    assert.ok(rate > steps[i].rate);
    assert.ok(pause <= steps[i].pause);
  }
  const busy = filled(...Array.from({ length: 8 }, (_, n) => line(`${n}`, 0, "x".repeat(30))));
  assert.ok(busy.next(0).rate > 1.4, "much is waiting, although nothing is late yet");
});

test("speech that is too far behind skips to the newest line, and tells how many lines it left out", () => {
  const { part, skipped } = filled(line("a"), line("b"), line("c", 12_500)).next(13_000);
  assert.deepEqual([part.id, skipped], ["c", 2]);
  const flood = filled(...Array.from({ length: 40 }, (_, n) => line(`${n}`, 0, "x".repeat(60))));
  const taken = all(flood);
  assert.deepEqual(taken.map(({ part: { id }, skipped: n }) => [id, n]), [["39", 39]]);
});

test("a line that waits is corrected or dropped, and one that was spoken is not spoken again", () => {
  const queue = filled(line("a"), line("b"), line("c"));
  assert.equal(queue.next(0).part.id, "a");
  queue.correct("a", "Another text.");
  queue.correct("b", "A corrected line.");
  queue.remove("c");
  assert.deepEqual(all(queue).map(({ part }) => part.text), ["A corrected line."]);
});

test("a long line is spoken in parts, since browsers stop in the middle of long texts", () => {
  const text = Array.from({ length: 12 }, (_, n) => `This is sentence number ${n} of a line.`).join(" ");
  const taken = all(filled(line("a", 0, text)));
  assert.ok(taken.length > 1 && taken.every(({ part }) => part.text.length <= 200));
  assert.equal(taken.map(({ part }) => part.text).join(" "), text);
});

test("a part that was interrupted comes first again, and nothing is left after clear", () => {
  const queue = filled(line("a"), line("b"));
  const { part } = queue.next(0);
  queue.putBack(part);
  assert.equal(queue.next(0).part.id, "a");
  queue.clear();
  assert.equal(queue.next(0), null);
});

const meeting = (lang) => readScript(readFileSync(new URL(`../../../web_demo/meeting/${lang}.txt`, import.meta.url), "utf8"));
const SPOKEN = timeline(meeting("en"), "en").filter(({ final }) => final);
const TRANSLATED_MS = 300; // from the end of a line to its caption
const SLOW_VOICE = 0.013; // characters in a millisecond; Chinese and Japanese say as much in fewer of them
const DENSE = { ja: 2.4, zh: 2.4 };

for (const lang of ["en", "de", "fr", "es", "ja", "zh"]) {
  test(`in ${lang} a slow voice speaks all lines of the meeting, 95 % of them within 3 s of the caption`, () => {
    const captions = meeting(lang).map(({ text }, n) => ({ id: `${n}`, text, at: 1000 * SPOKEN[n].at + TRANSLATED_MS }));
    const queue = new SpeakingQueue();
    const lags = [];
    let [now, added] = [0, 0];
    while (lags.length < captions.length) {
      while (captions[added]?.at <= now) queue.add(captions[added++]);
      const next = queue.next(now);
      if (!next) {
        now = captions[added].at;
        continue;
      }
      assert.equal(next.skipped, 0);
      assert.equal(next.part.id, `${lags.length}`);
      lags.push(now + next.pause - next.part.at);
      const ms = [...next.part.text].length / SLOW_VOICE * (DENSE[lang] ?? 1) / next.rate;
      queue.learn(next.part.text, ms, next.rate);
      now += next.pause + ms;
    }
    const p95 = lags.sort((one, other) => one - other)[94];
    assert.ok(p95 <= 3_000, `${p95} ms`);
  });
}
