// A transcript that was pasted, line by line.

import assert from "node:assert/strict";
import { test } from "node:test";

import { parse, timed } from "../../web_demo/transcript.js";

const texts = (pasted) => parse(pasted).map(({ text }) => text);

test("each line of plain text is a line, and empty ones are none", () => {
  assert.deepEqual(texts("Good morning.\r\n\r\nCan you hear me?\n"), ["Good morning.", "Can you hear me?"]);
});

test("a name before a colon says who speaks", () => {
  assert.deepEqual(parse("Ann Lee: Good morning.\n田中：はい。\nThe time is: ten.\nhttp://example.org"), [
    { speaker: "Ann Lee", text: "Good morning." },
    { speaker: "田中", text: "はい。" },
    { speaker: null, text: "The time is: ten." },
    { speaker: null, text: "http://example.org" },
  ]);
});

test("WebVTT is read without its times, and a cue of two lines is one", () => {
  const vtt = "WEBVTT\n\nNOTE made by hand\n\n1\n00:01.000 --> 00:02.000\n<v Ann>Good\nmorning.</v>\n\n2\n00:00:03.000 --> 00:00:04.000 align:start\nYes.";
  assert.deepEqual(parse(vtt), [{ speaker: "Ann", text: "Good morning." }, { speaker: null, text: "Yes." }]);
});

test("SubRip is read with and without empty lines between its cues", () => {
  const srt = "1\n00:00:01,000 --> 00:00:02,000\nGood morning.\n2\n00:00:03,000 --> 00:00:04,000\nYes.\n";
  assert.deepEqual(texts(srt), ["Good morning.", "Yes."]);
});

test("nothing is nothing", () => {
  assert.deepEqual(parse(" \n\n"), []);
});

test("lines are said one after the other, each to its end", () => {
  const said = timed(parse("one\ntwo"));
  assert.deepEqual(said.map(({ line, final }) => [line, final]), [[0, true], [1, true]]);
  assert.ok(said[1].at > said[0].at);
});
