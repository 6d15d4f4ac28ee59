// The glossary in the moderation panel: terms, each with one translation for all languages or one for each.
//
// Owns: the rows of the list, and the counts of captions that lack a term.
// Must not know: sockets, the rest of the panel.

import { element, iconButton } from "../page/dom.js";
import { inLanguage, nameOf } from "../page/languages.js";
import { STRINGS, UI_LANGUAGE, uiNameOf } from "../page/strings.js";
import { lengthOf } from "../speech/split-text.js";

const MAX_TERM = 200; // characters; these two are limits of the gateway
const MAX_TERMS = 500;

/** The list of terms. */
export class GlossaryForm {
  #list = document.querySelector("#terms");
  #note = document.querySelector("#glossary-note");
  #languages;

  /** @param {() => string[]} languages returns the tags that are read in this meeting */
  constructor(languages) {
    this.#languages = languages;
    document.querySelector("#add-term").addEventListener("click", () => this.#add().focus());
  }

  /** Say whether the translator is told the terms, or captions are only checked for them. */
  explain(told) {
    this.#note.textContent = told ? STRINGS.moderation.termsTold : STRINGS.moderation.termsChecked;
  }

  /** Show a glossary of the protocol. */
  show(glossary) {
    this.#list.replaceChildren();
    for (const pair of Object.entries(glossary)) this.#add(...pair);
    if (!this.#list.children.length) this.#add();
  }

  /** The glossary as the protocol has it: translations by term, each a text or texts by language. */
  get value() {
    return Object.fromEntries(this.#entries);
  }

  /** Why the list cannot be saved; "" if it can. */
  get problem() {
    const entries = this.#entries;
    const texts = entries.map(([term, to]) => [term, ...typeof to === "string" ? [to] : Object.values(to)]);
    if (texts.some(([term, ...translations]) => !term || !translations.some(Boolean))) return STRINGS.moderation.emptyTerm;
    const long = texts.flat().find((text) => lengthOf(text) > MAX_TERM);
    if (long) return STRINGS.moderation.longTerm({ start: [...long].slice(0, 20).join(""), limit: MAX_TERM });
    return entries.length > MAX_TERMS ? STRINGS.moderation.manyTerms({ number: entries.length, limit: MAX_TERMS }) : "";
  }

  /**
   * Count at each term how often its translation is missing, because the gateway flagged a caption.
   * @param {string} original what was said
   * @param {string} caption its translation
   * @param {string} lang tag of the translation
   */
  countMissed(original, caption, lang) {
    const [said, shown] = [original.toLowerCase(), caption.toLowerCase()];
    for (const row of this.#list.children) {
      const [term, to] = readRow(row);
      const wanted = typeof to === "string" ? to : to[lang] ?? to[lang.split("-")[0]];
      if (!term || !wanted || !said.includes(term.toLowerCase()) || shown.includes(wanted.toLowerCase())) continue;
      const note = row.querySelector(".missed") ?? row.appendChild(element("p", "missed"));
      const languages = new Set([...note.dataset.languages?.split(" ") ?? [], lang]);
      note.dataset.languages = [...languages].join(" ");
      note.dataset.count = Number(note.dataset.count ?? 0) + 1;
      note.textContent = STRINGS.moderation.missed({
        count: Number(note.dataset.count),
        languages: new Intl.ListFormat(UI_LANGUAGE, { type: "unit" }).format([...languages].map(uiNameOf)),
      });
    }
  }

  /** Rows as pairs; those without any text are left out. */
  get #entries() {
    return [...this.#list.children].map(readRow).filter(([term, to]) => term || (typeof to === "string" ? to : Object.keys(to).length));
  }

  /** Add a row, and return its first field. */
  #add(term = "", to = "") {
    const row = element("li");
    const translation = field(STRINGS.moderation.translation, typeof to === "string" ? to : "");
    const each = iconButton("globe", STRINGS.moderation.byLanguage);
    each.addEventListener("click", () => {
      if (row.querySelector(".by-language")) join(row);
      else this.#divide(row, Object.fromEntries(this.#languages().map((tag) => [tag, translation.value.trim()]))).focus();
    });
    each.setAttribute("aria-expanded", "false");
    const remove = iconButton("close", STRINGS.moderation.removeTerm);
    remove.addEventListener("click", () => row.remove());
    row.append(field(STRINGS.moderation.term, term), translation, each, remove);
    if (typeof to !== "string") this.#divide(row, to);
    this.#list.append(row);
    return row.firstElementChild;
  }

  /** Show a field for each language that is read or has a translation; return the first. */
  #divide(row, translations) {
    const group = element("div", "by-language");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", STRINGS.moderation.byLanguage);
    for (const tag of new Set([...this.#languages(), ...Object.keys(translations)])) {
      const label = element("label");
      const input = inLanguage(field("", translations[tag] ?? ""), tag);
      input.dataset.tag = tag;
      label.append(inLanguage(element("span", "", nameOf(tag)), tag), input);
      group.append(label);
    }
    row.children[1].hidden = true;
    row.children[2].setAttribute("aria-expanded", "true");
    row.children[3].after(group);
    return group.querySelector(".field");
  }
}

/** Show one field for all languages again, with the first translation. */
function join(row) {
  const texts = [...row.querySelectorAll(".by-language .field")].map(({ value }) => value.trim());
  row.querySelector(".by-language").remove();
  row.children[1].hidden = false;
  row.children[1].value = texts.find(Boolean) ?? "";
  row.children[2].setAttribute("aria-expanded", "false");
}

/** Return [term, translation]; the translation is a text, or texts by tag. */
function readRow(row) {
  const [term, translation] = row.children;
  const inputs = [...row.querySelectorAll(".by-language .field")];
  const texts = inputs.map(({ dataset, value }) => [dataset.tag, value.trim()]).filter(([, text]) => text);
  return [term.value.trim(), inputs.length ? Object.fromEntries(texts) : translation.value.trim()];
}

/** Return a field that shows long texts whole, on several lines. */
function field(label, value) {
  const input = element("textarea", "field");
  input.value = value;
  input.rows = 1 + Math.floor(lengthOf(value) / 28); // where the style sheet cannot size it by its content
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault(); // a term has no lines of its own
    input.form.requestSubmit();
  });
  input.dir = "auto";
  if (label) {
    input.placeholder = label;
    input.setAttribute("aria-label", label);
  }
  return input;
}
