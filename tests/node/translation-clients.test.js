// Clients of other translation services, unmodified, with the gateway's address. Runs against the
// gateway at GATEWAY_HTTP, whose engine gives the translations of `tests/node/test_node.py`.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as deepl from "deepl-node";
import OpenAI from "openai";
import translate from "translate";

const BASE = process.env.GATEWAY_HTTP;
if (!BASE) throw new Error("Set GATEWAY_HTTP, such as http://127.0.0.1:8000.");

const TEXT = "Good morning everybody";
const GERMAN = "Guten Morgen 👋 zusammen";
const MESSAGES = [{ role: "user", content: TEXT }];
const MODEL = "translate-en-to-de";

test("openai translates, streams and cancels", async () => {
  const api = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: "none", maxRetries: 0 });
  const whole = await api.chat.completions.create({ model: MODEL, messages: MESSAGES });
  assert.equal(whole.choices[0].message.content, GERMAN);
  const stream = await api.chat.completions.create({ model: MODEL, messages: MESSAGES, stream: true });
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0].delta.content ?? "";
  assert.equal(text, GERMAN);
  const cut = await api.chat.completions.create({ model: MODEL, messages: MESSAGES, stream: true });
  cut.controller.abort();
  await assert.rejects(api.chat.completions.create({ model: "any", messages: MESSAGES }), {
    status: 400,
  });
});

test("deepl-node translates texts and lists languages", async () => {
  const api = new deepl.DeepLClient("any", { serverUrl: BASE });
  const answer = await api.translateText(TEXT, "en", "de");
  assert.equal(answer.text, GERMAN);
  assert.equal(answer.detectedSourceLang, "en");
  assert.ok((await api.getTargetLanguages()).some(({ code }) => code === "de"));
});

test("translate works with the engine libre", async () => {
  translate.engine = "libre";
  translate.url = `${BASE}/translate`;
  assert.equal(await translate(TEXT, { from: "en", to: "de" }), GERMAN);
});
