// The field in which somebody types what to say.
//
// Owns: the typed text, when it is sent, the note that it is too long for one line, and the question whether a first
// line is in the language that was named.
// Must not know: sockets, captions.

import { element } from "../page/dom.js";
import { nameOf } from "../page/languages.js";
import { STRINGS, uiNameOf } from "../page/strings.js";
import { lengthOf, splitText } from "./split-text.js";
import { newId } from "./utterance-ids.js";

const PARTIAL_INTERVAL_MS = 250; // shortest time between two unfinished texts
const FIRST_WORDS = 3; // of a first line, before it is sent: fewer do not tell its language
const UNKNOWN = { isOtherScript: () => false, otherLanguageOf: () => null };
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
  #note = document.querySelector("#input-note");
  #sure = false; // the language is right: somebody has chosen it here, answered, or sent a line
  #writing = null; // promise of what tells languages apart, loaded when somebody begins to type
  #tell = null; // it, when it is loaded
  #asked = null; // language that the text seems to be in, while the question is open

  /**
   * @param {(message: object) => boolean} options.say sends { id, text, final, lang }; false if it is lost
   * @param {(id: string) => void} options.cancel cancels an utterance
   * @param {SpokenLanguage} options.language what is typed
   */
  constructor({ say, cancel, language }) {
    this.#say = say;
    this.#cancel = cancel;
    this.#language = language;
    this.#field.addEventListener("focus", () => this.#loadWriting(), { once: true });
    this.#field.addEventListener("input", () => {
      this.#showNote();
      this.#sendPartialSoon();
    });
    document.querySelector("#line-form").addEventListener("submit", async (event) => {
      event.preventDefault();
      const { value } = this.#field;
      await this.#loadWriting();
      this.#showNote();
      if (this.#asked) this.#note.querySelector("button").focus();
      else this.#submit(value);
    });
  }

  /** Ask no more: somebody has chosen a language. */
  onLanguage() {
    this.#sure = true;
    this.#showNote();
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

  /** Load what tells languages apart. If that fails, nothing is asked. */
  #loadWriting() {
    this.#writing ??= import("./writing.js").catch(() => UNKNOWN).then((writing) => {
      this.#tell = writing;
      this.#showNote();
      if (this.#field.value) this.#sendPartialSoon(); // typed meanwhile
    });
    return this.#writing;
  }

  /** Send what was typed when the form was submitted. What came after it, and what could not be sent, stays. */
  #submit(typed) {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const { value } = this.#field;
    const said = value.startsWith(typed) ? typed : value;
    const rest = value.slice(said.length);
    const parts = splitText(said, this.#limit);
    if (parts.length) this.#sure = true;
    while (parts.length && this.#send(parts[0], true)) parts.shift();
    this.#field.value = parts.join(" ") + rest;
    this.#showNote();
    if (rest) this.#sendPartialSoon();
  }

  #showNote() {
    const { value } = this.#field;
    const language = this.#language.value;
    const asked = this.#sure || !this.#tell ? null : this.#tell.otherLanguageOf(value, language, this.#language.offered);
    if (asked && asked === this.#asked) return; // the question stands there already
    this.#asked = asked;
    const count = splitText(value, this.#limit).length;
    const note = STRINGS.input.tooLong({ limit: this.#limit, count });
    const other = this.#tell?.isOtherScript(value, language) ? STRINGS.input.otherScript({ language: nameOf(language) }) : "";
    this.#note.textContent = asked ? "" : count > 1 ? note : other;
    if (asked) this.#ask(asked, language);
  }

  /** Ask which of two languages is spoken. Until then nothing is sent: it would be translated wrongly for everybody. */
  #ask(other, language) {
    const text = element("span", "", STRINGS.input.whichLanguage({ language: uiNameOf(other) }));
    const buttons = [other, language].map((tag) => {
      const button = element("button", "button", STRINGS.input.iSpeak({ language: uiNameOf(tag) }));
      button.type = "button";
      button.addEventListener("click", () => {
        this.#sure = true;
        if (tag !== language) this.#language.choose(tag);
        this.#showNote();
        this.#field.focus();
      });
      return button;
    });
    this.#note.append(text, ...buttons);
  }

  #sendPartialSoon() {
    this.#timer ||= setTimeout(() => this.#sendPartial(), PARTIAL_INTERVAL_MS);
  }

  /** Send the text typed so far. Half a word is left out, since it may be another word. */
  #sendPartial() {
    this.#timer = 0;
    const { value } = this.#field;
    const text = (UNSPACED.test(value) ? value : value.replace(/\S+$/u, "")).trim();
    if (!this.#partials.checked || !this.#tell || this.#asked || text === (this.#sent?.text ?? "") || lengthOf(text) > this.#limit) return;
    if (text && !this.#sure && !UNSPACED.test(text) && text.split(/\s+/).length < FIRST_WORDS) return;
    if (text) return this.#send(text, false);
    this.#cancel(this.#sent.id); // everything was deleted
    this.#sent = null;
  }

  #send(text, final) {
    this.#sent ??= { id: newId(), text: "" };
    const { id } = this.#sent;
    if (!this.#say({ id, text, final, lang: this.#language.value })) return false;
    this.#sent = final ? null : { id, text };
    return true;
  }
}
