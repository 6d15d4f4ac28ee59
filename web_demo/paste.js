// A transcript that is pasted is said line by line. Knows the document; knows no socket.

import { fillMenu } from "./languages.js";
import { fitted, parse, timed } from "./transcript.js";

export class Paste {
  #box = document.querySelector("#paste-box");
  #text = document.querySelector("#pasted");
  #menu = document.querySelector("#paste-lang");
  #count = document.querySelector("#paste-count");
  #from = document.querySelector("#from");
  #limit = Infinity; // characters of one line

  /** `play(said, lang)` is called with what is to be said. */
  constructor(play) {
    document.querySelector("#paste").addEventListener("click", () => this.#open());
    this.#text.addEventListener("input", () => this.#look());
    this.#box.addEventListener("close", () => {
      const lines = this.#lines;
      if (this.#box.returnValue !== "say" || !lines.length) return;
      play(timed(lines), this.#menu.value);
      this.#text.value = "";
    });
  }

  welcome({ text }) {
    this.#limit = text;
  }

  get #lines() {
    return fitted(parse(this.#text.value), this.#limit);
  }

  #open() {
    const languages = [...this.#from.options].map(({ value, text }) => ({ tag: value, endonym: text }));
    fillMenu(this.#menu, languages, this.#from.value);
    this.#box.returnValue = "";
    this.#look();
    this.#box.showModal();
    this.#text.focus();
  }

  #look() {
    const lines = this.#lines;
    const cut = lines.length > parse(this.#text.value).length;
    const names = new Set(lines.map(({ speaker }) => speaker).filter(Boolean)).size;
    const speakers = names ? `, ${names} ${names === 1 ? "speaker" : "speakers"}` : "";
    const count = `${lines.length} ${lines.length === 1 ? "line" : "lines"}${speakers}`;
    const note = cut ? `. Text over ${this.#limit.toLocaleString("en")} characters is cut into several lines.` : "";
    this.#count.textContent = lines.length ? count + note : "";
    this.#box.querySelector(".primary").disabled = !lines.length;
  }
}
