// What this page says: ids that are its own, and the line that is typed.
// Knows the document; knows no socket.

import { lengthOf, pieces } from "./pieces.js";

const TYPING_MS = 250; // at most so often is an unfinished line sent
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

const author = Math.random().toString(36).slice(2, 8); // ids of two pages in one room must differ
let said = 0;

/** An id for a new utterance of this page. */
export function newId() {
  return `${author}-${++said}`;
}

/** Whether this page said it, or the part of it that has this id. */
export function isOwn(id) {
  return id.startsWith(`${author}-`);
}

export class Lines {
  #line = document.querySelector("#line");
  #send = document.querySelector("#send");
  #partials = document.querySelector("#partials");
  #say;
  #cancel;
  #lang;
  #typed = null; // the line being typed: { id, text } as last sent
  #timer = 0;
  #limit = Infinity; // characters of one line

  /** `say({ id, text, final, lang })` returns false where it could not be sent. */
  constructor({ say, cancel, lang }) {
    this.#say = say;
    this.#cancel = cancel;
    this.#lang = lang;
    this.#line.addEventListener("input", () => {
      this.#count();
      this.#timer ||= setTimeout(() => this.#typing(), TYPING_MS);
    });
    document.querySelector("#say").addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(this.#timer);
      this.#timer = 0;
      const waiting = pieces(this.#line.value, this.#limit);
      while (waiting.length && this.#put(waiting[0], true)) waiting.shift();
      this.#line.value = waiting.join(" "); // what could not be said stays
      this.#count();
    });
  }

  /** Nothing more can be said under an id. */
  ended(id) {
    if (this.#typed?.id === id) this.#typed = null;
  }

  welcome({ text }) {
    this.#limit = text;
    this.#count();
  }

  connected(open) {
    this.#send.disabled = !open;
  }

  /** Say before it is sent that the text is too long for one line. */
  #count() {
    const lines = pieces(this.#line.value, this.#limit).length;
    const words = `Longer than ${this.#limit.toLocaleString("en")} characters: it will be sent as ${lines} lines.`;
    document.querySelector("#long").textContent = lines > 1 ? words : "";
  }

  /** While a line is typed, say it so far: whole words only, since half a word is another word. */
  #typing() {
    this.#timer = 0;
    const { value } = this.#line;
    const text = (UNSPACED.test(value) ? value : value.replace(/\S+$/u, "")).trim();
    if (!this.#partials.checked || text === (this.#typed?.text ?? "") || lengthOf(text) > this.#limit) return;
    if (text) return this.#put(text, false);
    this.#cancel(this.#typed.id);
    this.#typed = null;
  }

  #put(text, final) {
    this.#typed ??= { id: newId(), text: "" };
    const { id } = this.#typed;
    if (!this.#say({ id, text, final, lang: this.#lang() })) return false;
    this.#typed = final ? null : { id, text };
    return true;
  }
}
