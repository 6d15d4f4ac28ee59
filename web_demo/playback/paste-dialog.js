// The dialog in which somebody pastes a transcript, which is then played line by line.
//
// Owns: the dialog, its count of lines and speakers.
// Must not know: sockets, how it is played.

import { fillMenu } from "../page/languages.js";
import { STRINGS, UI_LANGUAGE } from "../page/strings.js";
import { parseTranscript, scheduleLines, splitLongLines } from "./transcript-parser.js";

/** The Paste a transcript dialog. */
export class PasteDialog {
  #dialog = document.querySelector("#paste-dialog");
  #field = document.querySelector("#pasted");
  #menu = document.querySelector("#paste-lang");
  #summary = document.querySelector("#paste-summary");
  #from = document.querySelector("#from");
  #limits;

  /**
   * @param {(entries: object[], lang: string) => void} play plays timed entries
   * @param {() => {text: number} | undefined} limits returns the limits of the gateway, if they are known
   */
  constructor(play, limits) {
    this.#limits = limits;
    document.querySelector("#paste").addEventListener("click", () => this.#open());
    this.#field.addEventListener("input", () => this.#render());
    this.#dialog.addEventListener("close", () => {
      const lines = this.#lines;
      if (this.#dialog.returnValue !== "play" || !lines.length) return;
      play(scheduleLines(lines), this.#menu.value);
      this.#field.value = "";
    });
  }

  /** Most characters of one utterance. */
  get #limit() {
    return this.#limits()?.text ?? Infinity;
  }

  get #lines() {
    return splitLongLines(parseTranscript(this.#field.value), this.#limit);
  }

  #open() {
    const languages = [...this.#from.options].map(({ value, text }) => ({ tag: value, endonym: text }));
    fillMenu(this.#menu, languages, this.#from.value);
    this.#dialog.returnValue = "";
    this.#render();
    this.#dialog.showModal();
    this.#field.focus();
  }

  #render() {
    const lines = this.#lines;
    const divided = lines.length > parseTranscript(this.#field.value).length;
    const names = new Set(lines.map(({ speaker }) => speaker).filter(Boolean)).size;
    const counts = [STRINGS.paste.lines({ count: lines.length }), names && STRINGS.paste.speakers({ count: names })];
    const summary = new Intl.ListFormat(UI_LANGUAGE, { type: "unit" }).format(counts.filter(Boolean));
    const text = divided ? STRINGS.paste.divided({ summary, limit: this.#limit }) : summary;
    this.#summary.textContent = lines.length ? text : "";
    this.#dialog.querySelector(".primary").disabled = !lines.length;
  }
}
