// The field in which somebody types what to say.
//
// Owns: the typed text, when it is sent, and the note that it is too long for one line.
// Must not know: sockets, captions.

import { nameOf } from "../page/languages.js";
import { STRINGS } from "../page/strings.js";
import { lengthOf, splitText } from "./split-text.js";
import { newId } from "./utterance-ids.js";
import { isOtherScript } from "./writing.js";

const PARTIAL_INTERVAL_MS = 250; // shortest time between two unfinished texts
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

/** The text field and its Send button. */
export class TextInput {
  #field = document.querySelector("#line");
  #sendButton = document.querySelector("#send");
  #partials = document.querySelector("#partials");
  #say;
  #cancel;
  #language;
  #sent = null; // the unfinished utterance: { id, text } as last sent
  #timer = 0;
  #limit = Infinity; // characters of one utterance

  /**
   * @param {(message: object) => boolean} options.say sends { id, text, final, lang }; false if it is lost
   * @param {(id: string) => void} options.cancel cancels an utterance
   * @param {() => string} options.language returns the tag of the language that is typed
   */
  constructor({ say, cancel, language }) {
    this.#say = say;
    this.#cancel = cancel;
    this.#language = language;
    this.#field.addEventListener("input", () => {
      this.#showNote();
      this.#timer ||= setTimeout(() => this.#sendPartial(), PARTIAL_INTERVAL_MS);
    });
    document.querySelector("#line-form").addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(this.#timer);
      this.#timer = 0;
      const parts = splitText(this.#field.value, this.#limit);
      while (parts.length && this.#send(parts[0], true)) parts.shift();
      this.#field.value = parts.join(" "); // text that could not be sent stays
      this.#showNote();
    });
  }

  /** Begin a new utterance: the gateway accepts nothing more under this id. */
  onEnded(id) {
    if (this.#sent?.id === id) this.#sent = null;
  }

  /** Apply the limits of the gateway. */
  setLimits({ text }) {
    this.#limit = text;
    this.#showNote();
  }

  /** Allow or prevent sending. */
  setEnabled(enabled) {
    this.#sendButton.disabled = !enabled;
  }

  #showNote() {
    const count = splitText(this.#field.value, this.#limit).length;
    const note = STRINGS.input.tooLong({ limit: this.#limit, count });
    const other = isOtherScript(this.#field.value, this.#language());
    const otherNote = other ? STRINGS.input.otherScript({ language: nameOf(this.#language()) }) : "";
    document.querySelector("#input-note").textContent = count > 1 ? note : otherNote;
  }

  /** Send the text typed so far. Half a word is left out, since it may be another word. */
  #sendPartial() {
    this.#timer = 0;
    const { value } = this.#field;
    const text = (UNSPACED.test(value) ? value : value.replace(/\S+$/u, "")).trim();
    if (!this.#partials.checked || text === (this.#sent?.text ?? "") || lengthOf(text) > this.#limit) return;
    if (text) return this.#send(text, false);
    this.#cancel(this.#sent.id); // everything was deleted
    this.#sent = null;
  }

  #send(text, final) {
    this.#sent ??= { id: newId(), text: "" };
    const { id } = this.#sent;
    if (!this.#say({ id, text, final, lang: this.#language() })) return false;
    this.#sent = final ? null : { id, text };
    return true;
  }
}
