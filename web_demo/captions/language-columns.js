// The heads of the columns: the one to three languages that this page reads.
//
// Owns: which languages are read, and their menus.
// Must not know: sockets, captions.

import { direction } from "../../clients/js/direction.js";
import { element, iconButton } from "../page/dom.js";
import { fillMenu, inLanguage, nameOf } from "../page/languages.js";
import { STRINGS, uiNameOf } from "../page/strings.js";

const MAX_COLUMNS = 3;

/** The languages of the columns. */
export class LanguageColumns {
  languages;
  #node;
  #onChange;
  #reasonAgainst;
  #offered = [];
  #label = element("p", "column-label");
  #turn = element("p", "column-label turn");

  /**
   * @param {HTMLElement} node receives the heads
   * @param {string[]} languages tags to begin with
   * @param {(languages: string[]) => void} onChange called when somebody chooses other languages
   * @param {(tag: string) => string} reasonAgainst returns why a language cannot be chosen now, "" if it can
   */
  constructor(node, languages, onChange, reasonAgainst) {
    this.#node = node;
    this.#onChange = onChange;
    this.#reasonAgainst = reasonAgainst;
    this.#turn.setAttribute("aria-hidden", "true"); // every row names its speaker to screen readers
    this.#turn.dir = "auto";
    this.languages = languages;
  }

  /** Set the languages that the gateway translates into. Chosen ones that it does not offer are dropped. */
  offer(tags) {
    this.#offered = tags.map((tag) => ({ tag, endonym: nameOf(tag) }));
    const languages = this.languages.filter((tag) => tags.includes(tag));
    const possible = tags.filter((tag) => !this.#reasonAgainst(tag));
    if (!languages.length) languages.push(...possible.filter((tag) => !tag.startsWith("en")).slice(0, 2));
    this.#set(languages.length ? languages : tags.slice(0, 1));
  }

  /** Tags that the gateway translates into. */
  get offered() {
    return this.#offered.map(({ tag }) => tag);
  }

  /** Show again which languages can be chosen, because another one is spoken. */
  refresh() {
    this.#render();
  }

  /** Show who says the topmost caption, because the name above it has left the screen; "" shows nobody. */
  nameTurn(speaker, hue) {
    if (this.#turn.textContent === speaker) return;
    this.#turn.textContent = speaker;
    this.#turn.style.setProperty("--hue", hue);
  }

  /** Read these languages, in columns from left to right. */
  choose(languages) {
    this.#set(languages);
    this.#onChange(this.languages);
  }

  #set(languages) {
    this.languages = languages;
    document.body.dataset.columns = languages.length;
    document.body.style.setProperty("--columns", languages.length);
    this.#render();
  }

  #render() {
    this.#label.textContent = this.languages.length > 1 ? STRINGS.languages.several : STRINGS.languages.one;
    const heads = this.languages.map((tag, i) => this.#head(tag, i));
    const free = this.#offered.find(({ tag }) => !this.languages.includes(tag) && !this.#reasonAgainst(tag));
    if (free && this.languages.length < MAX_COLUMNS) {
      const add = iconButton("plus", STRINGS.languages.add);
      add.addEventListener("click", () => {
        this.choose([...this.languages, free.tag]);
        this.#node.querySelector(".column-head:nth-last-child(2) select").focus();
      });
      heads.at(-1)?.append(add);
    }
    this.#node.replaceChildren(this.#label, ...heads, this.#turn);
  }

  #head(tag, i) {
    const head = element("div", "column-head");
    head.dir = direction(tag); // the head stands above its text, also in right-to-left columns
    const menu = element("select");
    menu.setAttribute("aria-label", STRINGS.languages.column({ number: i + 1 }));
    fillMenu(menu, this.#offered.map((one) => ({ ...one, reason: this.#reasonAgainst(one.tag) })), tag);
    inLanguage(menu, tag);
    menu.addEventListener("change", () => {
      const languages = [...this.languages];
      const other = languages.indexOf(menu.value);
      if (other >= 0) languages[other] = tag; // another column has this language: the two change places
      languages[i] = menu.value;
      this.choose(languages);
      this.#node.querySelectorAll("select")[i].focus();
    });
    head.append(menu);
    if (this.languages.length > 1) {
      const remove = iconButton("close", STRINGS.languages.remove({ language: uiNameOf(tag) }));
      remove.addEventListener("click", () => this.choose(this.languages.filter((other) => other !== tag)));
      head.append(remove);
    }
    return head;
  }
}
