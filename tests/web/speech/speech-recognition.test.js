// Speech recognition with a simulated recogniser of the browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ContinuousRecognition, readResults } from "../../../web_demo/speech/speech-recognition.js";

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

test("unfinished results form one growing text", () => {
  assert.deepEqual(readResults([result("we meet"), result(" again")], 0), { finals: [], growing: "we meet again", next: 0 });
});

test("a final result is read once", () => {
  const results = [result("good morning", true), result("we"), ];
  assert.deepEqual(readResults(results, 0), { finals: ["good morning"], growing: "we", next: 1 });
  assert.deepEqual(readResults(results, 1), { finals: [], growing: "we", next: 1 });
});

test("an empty final result, as telephones send it, is ignored", () => {
  assert.deepEqual(readResults([result("", true)], 0), { finals: [], growing: "", next: 1 });
});

test("recognised text is reported while it grows and when it is final", (t) => {
  const { speech, said, fake } = setUp(t);
  speech.start("de");
  fake().hears(result("guten"));
  fake().hears(result("guten"));
  fake().hears(result("guten Morgen"));
  fake().hears(result("Guten Morgen", true));
  assert.equal(fake().lang, "de-DE");
  assert.deepEqual(said, ["de guten", "de guten Morgen", "de Guten Morgen."]);
});

test("a recogniser that stops is replaced, and its text is finished", (t) => {
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

test("restarts without a result become less frequent", (t) => {
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

test("mute finishes the text and stops listening until the next start", (t) => {
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

test("another language starts another recogniser", (t) => {
  const { speech, said, fake, tick } = setUp(t);
  speech.start("en");
  fake().hears(result("hello"));
  speech.setLanguage("fr");
  tick(250);
  assert.equal(fake().lang, "fr-FR");
  assert.equal(said.at(-1), "en hello.");
});

test("a forbidden microphone is reported and not requested again", (t) => {
  const { speech, states, fake, tick } = setUp(t);
  speech.start("en");
  fake().onerror({ error: "not-allowed" });
  fake().onend();
  tick(60_000);
  assert.deepEqual([states.at(-1), Fake.made.length], ["blocked", 1]);
});

test("a browser without speech recognition is reported", () => {
  const states = [];
  const speech = new ContinuousRecognition({ onText: () => {}, onState: (...state) => states.push(state), Recogniser: undefined });
  speech.start("en");
  assert.equal(states[0][0], "blocked");
  assert.match(states[0][1], /cannot recognise speech/);
});

test("over http the advice names https, since nothing that people could allow would help", () => {
  const states = [];
  const make = (Recogniser) => new ContinuousRecognition({ onText: () => {}, onState: (...state) => states.push(state), Recogniser, secure: false });
  make(undefined).start("en");
  make(class extends Fake { start() { this.onerror({ error: "not-allowed" }); } }).start("en");
  for (const [state, reason] of [states[0], states.at(-1)]) {
    assert.equal(state, "blocked");
    assert.match(reason, /only over https/);
  }
});
