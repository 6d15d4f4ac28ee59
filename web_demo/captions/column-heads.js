// The heads of the columns: the one to three languages that this page reads.
//
// Owns: which languages are read, and their menus.
// Must not know: sockets, captions.

import { direction } from "../../clients/js/direction.js";
import { element, iconButton } from "../page/dom.js";
import { fillMenu, inLanguage, nameOf } from "../page/languages.js";
import { STRINGS, UI_LANGUAGE, modelNote, uiNameOf } from "../page/strings.js";

const MAX_COLUMNS = 3;

/** The heads of the columns, with the language of each. */
export class ColumnHeads {
  languages;
  #node;
  #others; // further places with the same menus
  #onChange;
  #onListen;
  #reasonAgainst;
  #pivots = new Map(); // language -> language through which its captions are made
  #models = new Map(); // language -> model that made its last caption; "": the usual one
  #heard = null; // language that is spoken aloud
  #offered = [];
  #label = element("p", "column-label");
  #turn = element("p", "column-label turn");

  /**
   * @param {Iterable<HTMLElement>} nodes receive the heads; the first one also the buttons and who speaks
   * @param {string[]} languages tags to begin with
   * @param {(languages: string[]) => void} options.onChange called when somebody chooses other languages
   * @param {(lang: string | null) => void} options.onListen called when somebody wants to hear a language, or none
   * @param {(tag: string) => string} options.reasonAgainst returns why a language cannot be chosen now, "" if it can
   */
  constructor(nodes, languages, { onChange, onListen, reasonAgainst }) {
    [this.#node, ...this.#others] = nodes;
    this.#onChange = onChange;
    this.#onListen = onListen;
    this.#reasonAgainst = reasonAgainst;
    this.#turn.setAttribute("aria-hidden", "true"); // every row names its speaker to screen readers
    this.#turn.dir = "auto";
    this.languages = languages;
  }

  /**
   * Set the languages that the gateway translates into. Chosen ones that it does not offer are dropped.
   * @param {string[]} tags
   * @param {string[]} preferred what to read if nothing has been chosen
   */
  offer(tags, preferred) {
    this.#offered = tags.map((tag) => ({ tag, endonym: nameOf(tag) }));
    const languages = this.languages.filter((tag) => tags.includes(tag));
    this.#set(languages.length ? languages : preferred.length ? preferred : tags.slice(0, 1));
  }

  /** Say in the head of a column through which other language, and by which other model, its captions are made. */
  showMaking(lang, { pivot = this.#pivots.get(lang), engine = "" }) {
    if (this.#pivots.get(lang) === pivot && (this.#models.get(lang) ?? "") === engine) return;
    this.#pivots.set(lang, pivot);
    this.#models.set(lang, engine);
    this.#render();
  }

  /** Show which language is spoken aloud; null if none is. */
  showHeard(lang) {
    this.#heard = lang;
    for (const button of this.#node.querySelectorAll(".listen")) button.setAttribute("aria-pressed", button.dataset.lang === lang);
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
    document.body.dataset.reads = direction(languages[0] ?? "en"); // originals stand above the first column
    document.body.dataset.columns = languages.length;
    document.body.style.setProperty("--columns", languages.length);
    this.#render();
  }

  #render() {
    this.#label.textContent = this.languages.length > 1 ? STRINGS.languages.several : STRINGS.languages.one;
    for (const other of this.#others) other.replaceChildren(...this.languages.map((tag, i) => this.#startField(tag, i)));
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
    head.append(this.#menu(tag, i));
    const [pivot, engine] = [this.#pivots.get(tag), this.#models.get(tag)];
    const making = [pivot && STRINGS.captions.via({ language: uiNameOf(pivot) }), engine && modelNote(engine)].filter(Boolean).join(" · ");
    if (making) {
      const note = inLanguage(element("span", "via", making), UI_LANGUAGE);
      note.title = making;
      head.append(note);
    }
    if (globalThis.speechSynthesis) head.append(this.#listenButton(tag));
    if (this.languages.length > 1) {
      const remove = iconButton("close", STRINGS.languages.remove({ language: uiNameOf(tag) }));
      remove.addEventListener("click", () => this.choose(this.languages.filter((other) => other !== tag)));
      head.append(remove);
    }
    return head;
  }

  /** Return the menu of a column. */
  #menu(tag, i) {
    const menu = element("select");
    menu.setAttribute("aria-label", STRINGS.languages.column({ number: i + 1 }));
    fillMenu(menu, this.#offered.map((one) => ({ ...one, reason: this.#reasonAgainst(one.tag) })), tag);
    inLanguage(menu, tag);
    menu.addEventListener("change", () => {
      const place = menu.closest("#column-heads, #start-reads");
      const languages = [...this.languages];
      const other = languages.indexOf(menu.value);
      if (other >= 0) languages[other] = tag; // another column has this language: the two change places
      languages[i] = menu.value;
      this.choose(languages);
      place.querySelectorAll("select")[i].focus();
    });
    return menu;
  }

  /** Return the menu of a column for the start screen. */
  #startField(tag, i) {
    const menu = this.#menu(tag, i);
    menu.className = "field";
    menu.setAttribute("aria-label", i ? STRINGS.languages.readsToo : STRINGS.languages.reads);
    return menu;
  }

  #listenButton(tag) {
    const button = iconButton("listen", STRINGS.listening.listen({ language: uiNameOf(tag) }));
    button.classList.add("listen");
    button.append(inLanguage(element("span", "label", STRINGS.listening.button), UI_LANGUAGE));
    button.dataset.lang = tag;
    button.setAttribute("aria-pressed", tag === this.#heard);
    button.addEventListener("click", () => this.#onListen(tag === this.#heard ? null : tag));
    return button;
  }
}
