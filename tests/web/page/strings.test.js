// The table of texts: every word of the page stands in it, in every language.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { STRINGS, UI_LANGUAGES, chooseLanguage, errorText, readTable } from "../../../web_demo/page/strings.js";

const PAGE = new URL("../../../web_demo/", import.meta.url);
const SENTENCE = /(["`])[\p{Lu}][\p{Ll}’]+ [^"`]*\1/gu; // a capital letter, and a second word
const ATTRIBUTES = { title: "title", "aria-label": "label", placeholder: "placeholder", alt: "alt" };

const names = readdirSync(PAGE, { recursive: true });
const read = (name) => readFileSync(new URL(name, PAGE), "utf8");
const scripts = names.filter((name) => name.endsWith(".js") && !name.startsWith("page/strings/"));
const pages = names.filter((name) => name.endsWith(".html"));
const tables = new Map(await Promise.all(UI_LANGUAGES.map(async (lang) =>
  [lang, (await import(new URL(`page/strings/${lang}.js`, PAGE).href)).default])));

/** Return the entries of a table by their path, such as "page.title"; each as a list of its forms. */
function entriesOf(table) {
  return new Map(Object.entries(table).flatMap(([part, texts]) =>
    Object.entries(texts).map(([key, text]) => [`${part}.${key}`, typeof text === "string" ? { text } : text])));
}

const english = entriesOf(tables.get("en"));
const values = (text) => [...new Set(text.match(/\{\w+\}/g) ?? [])].sort();

/** Return the tags of an HTML file: each with its name, its attributes and all text directly inside it. */
function tagsOf(html) {
  const [open, all] = [[], []];
  for (const [, end, name, attributes, text] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)([^>]*)>([^<]*)/g)) {
    const fields = Object.fromEntries(Array.from(attributes.matchAll(/([a-z-]+)="([^"]*)"/g), ([, key, value]) => [key, value]));
    if (end) {
      const closed = open.pop();
      if (closed.name === "code") open.at(-1).text += `\`${closed.text}\``;
    } else {
      open.push({ name, fields, text: "" });
      all.push(open.at(-1));
      if (["meta", "link", "img", "input", "use", "br"].includes(name) || attributes.endsWith("/")) open.pop();
    }
    if (text.trim()) open.at(-1).text += text;
  }
  return all.filter(({ name }) => name !== "code");
}

const decode = (text) => text.replaceAll("&#10;", "\n").replaceAll("&amp;", "&");
const tagsOfPages = pages.flatMap((name) => tagsOf(read(name)).map((tag) => ({ ...tag, page: name })));

test("the scripts of the page show no text that is not in the table", () => {
  assert.ok(scripts.length > 30);
  for (const name of scripts) {
    const code = read(name).replace(/^\s*(\/\/|\/?\*).*$/gm, "").replace(/ \/\/ .*$/gm, "");
    const found = (code.match(SENTENCE) ?? []).filter((text) => !text.startsWith("`Bearer "));
    assert.deepEqual(found, [], name);
  }
});

test("every text of an HTML file names its key and is the English text of it", () => {
  const samples = tagsOfPages.filter(({ name, text }) => text && name !== "noscript");
  assert.ok(samples.length > 60);
  const [speed, ...texts] = [...samples].sort((a, b) => Boolean(a.fields["data-text"]) - Boolean(b.fields["data-text"]));
  assert.equal(speed.text, "1×");
  for (const { page, text, fields } of texts) assert.equal(text, english.get(fields["data-text"])?.text, `${page}: ${text}`);
});

test("every attribute of an HTML file that people read names its key and is the English text of it", () => {
  for (const { page, name, fields } of tagsOfPages) {
    for (const [attribute, key] of Object.entries(ATTRIBUTES)) {
      if (!fields[attribute]) continue;
      assert.equal(decode(fields[attribute]), english.get(fields[`data-${key}`])?.text, `${page}: ${name} ${attribute}`);
    }
    for (const key of Object.values(ATTRIBUTES)) if (fields[`data-${key}`]) assert.ok(english.has(fields[`data-${key}`]), fields[`data-${key}`]);
  }
});

test("every text of the table is used", () => {
  const code = scripts.map(read).join("\n");
  const used = new Set(code.match(/STRINGS\.\w+\.\w+/g)?.map((name) => name.slice("STRINGS.".length)));
  for (const { fields } of tagsOfPages) for (const kind of ["text", "title", "label", "placeholder"]) used.add(fields[`data-${kind}`]);
  const byCode = new Set(Array.from(code.matchAll(/STRINGS\.(\w+)\[/g), ([, part]) => part));
  const unused = [...english.keys()].filter((path) => !used.has(path) && !byCode.has(path.split(".")[0]));
  assert.deepEqual(unused, []);
  assert.deepEqual([...used].filter((path) => path && !english.has(path)), [], "used, but not in the table");
});

for (const [lang, table] of tables) {
  test(`${lang} has every text, with the same values and the plural forms of the language`, () => {
    const entries = entriesOf(table);
    assert.deepEqual([...entries.keys()], [...english.keys()]);
    const rules = new Intl.PluralRules(lang);
    const forms = [...new Set(Array.from({ length: 1001 }, (_, n) => rules.select(n)))].sort(); // some are for millions only
    for (const [path, entry] of entries) {
      const wanted = english.get(path);
      assert.equal("other" in entry, "other" in wanted, path);
      if ("other" in entry) assert.deepEqual(Object.keys(entry).sort(), forms, path);
      for (const [form, text] of Object.entries(entry)) {
        assert.equal(text, text.trim(), path);
        assert.ok(text, path);
        // A form for one, two or no things may say so in words.
        const same = values(wanted.text ?? wanted.other).filter((name) => name !== "{count}" || values(text).includes(name));
        assert.deepEqual(values(text), same, `${path} ${form}`);
        if (form === "other") assert.deepEqual(values(text), values(wanted.other), path);
        assert.equal(text.split("`").length, (wanted.text ?? wanted.other).split("`").length, path);
      }
    }
  });
}

test("the interface has the first wanted language that it knows, else English", () => {
  assert.equal(chooseLanguage(["xx-YY", "EN-gb"]), "en");
  assert.equal(chooseLanguage(["xx"]), "en");
  assert.equal(chooseLanguage(["xx", "zh-Hant-TW", "en"]), "zh");
});

test("a text with values writes numbers and chooses its form as its language does", () => {
  const table = { part: { plain: "Ja", limit: "bis {limit} {unit}", lines: { one: "{count} Zeile", other: "{count} Zeilen" } } };
  const { part } = readTable(table, "de");
  assert.equal(part.plain, "Ja");
  assert.equal(part.limit({ limit: 2000, unit: "{count}" }), "bis 2.000 {count}");
  assert.deepEqual([1, 2, 1000].map((count) => part.lines({ count })), ["1 Zeile", "2 Zeilen", "1.000 Zeilen"]);
});

test("a value in a right-to-left text is isolated, so that its punctuation stays with it", () => {
  const { part } = readTable({ part: { broken: "لا يعمل: {reason}" } }, "ar");
  assert.equal(part.broken({ reason: "It broke." }), "لا يعمل: \u2068It broke.\u2069");
});

test("an error has a text of the page, else that of the gateway", () => {
  assert.equal(errorText({ code: "busy", msg: "busy", hint: "wait" }), STRINGS.errors.busy);
  assert.equal(errorText({ code: "bad_frame", msg: "No object.", hint: "Send one." }), "No object. Send one.");
  assert.equal(errorText({ code: "bad_frame", msg: "No object." }), "No object.");
});
