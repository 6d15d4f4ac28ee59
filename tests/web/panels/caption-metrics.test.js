// The measurements of the Statistics panel.

import assert from "node:assert/strict";
import { test } from "node:test";

import { EMPTY_METRICS, append, mean, measure, quantile, parsePrometheus } from "../../../web_demo/panels/caption-metrics.js";

const delta = (fields) => ({ type: "delta", id: "a", lang: "de", ...fields });
const final = (text, fields) => ({
  type: "final", id: "a", lang: "de", text, by: "mt", ms: { queue: 1, first: 20, total: 90 }, ...fields,
});
const after = (...events) => events.reduce(measure, EMPTY_METRICS);

test("a final adds the times of its first and its last text", () => {
  const { first, final: whole } = after(final("Ja."), final("Nein.", { id: "b", ms: { first: 30, total: 50 } }));
  assert.deepEqual([first, whole], [[20, 30], [90, 50]]);
});

test("text that only grows has no erasure", () => {
  assert.deepEqual(after(delta({ add: "Guten" }), delta({ add: " Morgen" }), final("Guten Morgen")).erasure, [0]);
});

test("erasure is the number of removed characters for each character of the final", () => {
  const { erasure } = after(delta({ draft: "Wir sind" }), delta({ draft: "Wir treffen" }), final("Wir treffen uns"));
  assert.deepEqual(erasure, [4 / 15]);
});

test("a draft that becomes stable is not counted as erased", () => {
  assert.deepEqual(after(delta({ draft: "Wir" }), delta({ add: "Wir", draft: "" }), final("Wir")).erasure, [0]);
});

test("stable text that is reset counts as erased", () => {
  assert.deepEqual(after(delta({ add: "Ja" }), delta({ add: "Nein", reset: true }), final("Nein")).erasure, [0.5]);
});

test("a caption without deltas has no erasure", () => {
  assert.deepEqual(after(final("Ja.")).erasure, []);
});

test("a caption in the speaker's language is not measured", () => {
  assert.deepEqual(after(final("Yes.", { by: "same" })).first, []);
});

test("the number of kept values is limited", () => {
  const many = Array.from({ length: 500 }, (_, i) => [delta({ id: `${i}`, draft: "x" }), final("x", { id: `y${i}` })]);
  const { shown, first } = after(...many.flat());
  assert.ok(shown.size <= 90 && first.length === 90);
  assert.equal(append(first, 7).at(-1), 7);
});

test("the quantile of 0.5 is the median", () => {
  assert.deepEqual([quantile([3, 1, 2], 0.5), quantile([], 0.5), mean([1, 3]), mean([])], [2, null, 2, null]);
});

test("metrics without labels are parsed, others are ignored", () => {
  const text = '# HELP a b\ngateway_tokens_total 12.0\ngateway_engine_health{state="ready"} 1.0\ngateway_x 1e-05\n';
  assert.deepEqual(parsePrometheus(text), { gateway_tokens_total: 12, gateway_x: 1e-5 });
});
