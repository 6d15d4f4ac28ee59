import assert from "node:assert/strict";
import { test } from "node:test";

import { firstLanguages, pairsOf, preferredOf, reasonAgainst } from "../../../web_demo/page/pairs.js";

const PAIRS = [
  { tag: "de", targets: ["en"] },
  { tag: "en", targets: ["de", "fr"] },
];

test("a language that the spoken one cannot be translated into is refused with a reason", () => {
  assert.equal(reasonAgainst(PAIRS, ["de"], "fr"), "not from German");
  assert.equal(reasonAgainst(PAIRS, ["de"], "en"), "");
  assert.equal(reasonAgainst(PAIRS, ["de"], "de"), "", "it can be read as it was spoken");
});

test("for readers a language is refused only if no spoken one leads to it", () => {
  assert.equal(reasonAgainst(PAIRS, ["de", "en"], "fr"), "");
  assert.equal(reasonAgainst(PAIRS, ["de", "en"], "it"), "not from any other language");
});

test("while the pairs are unknown nothing is refused", () => {
  assert.equal(reasonAgainst([], ["de"], "fr"), "");
  assert.equal(reasonAgainst(PAIRS, ["auto"], "fr"), "");
});

test("a welcome tells the pairs by those that are impossible", () => {
  assert.deepEqual(pairsOf({ languages: ["de", "en"] }), [
    { tag: "de", targets: ["en"] }, { tag: "en", targets: ["de"] },
  ]);
  assert.deepEqual(pairsOf({ languages: ["de", "en"], impossible: { fr: ["de"] } }).at(-1), { tag: "fr", targets: ["en"] });
});

test("the languages that somebody wants are found among those of the gateway, most wanted first", () => {
  assert.deepEqual(preferredOf(["de-AT", "en-GB", "de", "xx"], ["de", "en", "fr"]), ["de", "en"]);
  assert.deepEqual(preferredOf(["zh-TW"], ["zh", "zh-TW"]), ["zh-TW"]);
  assert.deepEqual(preferredOf(["xx"], ["de"]), []);
});

test("everybody reads the own language first, and the person who opens a meeting another one too", () => {
  const offered = ["ar", "de", "en", "fr", "ja"];
  assert.deepEqual(firstLanguages(["de-DE", "de"], offered, false), ["de"]);
  assert.deepEqual(firstLanguages(["de-DE", "de"], offered, true), ["de", "en"]);
  assert.deepEqual(firstLanguages(["ja", "en-US", "fr"], offered, true), ["ja", "en"]);
  assert.deepEqual(firstLanguages(["en-US"], offered, true), ["en", "de"]);
  assert.deepEqual(firstLanguages(["xx"], offered, false), ["en"]);
  assert.deepEqual(firstLanguages(["xx"], ["fr", "ja"], true), ["fr", "ja"]);
  assert.deepEqual(firstLanguages(["de"], ["de"], true), ["de"]);
});
