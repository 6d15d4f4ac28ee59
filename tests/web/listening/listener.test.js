// The voice that reads captions aloud, with a simulated synthesis of the browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { EMPTY_STATE, reduce } from "../../../clients/js/captions.js";
import { Listener } from "../../../web_demo/listening/listener.js";
import { newId } from "../../../web_demo/speech/utterance-ids.js";

const WELCOME = { type: "welcome", epoch: "e", seq: 0 };
const final = (id, text = `Zeile ${id}`, lang = "de") => ({ type: "final", id, lang, text });

/** A synthesis whose utterances end when the test says so. */
class Synthesis extends EventTarget {
  said = [];
  queue = [];
  voices = ["de-DE", "en_US"].map((lang) => ({ lang, localService: true }));
  getVoices() { return this.voices; }
  speak(utterance) {
    this.said.push(utterance);
    this.queue.push(utterance);
  }
  cancel() { this.queue = []; }
  end() { this.queue.shift()?.onend?.(); }
}

async function listening(t, { lang = "de", state = reduce(EMPTY_STATE, WELCOME), voices } = {}) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const synthesis = new Synthesis();
  if (voices) synthesis.voices = voices;
  let now = 0;
  const made = { synthesis, heard: [], notices: [] };
  made.listener = new Listener({
    synthesis, now: () => now,
    Utterance: class { constructor(text) { this.text = text; } },
    onChange: (tag) => made.heard.push(tag),
    onNotice: (text) => made.notices.push(text),
  });
  made.tick = (ms) => { now += ms; t.mock.timers.tick(ms); };
  made.told = (...events) => events.forEach((event) => made.listener.onEvent(event));
  made.said = () => synthesis.said.slice(1).map(({ text }) => text); // the first is the name of the language
  const starting = made.listener.start(lang, state);
  t.mock.timers.tick(2_000);
  await starting;
  synthesis.queue = [];
  return made;
}

test("one tap speaks the name of the language, which also unlocks sound, and then each finished caption", async (t) => {
  const made = await listening(t);
  assert.deepEqual([made.synthesis.said[0].text, made.synthesis.said[0].lang, made.heard], ["Deutsch", "de-DE", ["de"]]);
  made.told({ type: "delta", id: "a", lang: "de", draft: "Zei" }, final("a"), final("a", "Ligne a", "fr"), final("b"));
  made.tick(400);
  assert.deepEqual(made.said(), ["Zeile a"], "one at a time");
  made.synthesis.end();
  made.tick(400);
  assert.deepEqual(made.said(), ["Zeile a", "Zeile b"]);
});

test("nothing is spoken twice, also when a broken connection sends captions again", async (t) => {
  const state = [WELCOME, { type: "source", id: "old", seq: 1, rev: 1, ord: 1, lang: "en", text: "old" }, final("old", "alt")].reduce(reduce, EMPTY_STATE);
  const made = await listening(t, { state });
  made.told(final("a"));
  made.tick(400);
  made.synthesis.end();
  made.told({ type: "welcome", epoch: "f" }, final("old", "alt"), final("a"), final("b"));
  made.tick(400);
  made.synthesis.end();
  assert.deepEqual(made.said(), ["Zeile a", "Zeile b"]);
});

test("lines that this page said are not spoken to the person who said them", async (t) => {
  const made = await listening(t);
  made.told(final(newId(), "von mir"), final("a"));
  made.tick(400);
  assert.deepEqual(made.said(), ["Zeile a"]);
});

test("a deleted line is not spoken, and a corrected one as it was corrected", async (t) => {
  const made = await listening(t);
  made.told(final("a"), final("b"), final("c"), { type: "retracted", id: "b" }, { type: "edited", id: "c", lang: "de", text: "verbessert" });
  for (let n = 0; n < 3; n++) {
    made.tick(400);
    made.synthesis.end();
  }
  assert.deepEqual(made.said(), ["Zeile a", "verbessert"]);
});

test("while the own microphone is open it is quiet, and says afterwards what was interrupted", async (t) => {
  const made = await listening(t);
  made.told(final("a"));
  made.tick(400);
  made.listener.hold(true);
  assert.equal(made.synthesis.queue.length, 0);
  made.told(final("b"));
  made.tick(5_000);
  assert.deepEqual(made.said(), ["Zeile a"]);
  made.listener.hold(false);
  for (let n = 0; n < 2; n++) {
    made.tick(400);
    made.synthesis.end();
  }
  assert.deepEqual(made.said(), ["Zeile a", "Zeile a", "Zeile b"]);
});

test("after a long silence it skips to the newest line, and says so in the language of the page", async (t) => {
  const made = await listening(t);
  made.listener.hold(true);
  made.told(final("a"), final("b"));
  made.tick(60_000);
  made.told(final("c"));
  made.listener.hold(false);
  made.tick(400);
  assert.deepEqual(made.notices, ["2 lines were skipped."]);
  assert.deepEqual(made.said(), ["2 lines were skipped.", "Zeile c"]);
  assert.equal(made.synthesis.said.at(-2).lang, "en_US");
});

test("a voice that never ends is given up", async (t) => {
  const made = await listening(t);
  made.told(final("a"), final("b"));
  made.tick(400);
  made.tick(30_000);
  made.tick(400);
  assert.equal(made.said().at(-1), "Zeile b");
});

test("a language without a voice is not switched on, and a sentence says so", async (t) => {
  const made = await listening(t, { lang: "ar" });
  assert.match(made.notices[0], /no voice for Arabic/);
  made.told(final("a", "سطر", "ar"));
  made.tick(400);
  assert.deepEqual([made.heard, made.said()], [[], []]);
});

test("voices that the browser loads late are waited for, and stop ends everything", async (t) => {
  const made = await listening(t, { voices: [] });
  assert.equal(made.notices.length, 1);
  made.synthesis.voices = [{ lang: "de-DE", localService: false }];
  const starting = made.listener.start("de", EMPTY_STATE);
  await starting;
  made.told(final("a"));
  made.tick(100);
  made.listener.stop();
  made.tick(5_000);
  assert.deepEqual(made.heard, ["de", null]);
  assert.equal(made.synthesis.queue.length, 0);
});
