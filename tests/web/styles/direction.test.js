// The style sheets, which also lay out pages that are written from the right.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

const STYLES = new URL("../../../web_demo/styles/", import.meta.url);
const PHYSICAL = /(?<![-\w])((margin|padding|border|inset)-)?(left|right)\s*:|(text-align|float|clear)\s*:\s*(left|right)/g;
const FOUR_SIDES = /(?<![-\w])(margin|padding|inset)\s*:\s*([^;{}]+)/g;

/** Return the parts of a value that spaces separate, outside parentheses. */
function partsOf(value) {
  return value.replace(/!important/, "").trim().match(/[a-z-]*\([^()]*(\([^()]*\)[^()]*)*\)|[^\s()]+/g);
}

test("the style sheets say where a line begins and ends, not left and right", () => {
  const names = readdirSync(STYLES).filter((name) => name.endsWith(".css"));
  assert.ok(names.length >= 4);
  for (const name of names) {
    const css = readFileSync(new URL(name, STYLES), "utf8").replace(/\/\*.*?\*\//gs, "");
    assert.deepEqual(css.match(PHYSICAL) ?? [], [], name);
    for (const [rule, , value] of css.matchAll(FOUR_SIDES)) {
      const [, right, , left] = partsOf(value);
      if (left) assert.equal(right, left, `${name}: ${rule}`);
    }
  }
});
