// The table of texts: every word that scripts show stands in it.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

const PAGE = new URL("../../../web_demo/", import.meta.url);
const SENTENCE = /(["`])[\p{Lu}][\p{Ll}’]+ [^"`]*\1/gu; // a capital letter, and a second word

test("the scripts of the page show no text that is not in the table", () => {
  const scripts = readdirSync(PAGE, { recursive: true }).filter((name) => name.endsWith(".js") && !name.endsWith("strings.js"));
  assert.ok(scripts.length > 30);
  for (const name of scripts) {
    const code = readFileSync(new URL(name, PAGE), "utf8").replace(/^\s*(\/\/|\/?\*).*$/gm, "").replace(/ \/\/ .*$/gm, "");
    const found = (code.match(SENTENCE) ?? []).filter((text) => !text.startsWith("`Bearer "));
    assert.deepEqual(found, [], name);
  }
});
