// The parser of pasted transcripts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { splitLongLines, parseTranscript, scheduleLines } from "../../../web_demo/playback/transcript-parser.js";

const texts = (pasted) => parseTranscript(pasted).map(({ text }) => text);

test("each row of plain text is a line, and empty rows are ignored", () => {
  assert.deepEqual(texts("Good morning.\r\n\r\nCan you hear me?\n"), ["Good morning.", "Can you hear me?"]);
});

test("a name before a colon is the speaker", () => {
  assert.deepEqual(parseTranscript("Ann Lee: Good morning.\n田中：はい。\nThe time is: ten.\nhttp://example.org"), [
    { speaker: "Ann Lee", text: "Good morning." },
    { speaker: "田中", text: "はい。" },
    { speaker: null, text: "The time is: ten." },
    { speaker: null, text: "http://example.org" },
  ]);
});

test("WebVTT is parsed without its times, and a cue of two rows is one line", () => {
  const vtt = "WEBVTT\n\nNOTE made by hand\n\n1\n00:01.000 --> 00:02.000\n<v Ann>Good\nmorning.</v>\n\n2\n00:00:03.000 --> 00:00:04.000 align:start\nYes.";
  assert.deepEqual(parseTranscript(vtt), [{ speaker: "Ann", text: "Good morning." }, { speaker: null, text: "Yes." }]);
});

test("SubRip is parsed with and without empty rows between its cues", () => {
  const srt = "1\n00:00:01,000 --> 00:00:02,000\nGood morning.\n2\n00:00:03,000 --> 00:00:04,000\nYes.\n";
  assert.deepEqual(texts(srt), ["Good morning.", "Yes."]);
});

test("plain text keeps angle brackets and lines of digits", () => {
  const plain = ["if a < b and b > c", "Use <T> here.", "<b>bold</b>", "<v Ann>", "42", "R&amp;D"];
  assert.deepEqual(texts(plain.join("\n")), plain);
});

test("tags are removed from cues, and entities are decoded", () => {
  const cue = "<v.loud Ann><c.yellow><i>Use</i></c> <00:00:01.500>List<T>, 3 < 4 &lt;b&gt; R&amp;D &copy;";
  const vtt = `WEBVTT\n\n00:01.000 --> 00:02.000\n${cue}\n\n00:03.000 --> 00:04.000\n42\n\nNOTE made by hand`;
  assert.deepEqual(parseTranscript(vtt), [
    { speaker: "Ann", text: "Use List<T>, 3 < 4 <b> R&D &copy;" }, { speaker: null, text: "42" },
  ]);
  assert.deepEqual(texts('1\n00:00:01,000 --> 00:00:02,000\n<font color="#fff">{\\an8}Yes</font>, <I>2</I> <3\n'), ["Yes, 2 <3"]);
});

test("a line over the limit becomes several lines of the same speaker", () => {
  const lines = splitLongLines(parseTranscript("Ann: One two. Three four.\nBen: Yes."), 12);
  assert.deepEqual(lines, [{ speaker: "Ann", text: "One two." }, { speaker: "Ann", text: "Three four." }, { speaker: "Ben", text: "Yes." }]);
});

test("an empty transcript has no lines", () => {
  assert.deepEqual(parseTranscript(" \n\n"), []);
});

test("lines are scheduled one after the other, each as a final text", () => {
  const said = scheduleLines(parseTranscript("one\ntwo"));
  assert.deepEqual(said.map(({ line, final }) => [line, final]), [[0, true], [1, true]]);
  assert.ok(said[1].at > said[0].at);
});
