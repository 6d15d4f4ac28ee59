// Which lines a saved transcript has.

import assert from "node:assert/strict";
import { test } from "node:test";

import { EMPTY_STATE, reduce } from "../../../clients/js/captions.js";
import { TranscriptFiles } from "../../../web_demo/panels/transcript-files.js";

const SETTINGS = { room: "r", name: "", http: new URL("http://127.0.0.1:1/") };
const KEY = { headers: {} };
const source = (id, ord) => ({ type: "source", seq: ord, id, rev: 1, ord, lang: "en", text: `line ${id}` });
const welcome = (epoch) => ({ type: "welcome", epoch, seq: 0 });
const after = (...events) => events.reduce(reduce, EMPTY_STATE);

/** Answer requests with the lines that a gateway has; `null` answers 404. */
function answerWith(t, lines) {
  const utterances = lines?.map((id, n) => ({ id, ord: n + 1, lang: "en", text: `line ${id}`, speaker: null, at: n, captions: {} }));
  t.mock.method(globalThis, "fetch", async ({ pathname }) => {
    if (!lines) return Response.json({ code: "not_found", error: "gone" }, { status: 404 });
    return pathname.endsWith("json") ? Response.json({ began: 100, epoch: "b", utterances }) : new Response("of the gateway");
  });
}

const text = async (files, format = "txt") => (await files.file(format, "")).text();

test("a transcript is that of the gateway, which has all lines", async (t) => {
  answerWith(t, ["a", "b"]);
  assert.equal(await text(new TranscriptFiles(SETTINGS, KEY, () => after(welcome("a"), source("a", 1)))), "of the gateway");
});

test("after a restart without a store the page adds the lines that only it has, each once", async (t) => {
  answerWith(t, ["c", "d"]);
  const state = after(welcome("a"), source("a", 1), source("b", 2), welcome("b"), source("c", 1));
  const files = new TranscriptFiles(SETTINGS, KEY, () => state);
  assert.deepEqual((await text(files)).match(/line ./g), ["line a", "line b", "line c", "line d"]);
  assert.deepEqual((await files.lines("de")).map(({ key }) => key), ["1/a", "1/b", "2/c", "2/d"], "they can be found, too");
});

test("when the meeting has ended everybody can save what they read, without the gateway", async (t) => {
  answerWith(t, null);
  const files = new TranscriptFiles(SETTINGS, KEY, () => after(welcome("a"), source("a", 1)));
  await assert.rejects(text(files), /no longer exists/);
  files.hasEnded = true;
  assert.deepEqual((await text(files)).match(/line ./g), ["line a"]);
});
