// The rows of captions on the page, for events that a simulated socket sends.

import assert from "node:assert/strict";
import { test } from "node:test";

import { openSimulated, useBrowser } from "./fixtures.js";

const environment = useBrowser();

let seq = 0;
const source = (id, ord, speaker, text = `line ${id}`) => ({ type: "source", seq: ++seq, id, rev: 1, ord, lang: "en", text, speaker });

test("a row shows its speaker when a row of another one comes before it afterwards", async () => {
  const { page, tell } = await openSimulated(environment, "role=view&to=de");
  tell(source("a", 1, "Yumiko"), source("c", 3, "Yumiko"));
  await page.locator(".row").nth(1).waitFor();
  const named = () => page.locator(".speaker span").evaluateAll((names) => names.map((name) => name.offsetWidth > 1));
  assert.deepEqual(await named(), [true, false]);
  tell(source("b", 2, "Jürgen"));
  await page.locator(".row").nth(2).waitFor();
  assert.deepEqual(await named(), [true, true, true]);
});
