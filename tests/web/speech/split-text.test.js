// Division of a text that is longer than one utterance may be.

import assert from "node:assert/strict";
import { test } from "node:test";

import { lengthOf, splitText } from "../../../web_demo/speech/split-text.js";

test("a text within the limit is one part", () => {
  assert.deepEqual(splitText(" Good morning. ", 14), ["Good morning."]);
  assert.deepEqual(splitText("  ", 14), []);
});

test("a longer text is divided after a sentence", () => {
  assert.deepEqual(splitText("One two. Three four. Five.", 21), ["One two. Three four.", "Five."]);
  assert.deepEqual(splitText("一二三。四五六。七八。", 8), ["一二三。四五六。", "七八。"]);
});

test("a sentence over the limit is divided between words", () => {
  assert.deepEqual(splitText("one two three four five", 10), ["one two", "three four", "five"]);
});

test("in every script no part is over the limit, no text is lost and no grapheme is divided", () => {
  for (const char of ["a", "漢", "ก", "ب", "👍", "👩‍👩‍👧‍👦", "e\u0301", "नि", "한"]) {
    const text = char.repeat(50);
    const found = splitText(text, 16);
    assert.equal(found.join(""), text);
    for (const piece of found) {
      assert.ok(lengthOf(piece) <= 16, `${char} ${lengthOf(piece)}`);
      assert.equal(piece.replaceAll(char, ""), "");
    }
  }
  const marks = "e" + "\u0301".repeat(40); // one grapheme over the limit
  assert.deepEqual(splitText(marks, 16).map(lengthOf), [16, 16, 9]);
});
