// What can be done with an utterance: show its original, correct it, take it back. One set of buttons
// for all rows: it goes where pointer and focus are. Knows the document; knows no socket.

import { element, iconButton, inLanguage, nameOf } from "./languages.js";
import { isOwn } from "./lines.js";

export class Deeds {
  #list = document.querySelector("#utterances");
  #reader = document.querySelector("#reader");
  #bar = element("div", "deeds");
  #original = iconButton("original", "Original");
  #edit = iconButton("edit", "Correct");
  #retract = iconButton("undo", "Take back");
  #view;
  #role;
  #send;
  #row = null;
  #editing = null; // { row, close }

  /** `role()` is that of this page; `send(message)` takes `edit` and `retract`. */
  constructor(view, { role, send }) {
    this.#view = view;
    this.#role = role;
    this.#send = send;
    this.#bar.setAttribute("role", "toolbar");
    this.#bar.setAttribute("aria-label", "This caption");
    this.#bar.append(this.#original, this.#edit, this.#retract);
    this.#original.addEventListener("click", () => this.#row.toggleAttribute("data-open"));
    this.#edit.addEventListener("click", () => this.#correct());
    this.#retract.addEventListener("click", () => {
      const { id } = this.#view.at(this.#row) ?? {};
      if (id) this.#send({ type: "retract", id });
      this.#reader.focus();
    });
    this.#list.addEventListener("pointerover", ({ target }) => this.#go(target.closest(".row")));
    this.#list.addEventListener("focusin", ({ target }) => this.#go(target.closest(".row")));
    this.#list.addEventListener("pointerleave", ({ pointerType }) => {
      if (pointerType !== "touch") this.#go(null); // a finger leaves at once; the next tap moves it
    });
    this.#reader.addEventListener("keydown", (event) => this.#key(event));
  }

  #go(row) {
    const there = row ?? (this.#list.contains(document.activeElement) ? this.#row : null);
    const utterance = there && this.#view.at(there);
    if (!utterance || there === this.#editing?.row) return this.#bar.remove();
    const may = this.#role() === "moderate" || (this.#role() === "speak" && isOwn(utterance.id));
    this.#edit.hidden = this.#retract.hidden = !may || !utterance.final;
    this.#original.hidden = this.#list.dataset.original !== "hidden" || !utterance.text;
    if ([...this.#bar.children].every(({ hidden }) => hidden)) return this.#bar.remove();
    if (this.#row !== there || this.#bar.parentNode !== there) {
      this.#row = there;
      there.append(this.#bar);
    }
  }

  /** Enter goes into the captions, arrows from one to the next, Escape back. */
  #key(event) {
    const row = event.target.closest(".row");
    if (event.target === this.#reader && event.key === "Enter") this.#list.lastElementChild?.focus();
    else if (event.target === row && event.key === "ArrowUp") row.previousElementSibling?.focus();
    else if (event.target === row && event.key === "ArrowDown") row.nextElementSibling?.focus();
    else if (row && event.key === "Escape" && !this.#editing) this.#reader.focus();
    else return;
    event.preventDefault();
  }

  /** Put fields in the place of the texts of a row. Enter sends what was changed. */
  #correct() {
    this.#editing?.close();
    const row = this.#row;
    const utterance = this.#view.at(row);
    const form = element("form", "editor");
    const texts = new Map([[utterance.lang, utterance.text]]);
    for (const { dataset } of row.querySelectorAll(".caption")) {
      const caption = utterance.captions[dataset.lang];
      if (caption && !texts.has(dataset.lang)) texts.set(dataset.lang, caption.stable);
    }
    for (const [lang, text] of texts) form.append(field(lang, text, lang === utterance.lang));
    const save = element("button", "button primary", "Correct");
    const cancel = element("button", "button", "Cancel");
    cancel.type = "button";
    const foot = element("div", "foot");
    foot.append(cancel, save);
    form.append(foot);
    const close = () => {
      form.remove();
      row.removeAttribute("data-editing");
      this.#editing = null;
      row.focus();
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      for (const { value, dataset } of form.querySelectorAll("textarea")) {
        const text = value.trim();
        if (text && text !== texts.get(dataset.lang)) {
          this.#send({ type: "edit", id: utterance.id, lang: dataset.lang, text });
        }
      }
      close();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
      else if (event.key === "Enter" && !event.isComposing) form.requestSubmit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    cancel.addEventListener("click", close);
    this.#editing = { row, close };
    this.#bar.remove();
    row.dataset.editing = "";
    row.append(form);
    form.scrollIntoView({ block: "nearest" });
    form.querySelector("textarea:not([data-original])")?.focus();
  }
}

function field(lang, text, original) {
  const label = element("label", "", original ? `${nameOf(lang)}, as it was said` : nameOf(lang));
  const area = inLanguage(element("textarea", "field"), lang);
  area.value = text;
  area.rows = 1 + Math.floor(text.length / 60);
  area.dataset.lang = lang;
  area.toggleAttribute("data-original", original);
  label.append(area);
  return label;
}
