// The Moderation panel: the topic of the meeting, its glossary.
//
// Owns: the panel. It sends a `set` through its caller.
// Must not know: sockets, captions.

import { STRINGS, errorText } from "../page/strings.js";
import { lengthOf } from "../speech/split-text.js";
import { GlossaryForm } from "./glossary-form.js";

const MAX_CONTEXT = 4000; // characters; a limit of the gateway
const SAVE_REF = "meeting-settings"; // identifies the answer to this panel's `set`

/** The Moderation panel. */
export class ModerationPanel {
  section = document.querySelector("#moderation-panel");
  #context = document.querySelector("#context");
  #saveStatus = document.querySelector("#save-status");
  #glossary;
  #settings;
  #send;

  /**
   * @param {{room: string}} settings
   * @param {(message: object) => boolean} options.send sends a `set`; false if it is lost
   * @param {() => string[]} options.languages returns the tags that are read in this meeting
   */
  constructor(settings, { send, languages }) {
    this.#glossary = new GlossaryForm(languages);
    this.#settings = settings;
    this.#send = send;
    this.#render(this.#stored);
    document.querySelector("#meeting-settings").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#save();
    });
    document.querySelector("#meeting-settings").addEventListener("input", () => this.#showSaveStatus(""));
  }

  /** Show what the gateway does with terms, and the settings that the meeting has. */
  onWelcome({ glossary = true, settings }) {
    this.#glossary.explain(glossary);
    if (settings) this.onSettings({ context: "", glossary: {}, ...settings });
  }

  /** Show settings of the meeting, which any moderator may have saved. */
  onSettings({ context, glossary, ref }) {
    if (context == null && glossary == null) return;
    const before = this.#stored;
    const settings = { ...before, ...(context != null && { context }), ...(glossary && { glossary }) };
    if (ref === SAVE_REF) this.#showSaveStatus(STRINGS.moderation.saved);
    if (JSON.stringify(settings) === JSON.stringify(before)) return; // what is being typed stays
    sessionStorage.setItem(this.#storageKey, JSON.stringify(settings));
    this.#render(settings);
    if (ref !== SAVE_REF) this.#showSaveStatus("");
  }

  /** Count a caption that the gateway flagged because it lacks a term: see `GlossaryForm.countMissed`. */
  onMissed(...caption) {
    this.#glossary.countMissed(...caption);
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

  /** Why the form cannot be saved; "" if it can. */
  get #invalid() {
    const length = lengthOf(this.#context.value.trim());
    return length > MAX_CONTEXT ? STRINGS.moderation.longTopic({ length, limit: MAX_CONTEXT }) : this.#glossary.problem;
  }

  #save() {
    const problem = this.#invalid;
    if (problem) return this.#showSaveStatus(problem);
    const set = { type: "set", context: this.#context.value.trim(), glossary: this.#glossary.value };
    this.#showSaveStatus(this.#send({ ...set, ref: SAVE_REF }) ? STRINGS.moderation.saving : STRINGS.moderation.notSavedOffline);
  }

  #showSaveStatus(text) {
    this.#saveStatus.textContent = text;
  }

  #render({ context = "", glossary = {} }) {
    this.#context.value = context;
    this.#glossary.show(glossary);
  }
}
