// The moderator's panel: what the meeting is about, its terms, its transcripts, its end.
// Knows the document and the gateway's HTTP; knows no socket.

import { fillMenu, element, iconButton, nameOf } from "./languages.js";

import { lengthOf } from "./pieces.js";

const CONTEXT = 4000; // characters that the gateway takes
const TERM = 200;
const TERMS = 500;
const BRIEF = "brief"; // names our `set` in what answers it
const FORMATS = ["vtt", "srt", "txt", "json"];
const SURE_MS = 6000; // in which the end of a meeting has to be pressed again

export class Steer {
  section = document.querySelector("#steer-panel");
  #terms = document.querySelector("#terms");
  #context = document.querySelector("#context");
  #saved = document.querySelector("#saved");
  #lang = document.querySelector("#transcript-lang");
  #told = document.querySelector("#downloaded");
  #place;
  #key;
  #send;

  /**
   * `place` is { room, http }, `key` what its HTTP may ask for; `send(message)` takes `set` and returns
   * whether it could be sent.
   */
  constructor(place, { key, send }) {
    this.#place = place;
    this.#key = key;
    this.#send = send;
    this.#show(this.#remembered);
    document.querySelector("#add-term").addEventListener("click", () => this.#term().focus());
    document.querySelector("#brief").addEventListener("submit", (event) => {
      event.preventDefault();
      const wrong = this.#wrong;
      if (wrong) return this.#tell(wrong);
      const set = { type: "set", context: this.#context.value.trim(), glossary: Object.fromEntries(this.#pairs) };
      this.#tell(this.#send({ ...set, ref: BRIEF }) ? "Saving" : "There is no connection.");
    });
    document.querySelector("#brief").addEventListener("input", () => this.#tell(""));
    const formats = document.querySelector("#formats");
    for (const format of FORMATS) {
      const button = element("button", "button", format.toUpperCase());
      button.type = "button";
      button.addEventListener("click", () => this.#download(format));
      formats.append(button);
    }
    document.querySelector("#end").addEventListener("click", ({ currentTarget }) => this.#end(currentTarget));
  }

  /** Everybody is told what was set, whoever set it. */
  hear({ context, glossary, ref }) {
    if (context == null && glossary == null) return;
    const known = { ...this.#remembered, ...(context != null && { context }), ...(glossary && { glossary }) };
    sessionStorage.setItem(this.#name, JSON.stringify(known));
    this.#show(known);
    const terms = Object.keys(known.glossary ?? {}).length > 0;
    const use = terms ? " It may not use every term; captions without one are marked." : "";
    this.#tell(ref === BRIEF ? `Saved. The translator is told from now on.${use}` : "");
  }

  /** The gateway did not do what was asked. */
  refused({ ref, msg }) {
    if (ref === BRIEF) this.#tell(`Not saved. ${msg}`);
  }

  /** What can be downloaded: the original, and the languages that are read. */
  offer(langs) {
    const rows = langs.map((tag) => ({ tag, endonym: nameOf(tag) }));
    fillMenu(this.#lang, [{ tag: "", endonym: "As it was said" }, ...rows], this.#lang.value || langs[0]);
  }

  get #name() {
    return `brief ${this.#place.room}`;
  }

  get #remembered() {
    return JSON.parse(sessionStorage.getItem(this.#name) ?? "{}");
  }

  get #pairs() {
    const rows = [...this.#terms.children].map((row) => [...row.querySelectorAll("input")].map(({ value }) => value.trim()));
    return rows.filter(([term, translation]) => term || translation);
  }

  /** Why what is written cannot be saved; "" where it can. */
  get #wrong() {
    const length = lengthOf(this.#context.value.trim());
    const pairs = this.#pairs;
    const long = pairs.flat().find((text) => lengthOf(text) > TERM);
    if (length > CONTEXT) return `What the meeting is about has ${length} characters; ${CONTEXT} are possible.`;
    if (pairs.some(([term, translation]) => !term || !translation)) return "Every term needs a translation.";
    if (long) return `“${long.slice(0, 20)}…” is too long: a term has at most ${TERM} characters.`;
    return pairs.length > TERMS ? `These are ${pairs.length} terms; ${TERMS} are possible.` : "";
  }

  #tell(words) {
    this.#saved.textContent = words;
  }

  #show({ context = "", glossary = {} }) {
    this.#context.value = context;
    this.#terms.replaceChildren();
    for (const pair of Object.entries(glossary)) this.#term(...pair);
    if (!this.#terms.children.length) this.#term();
  }

  #term(term = "", translation = "") {
    const row = element("li", "pair");
    for (const [value, label] of [[term, "Term"], [translation, "Translation"]]) {
      const input = element("input", "field");
      input.value = value;
      input.placeholder = label;
      input.setAttribute("aria-label", label);
      row.append(input);
    }
    const less = iconButton("close", "Remove this term");
    less.addEventListener("click", () => row.remove());
    row.append(less);
    this.#terms.append(row);
    return row.firstElementChild;
  }

  async #download(format) {
    const url = new URL(`/v1/rooms/${this.#place.room}/transcript.${format}`, this.#place.http);
    if (this.#lang.value) url.searchParams.set("lang", this.#lang.value);
    const answer = await fetch(url, { headers: this.#key.headers }).catch(() => null);
    this.#told.textContent = answer?.ok ? "" : await reason(answer);
    if (!answer?.ok) return;
    const anchor = element("a");
    anchor.href = URL.createObjectURL(await answer.blob());
    anchor.download = [this.#place.room, this.#lang.value, format].filter(Boolean).join(".");
    anchor.click();
    URL.revokeObjectURL(anchor.href);
  }

  async #end(button) {
    if (!button.hasAttribute("data-sure")) {
      const words = button.textContent;
      button.dataset.sure = "";
      button.textContent = "Press again: everything said is deleted";
      setTimeout(() => {
        button.removeAttribute("data-sure");
        button.textContent = words;
      }, SURE_MS);
      return;
    }
    const url = new URL(`/v1/rooms/${this.#place.room}`, this.#place.http);
    const answer = await fetch(url, { method: "DELETE", headers: this.#key.headers }).catch(() => null);
    if (!answer?.ok) this.#told.textContent = await reason(answer);
  }
}

async function reason(answer) {
  const body = await answer?.json().catch(() => null);
  return body?.error ?? "The gateway did not answer.";
}
