// The texts of the pages in the language of the reader.
//
// Owns: which language the interface has; the texts of it, which stand in strings/ and are loaded on demand.
// Must not know: the document.

import { direction } from "../../clients/js/direction.js";

/** Languages of the interface: a file in strings/ for each. */
export const UI_LANGUAGES = ["en", "de", "fr", "es", "ja", "zh", "ar"];

const STORED = "ui language";

/**
 * Return the first language that the interface has; English if it has none of them.
 * @param {string[]} tags most wanted first
 */
export function chooseLanguage(tags) {
  const bases = tags.map((tag) => tag.toLowerCase().split("-")[0]);
  return bases.find((tag) => UI_LANGUAGES.includes(tag)) ?? "en";
}

/** Return the languages that the reader wants: that of the address (`?ui=`), the chosen one, those of the browser. */
export function wantedLanguages() {
  if (!globalThis.location) return []; // not in a browser
  const chosen = [new URLSearchParams(location.search).get("ui"), localStorage.getItem(STORED)];
  return [...chosen.filter(Boolean), ...navigator.languages];
}

/** Keep a language of the interface in this browser, and load the page again in it. */
export function changeLanguage(tag) {
  localStorage.setItem(STORED, tag);
  const url = new URL(location);
  url.searchParams.delete("ui");
  if (url.href === location.href) location.reload();
  else location.replace(url);
}

/**
 * Return the texts of a table, with the same keys. A text with values becomes a function of them, such as
 * `people({ count: 2 })`. Numbers are written, and forms chosen, as the language does.
 * @param {object} table as in strings/en.js
 * @param {string} lang tag of its language
 */
export function readTable(table, lang) {
  const numbers = new Intl.NumberFormat(lang);
  const forms = new Intl.PluralRules(lang);
  // In a right-to-left text, a value may be written from left to right: it is isolated (UAX #9).
  const isolate = (value) => (direction(lang) === "rtl" ? `\u2068${value}\u2069` : value);
  const write = (value) => (typeof value === "number" ? numbers.format(value) : isolate(value));
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => write(values[name]));
  const read = (entry) => {
    if (typeof entry === "string") return entry.includes("{") ? (values) => fill(entry, values) : entry;
    if ("other" in entry) return (values) => fill(entry[forms.select(values.count)] ?? entry.other, values);
    return Object.fromEntries(Object.entries(entry).map(([key, value]) => [key, read(value)]));
  };
  return read(table);
}

async function load(lang) {
  const { default: table } = await import(`./strings/${lang}.js`);
  return { lang, texts: readTable(table, lang) };
}

const loaded = await load(chooseLanguage(wantedLanguages())).catch(() => load("en"));

/** Tag of the language of the interface. */
export const UI_LANGUAGE = loaded.lang;

/** All texts, by the part of the page that shows them. */
export const STRINGS = loaded.texts;

/** Return a note of the model behind the name of an engine, such as `ctranslate2:embedded`. */
export function modelNote(engine) {
  return STRINGS.captions.model({ name: engine.slice(engine.indexOf(":") + 1) });
}

/** Return the name of a language in that of the interface, for sentences; the tag if the browser does not know it. */
export function uiNameOf(tag) {
  try {
    return new Intl.DisplayNames(UI_LANGUAGE, { type: "language" }).of(tag);
  } catch {
    return tag;
  }
}

/**
 * Return in words what the gateway refused. Reasons that people can act on have texts of the page; else the
 * gateway explains, in English.
 * @param {{code: string, msg: string, hint?: string}} error
 */
export function errorText({ code, msg, hint }) {
  return STRINGS.errors[code] ?? ([msg, hint].filter(Boolean).join(" ") || code);
}
