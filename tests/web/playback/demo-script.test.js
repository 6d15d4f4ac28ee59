// The script of the demo meeting.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { dueBefore, readScript, timeline } from "../../../web_demo/playback/demo-script.js";

const file = (lang) => readFileSync(new URL(`../../../web_demo/meeting/${lang}.txt`, import.meta.url), "utf8");
const LANGUAGES = ["en", "de", "fr", "es", "ja", "zh"];

test("the script has a hundred lines of five people in each of six languages", () => {
  for (const lang of LANGUAGES) {
    const lines = readScript(file(lang));
    assert.equal(lines.length, 100, lang);
    assert.equal(new Set(lines.map(({ speaker }) => speaker)).size, 5);
    assert.ok(lines.every(({ text, speaker }) => text && speaker));
  }
});

test("a line has the same speaker in every language", () => {
  const [first, ...others] = LANGUAGES.map((lang) => readScript(file(lang)).map(({ speaker }) => speaker));
  for (const other of others) assert.deepEqual(other, first);
});

test("a line grows word by word and ends as written", () => {
  const said = timeline([{ speaker: "A", text: "Yes, loud and clear." }], "en");
  assert.deepEqual(said.map(({ text }) => text), ["Yes", "Yes, loud", "Yes, loud and", "Yes, loud and clear."]);
  assert.deepEqual(said.map(({ final }) => final), [false, false, false, true]);
});

test("text without spaces grows by characters, and none is divided", () => {
  const texts = timeline([{ speaker: "A", text: "能，听得很清楚👍。" }], "zh").map(({ text }) => text);
  assert.equal(texts.at(-1), "能，听得很清楚👍。");
  assert.ok(texts.every((text) => texts.at(-1).startsWith(text) && text.isWellFormed()));
  assert.ok(texts.length > 3);
});

test("times increase, and the meeting takes four to eight minutes", () => {
  for (const lang of LANGUAGES) {
    const said = timeline(readScript(file(lang)), lang);
    assert.ok(said.every(({ at }, i) => !i || at > said[i - 1].at), lang);
    assert.ok(said.at(-1).at > 240 && said.at(-1).at < 480, `${lang} ${said.at(-1).at}`);
    assert.equal(said.filter(({ final }) => final).length, 100);
  }
});

test("entries are due when their time has passed", () => {
  const said = [{ at: 1 }, { at: 2 }, { at: 3 }];
  assert.deepEqual([dueBefore(said, 0, 0.5), dueBefore(said, 0, 2), dueBefore(said, 2, 9)], [0, 2, 3]);
});
