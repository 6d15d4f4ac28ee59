// Who speaks on this page: the name and the language.
//
// Owns: the fields "Your name" and the menus "I speak", of the start screen and of the input bar. Both are kept in this
// browser, so people are asked once.
// Must not know: sockets, captions.

import { fillMenu, nameOf } from "../page/languages.js";
import { preferredOf } from "../page/pairs.js";
import { wantedLanguages } from "../page/strings.js";

const STORED_NAME = "speaker name";
const STORED_LANGUAGE = "spoken language";

/** The menus "I speak". */
export class SpokenLanguage {
  #menus = [...document.querySelectorAll(".spoken-language")];
  #given;
  #onChange;

  /**
   * @param {string | null} given tag in the address of the page
   * @param {(lang: string) => void} onChange called with another language
   */
  constructor(given, onChange) {
    this.#given = given;
    this.#onChange = onChange;
    for (const menu of this.#menus) menu.addEventListener("change", () => this.choose(menu.value));
  }

  /** Tag of the language; "" until `offer`. */
  get value() {
    return this.#menus[0].value;
  }

  /** Tags of all languages that can be spoken. */
  get offered() {
    return Array.from(this.#menus[0].options, ({ value }) => value);
  }

  /** Set the languages that can be spoken. Begin with that of the address, the one chosen before, that of the browser. */
  offer(tags) {
    const wanted = [this.#given, localStorage.getItem(STORED_LANGUAGE), ...wantedLanguages(), "en"].filter(Boolean);
    const [chosen] = preferredOf(wanted, tags);
    for (const menu of this.#menus) fillMenu(menu, tags.map((tag) => ({ tag, endonym: nameOf(tag) })), chosen);
  }

  /** Speak another language from now on. */
  choose(tag) {
    for (const menu of this.#menus) menu.value = tag;
    localStorage.setItem(STORED_LANGUAGE, tag);
    this.#forgetAddress();
    this.#onChange(tag);
  }

  /** Take the language out of the address: it would come back at a reload, and for everybody who gets the address. */
  #forgetAddress() {
    const url = new URL(location);
    url.searchParams.delete("from");
    history.replaceState(null, "", url);
  }
}

/** The fields "Your name". */
export class SpeakerName {
  #fields = [...document.querySelectorAll(".speaker-name")];

  /**
   * @param {string | null} given name in the address of the page; it is not stored
   * @param {(name: string) => void} onChange called with another name; "" is none
   */
  constructor(given, onChange) {
    const name = given ?? localStorage.getItem(STORED_NAME) ?? "";
    for (const field of this.#fields) {
      field.value = name;
      field.addEventListener("input", () => this.#fields.forEach((other) => (other.value = field.value)));
      field.addEventListener("change", () => {
        localStorage.setItem(STORED_NAME, this.value);
        onChange(this.value);
      });
      field.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || event.isComposing) return;
        event.preventDefault(); // else the same key would submit the line that has the focus then
        document.querySelector("#line").focus();
      });
    }
  }

  /** The name as it is typed now, without spaces around it. */
  get value() {
    return this.#fields[0].value.trim();
  }
}
