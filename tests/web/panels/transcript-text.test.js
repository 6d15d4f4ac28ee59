// Transcripts of the lines that a page holds.

import assert from "node:assert/strict";
import { test } from "node:test";

import { linesOf, writeTranscript } from "../../../web_demo/panels/transcript-text.js";

const caption = (stable, status = "final") => ({ stable, draft: "", status, code: null });
const utterance = (fields) => ({ key: "1/a", id: "a", ord: 1, lang: "en", text: "hello", speaker: null, final: true, at: null, captions: {}, ...fields });
const BEGAN = Date.UTC(2026, 1, 3, 9);

const LINES = linesOf([
  utterance({ speaker: "Ann", at: BEGAN, captions: { de: caption("hallo") } }),
  utterance({ id: "b", text: "a  <b>\nb --> c", speaker: "Ben", at: BEGAN + 61_000, captions: { de: caption("halb", "growing") } }),
  utterance({ id: "c", text: "unfinished", final: false }),
  utterance({ id: "d", text: "without a time" }),
]);

test("finished lines are kept, with their finished captions", () => {
  assert.deepEqual(LINES.map(({ id, captions }) => [id, captions]), [["a", { de: { text: "hallo" } }], ["b", {}], ["d", {}]]);
});

test("plain text has a time, the speaker and the caption; a line without one is its original, marked", () => {
  assert.equal(writeTranscript("txt", "de", LINES, { room: "r" }),
    "[00:00:00] Ann: hallo\n[00:00:59] Ben: [en] a <b> b → c\n[00:00:59] [en] without a time\n");
  assert.match(writeTranscript("txt", "", LINES, { room: "r" }), /^\[00:00:00\] Ann: hello\n/);
});

test("subtitles have times in order and no markup of the text", () => {
  const vtt = writeTranscript("vtt", "", LINES, { room: "r" });
  assert.match(vtt, /^WEBVTT\n\n1\n00:00:00\.000 --> 00:00:00\.400\n<v Ann>hello\n\n2\n/);
  assert.match(vtt, /<v Ben>a &lt;b&gt; b → c\n/);
  assert.match(writeTranscript("srt", "", LINES, { room: "r" }), /2\n00:00:59,760 --> 00:01:01,400\nBen: a <b> b → c\n/);
});

test("JSON has the lines, and a meeting without lines gives an empty file", () => {
  const { room, name, utterances } = JSON.parse(writeTranscript("json", "de", LINES, { room: "r", name: "Weekly" }));
  assert.deepEqual([room, name, utterances.length], ["r", "Weekly", 3]);
  assert.equal(writeTranscript("txt", "de", [], { room: "r" }), "");
});
