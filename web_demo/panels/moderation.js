// The Moderation panel: the topic of the meeting, its glossary.
//
// Owns: the panel. It sends a `set` through its caller.
// Must not know: sockets, captions.

import { element, iconButton } from "../page/dom.js";
import { STRINGS, errorText } from "../page/strings.js";
import { lengthOf } from "../speech/split-text.js";

const MAX_CONTEXT = 4000; // characters; these three are limits of the gateway
const MAX_TERM = 200; // characters
const MAX_TERMS = 500;
const SAVE_REF = "meeting-settings"; // identifies the answer to this panel's `set`

/** The Moderation panel. */
export class ModerationPanel {
  section = document.querySelector("#moderation-panel");
  #terms = document.querySelector("#terms");
  #context = document.querySelector("#context");
  #saveStatus = document.querySelector("#save-status");
  #settings;
  #send;

  /**
   * @param {{room: string}} settings
   * @param {(message: object) => boolean} options.send sends a `set`; false if it is lost
   */
  constructor(settings, { send }) {
    this.#settings = settings;
    this.#send = send;
    this.#render(this.#stored);
    document.querySelector("#add-term").addEventListener("click", () => this.#addTerm().focus());
    document.querySelector("#meeting-settings").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#save();
    });
    document.querySelector("#meeting-settings").addEventListener("input", () => this.#showSaveStatus(""));
  }

  /** Show settings of the meeting, which any moderator may have saved. */
  onSettings({ context, glossary, ref }) {
    if (context == null && glossary == null) return;
    const settings = { ...this.#stored, ...(context != null && { context }), ...(glossary && { glossary }) };
    sessionStorage.setItem(this.#storageKey, JSON.stringify(settings));
    this.#render(settings);
    const hasTerms = Object.keys(settings.glossary ?? {}).length > 0;
    const saved = hasTerms ? STRINGS.moderation.savedTerms : STRINGS.moderation.saved;
    this.#showSaveStatus(ref === SAVE_REF ? saved : "");
  }

  /**
   * Count at each term how often its translation is missing, because the gateway flagged a caption.
   * @param {string} original what was said
   * @param {string} caption its translation
   */
  onMissed(original, caption) {
    for (const row of this.#terms.children) {
      const [term, translation] = [...row.querySelectorAll("input")].map(({ value }) => value.trim().toLowerCase());
      if (!term || !original.toLowerCase().includes(term) || caption.toLowerCase().includes(translation)) continue;
      const note = row.querySelector(".missed") ?? row.appendChild(element("p", "missed"));
      note.dataset.count = Number(note.dataset.count ?? 0) + 1;
      note.textContent = STRINGS.moderation.missed({ count: Number(note.dataset.count) });
    }
  }

  /** Show that the gateway refused what was saved. */
  onError(error) {
    if (error.ref === SAVE_REF) this.#showSaveStatus(STRINGS.moderation.notSaved({ reason: errorText(error) }));
  }

  get #storageKey() {
    return `meeting settings ${this.#settings.room}`;
  }

  get #stored() {
    return JSON.parse(sessionStorage.getItem(this.#storageKey) ?? "{}");
  }

  /** Pairs of a term and its translation; rows without any text are left out. */
  get #pairs() {
    const rows = [...this.#terms.children].map((row) => [...row.querySelectorAll("input")].map(({ value }) => value.trim()));
    return rows.filter(([term, translation]) => term || translation);
  }

  /** Why the form cannot be saved; "" if it can. */
  get #invalid() {
    const length = lengthOf(this.#context.value.trim());
    const pairs = this.#pairs;
    const long = pairs.flat().find((text) => lengthOf(text) > MAX_TERM);
    if (length > MAX_CONTEXT) return STRINGS.moderation.longTopic({ length, limit: MAX_CONTEXT });
    if (pairs.some(([term, translation]) => !term || !translation)) return STRINGS.moderation.emptyTerm;
    if (long) return STRINGS.moderation.longTerm({ start: [...long].slice(0, 20).join(""), limit: MAX_TERM });
    return pairs.length > MAX_TERMS ? STRINGS.moderation.manyTerms({ number: pairs.length, limit: MAX_TERMS }) : "";
  }

  #save() {
    const problem = this.#invalid;
    if (problem) return this.#showSaveStatus(problem);
    const set = { type: "set", context: this.#context.value.trim(), glossary: Object.fromEntries(this.#pairs) };
    this.#showSaveStatus(this.#send({ ...set, ref: SAVE_REF }) ? STRINGS.moderation.saving : STRINGS.moderation.notSavedOffline);
  }

  #showSaveStatus(text) {
    this.#saveStatus.textContent = text;
  }

  #render({ context = "", glossary = {} }) {
    this.#context.value = context;
    this.#terms.replaceChildren();
    for (const pair of Object.entries(glossary)) this.#addTerm(...pair);
    if (!this.#terms.children.length) this.#addTerm();
  }

  #addTerm(term = "", translation = "") {
    const row = element("li", "field-row");
    for (const [value, label] of [[term, STRINGS.moderation.term], [translation, STRINGS.moderation.translation]]) {
      const input = element("input", "field");
      input.value = value;
      input.placeholder = label;
      input.dir = "auto";
      input.setAttribute("aria-label", label);
      row.append(input);
    }
    const remove = iconButton("close", STRINGS.moderation.removeTerm);
    remove.addEventListener("click", () => row.remove());
    row.append(remove);
    this.#terms.append(row);
    return row.firstElementChild;
  }

}
