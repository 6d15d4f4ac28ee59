// The browser's speech recogniser, played by a fake: what is said of what it hears.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ContinuousRecognition, readResults } from "../../web_demo/speech/speech-recognition.js";

const result = (transcript, isFinal = false) => Object.assign([{ transcript }], { isFinal });

class Fake {
  static made = [];
  constructor() { Fake.made.push(this); }
  start() { this.onstart(); }
  stop() { this.onend(); }
  hears(...results) { this.onresult({ results }); }
}

function setUp({ mock }) {
  mock.timers.enable({ apis: ["setTimeout"] });
  Fake.made = [];
  const said = [];
  const states = [];
  const speech = new ContinuousRecognition({
    onText: (text, final, lang) => said.push(`${lang} ${text}${final ? "." : ""}`),
    onState: (state) => states.push(state),
    Recogniser: Fake,
  });
  return { speech, said, states, fake: () => Fake.made.at(-1), tick: (ms) => mock.timers.tick(ms) };
}

test("results that are not final are one text that grows", () => {
  assert.deepEqual(readResults([result("we meet"), result(" again")], 0), { finals: [], growing: "we meet again", next: 0 });
});

test("results that are final are said once", () => {
  const results = [result("good morning", true), result("we"), ];
  assert.deepEqual(readResults(results, 0), { finals: ["good morning"], growing: "we", next: 1 });
  assert.deepEqual(readResults(results, 1), { finals: [], growing: "we", next: 1 });
});

test("an empty final, as telephones send, is nothing", () => {
  assert.deepEqual(readResults([result("", true)], 0), { finals: [], growing: "", next: 1 });
});

test("what is heard is said as it grows, and to its end", (t) => {
  const { speech, said, fake } = setUp(t);
  speech.start("de");
  fake().hears(result("guten"));
  fake().hears(result("guten"));
  fake().hears(result("guten Morgen"));
  fake().hears(result("Guten Morgen", true));
  assert.equal(fake().lang, "de-DE");
  assert.deepEqual(said, ["de guten", "de guten Morgen", "de Guten Morgen."]);
});

test("a recogniser that stops by itself is started again, and what it heard is said to its end", (t) => {
  const { speech, said, fake, tick } = setUp(t);
  speech.start("en");
  fake().hears(result("we meet"));
  fake().onend();
  assert.deepEqual(said, ["en we meet", "en we meet."]);
  tick(250);
  assert.equal(Fake.made.length, 2);
  fake().hears(result("again", true));
  assert.equal(said.at(-1), "en again.");
});

test("starts in vain come less and less often", (t) => {
  const { speech, fake, tick } = setUp(t);
  speech.start("en");
  fake().onend();
  tick(250);
  fake().onend();
  tick(250);
  assert.equal(Fake.made.length, 2);
  tick(250);
  assert.equal(Fake.made.length, 3);
});

test("mute says what was heard and listens no more, until it is started again", (t) => {
  const { speech, said, states, fake, tick } = setUp(t);
  speech.start("en");
  fake().hears(result("wait"));
  speech.mute();
  tick(10_000);
  assert.deepEqual(said, ["en wait", "en wait."]);
  assert.deepEqual([states.at(-1), Fake.made.length], ["muted", 1]);
  speech.start("en");
  assert.equal(states.at(-1), "listening");
});

test("another language is spoken by another recogniser", (t) => {
  const { speech, said, fake, tick } = setUp(t);
  speech.start("en");
  fake().hears(result("hello"));
  speech.setLanguage("fr");
  tick(250);
  assert.equal(fake().lang, "fr-FR");
  assert.equal(said.at(-1), "en hello.");
});

test("a microphone that is not allowed is said, and not asked for again", (t) => {
  const { speech, states, fake, tick } = setUp(t);
  speech.start("en");
  fake().onerror({ error: "not-allowed" });
  fake().onend();
  tick(60_000);
  assert.deepEqual([states.at(-1), Fake.made.length], ["blocked", 1]);
});

test("a browser that cannot recognise speech says so", () => {
  const states = [];
  const speech = new ContinuousRecognition({ onText: () => {}, onState: (...state) => states.push(state), Recogniser: undefined });
  speech.start("en");
  assert.equal(states[0][0], "blocked");
  assert.match(states[0][1], /cannot recognise speech/);
});
