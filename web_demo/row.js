// One utterance on the page: who said it, the original, and a caption for each language.
//
// Nothing here is built anew while a caption grows: text is appended to text nodes that are there, so
// the browser lays out one line, a selection survives, and earlier lines keep their breaks. Texts only
// ever become text nodes: whatever somebody says stays text.

import { element, inLanguage } from "./languages.js";

const FAILED = {
  busy: "too much at once",
  engine_unavailable: "the translator is not there",
  pair_unsupported: "this pair is not offered",
  rejected: "the output was no translation",
  timeout: "it took too long",
};
const NOTES = {
  failed: (code) => `Not translated: ${FAILED[code] ?? "something went wrong"}`,
  cancelled: () => "Stopped",
  interrupted: () => "Not finished: the connection broke",
};
const MISSED = "Without a glossary term"; // of interest to those who speak

export class Row {
  node = element("li", "row");
  utterance = null;
  #who = element("div", "who");
  #name = element("span");
  #source = element("p", "source");
  #sourceText = document.createTextNode("");
  #cells = new Map(); // lang -> Cell
  #height = 0;

  constructor(key, langs) {
    this.node.dataset.key = key;
    this.node.tabIndex = -1;
    this.#who.append(this.#name);
    this.#name.dir = "auto";
    this.#source.append(this.#sourceText);
    this.node.append(this.#who, this.#source);
    for (const lang of langs) {
      const cell = new Cell(lang);
      this.#cells.set(lang, cell);
      this.node.append(cell.node);
    }
  }

  /**
   * Show the utterance as it is now. `turn`: another speaker than before it, or one who is not known
   * yet; a row that has made room for a name keeps it.
   */
  update(utterance, hue, turn) {
    this.utterance = utterance;
    if (turn) this.node.dataset.turn = "";
    patch(this.#name.firstChild ?? this.#name.appendChild(document.createTextNode("")), utterance.speaker ?? "");
    if (utterance.speaker) this.#who.style.setProperty("--hue", hue);
    inLanguage(this.#source, utterance.lang);
    patch(this.#sourceText, utterance.text);
    this.#source.hidden = !utterance.text || this.#cells.has(utterance.lang);
    this.#source.toggleAttribute("data-growing", !utterance.final);
    for (const cell of this.#cells.values()) cell.update(utterance);
    this.node.toggleAttribute("data-live", this.growing); // a row that is left alone need not be drawn
  }

  get growing() {
    return [...this.#cells.values()].some((cell) => cell.growing);
  }

  /** The height it takes; read all rows before `reserve` writes any. */
  measure() {
    return this.node.offsetHeight;
  }

  /** Never be lower than that again: a text that gets shorter must not pull up what is below it. */
  reserve(height) {
    if (height > this.#height) {
      this.#height = height;
      this.node.style.minHeight = `${height}px`;
    }
  }

  /** The page was laid out anew: what was reserved means nothing now. */
  release() {
    this.#height = 0;
    this.node.style.minHeight = "";
  }
}

class Cell {
  node = element("p", "caption");
  growing = false;
  #lang;
  #stable = element("span", "stable").appendChild(document.createTextNode(""));
  #draft = element("span", "draft").appendChild(document.createTextNode(""));
  #tags = "";

  constructor(lang) {
    this.#lang = lang;
    this.node.dataset.code = lang;
    this.node.dataset.lang = lang;
    this.node.append(this.#stable.parentNode, this.#draft.parentNode);
  }

  update(utterance) {
    const found = utterance.captions[this.#lang];
    const status = found?.status ?? (utterance.interrupted ? "interrupted" : "growing");
    this.growing = status === "growing";
    // Without a translation, the reader gets the original, and is told that it is the original.
    const untranslated = status === "failed" || (status === "interrupted" && !found?.stable);
    inLanguage(this.node, untranslated ? utterance.lang : this.#lang);
    patch(this.#stable, untranslated ? utterance.text : found?.stable ?? "");
    patch(this.#draft, untranslated ? "" : found?.draft ?? "");
    const empty = !this.#stable.length && !this.#draft.length;
    this.node.dataset.status = this.growing && empty ? "waiting" : status;
    this.#mark([NOTES[status]?.(found?.code), found?.edited && "Edited", found?.missed && MISSED].filter(Boolean));
  }

  #mark(tags) {
    if (tags.join() === this.#tags) return;
    this.#tags = tags.join();
    for (const old of this.node.querySelectorAll(".tag")) old.remove();
    this.node.append(...tags.map((tag) => inLanguage(element("span", tag === MISSED ? "tag term" : "tag", tag), "en")));
  }
}

/** Change a text node by as little as can be. */
function patch(node, text) {
  const old = node.data;
  if (old === text) return;
  if (text.startsWith(old)) node.appendData(text.slice(old.length));
  else node.data = text;
}
