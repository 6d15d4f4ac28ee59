// The actions on a caption: show its original, correct it, delete it.
//
// Owns: one toolbar for all rows, which moves to the row with the pointer or the focus; the editor; the keys
// that move among the rows.
// Must not know: sockets.

import { element, iconButton } from "../page/dom.js";
import { inLanguage, nameOf } from "../page/languages.js";
import { STRINGS } from "../page/strings.js";
import { makeToolbar } from "../page/toolbar.js";
import { isOwnId } from "../speech/utterance-ids.js";

const UNDO_MS = 8000; // until a line is deleted, unless it is taken back

/** The toolbar of the row that has the pointer or the focus. */
export class CaptionActions {
  #list = document.querySelector("#utterances");
  #reader = document.querySelector("#reader");
  #toolbar = element("div", "caption-actions");
  #original = iconButton("original", STRINGS.captions.showOriginal);
  #correct = iconButton("edit", STRINGS.captions.correct);
  #delete = iconButton("delete", STRINGS.captions.delete);
  #captions;
  #autoscroll;
  #role;
  #send;
  #row = null;
  #editor = null; // { row, close }
  #deletions = new Map(); // id -> { row, bar, timer } of lines that are about to be deleted

  /**
   * @param {CaptionList} captions
   * @param {AutoScroll} autoscroll paused while a caption is edited
   * @param {() => string} options.role returns the role of this page
   * @param {(message: object) => boolean} options.send sends an `edit` or a `retract`
   */
  constructor(captions, autoscroll, { role, send }) {
    this.#captions = captions;
    this.#autoscroll = autoscroll;
    this.#role = role;
    this.#send = send;
    this.#toolbar.setAttribute("role", "toolbar");
    this.#toolbar.setAttribute("aria-label", STRINGS.captions.actions);
    this.#toolbar.append(this.#original, this.#correct, this.#delete);
    this.#original.addEventListener("click", () => this.#row.toggleAttribute("data-original-shown"));
    this.#correct.addEventListener("click", () => this.#edit());
    this.#delete.addEventListener("click", () => this.#deleteSoon(this.#row));
    addEventListener("pagehide", () => [...this.#deletions.keys()].forEach((id) => this.#deleteNow(id)));
    this.#list.addEventListener("pointerover", ({ target }) => this.#moveTo(target.closest(".row")));
    this.#list.addEventListener("focusin", ({ target }) => this.#moveTo(target.closest(".row")));
    this.#list.addEventListener("pointerleave", ({ pointerType }) => {
      if (pointerType !== "touch") this.#moveTo(null); // a finger leaves at once; the next tap moves the toolbar
    });
    this.#reader.addEventListener("keydown", (event) => this.#onKey(event));
    makeToolbar(this.#toolbar);
    this.#moveTo(this.#list.querySelector(".row:is(:hover, :focus-within)")); // this part is loaded after the first row
  }

  /** Take back what is not done yet, because the meeting is over. */
  end() {
    for (const id of [...this.#deletions.keys()]) this.#forgetDeletion(id);
    this.#editor?.close();
    this.#toolbar.remove();
  }

  /** Move the toolbar to `row`; with null, to the row that has the focus. */
  #moveTo(row) {
    const target = row ?? (this.#list.contains(document.activeElement) ? this.#row : null);
    const utterance = target && this.#captions.utteranceAt(target);
    if (!utterance || target === this.#editor?.row || target.hasAttribute("data-deleting")) return this.#toolbar.remove();
    const permitted = this.#role() === "moderate" || (this.#role() === "speak" && isOwnId(utterance.id));
    this.#correct.hidden = this.#delete.hidden = !permitted || !utterance.final;
    this.#original.hidden = this.#list.dataset.original !== "hidden" || !utterance.text;
    if ([...this.#toolbar.children].every(({ hidden }) => hidden)) return this.#toolbar.remove();
    if (this.#row !== target || this.#toolbar.parentNode !== target) {
      this.#row = target;
      target.append(this.#toolbar);
      this.#followGrowth(target);
    }
  }

  /** Keep the end of the newest row in sight: on telephones it grows by the toolbar. */
  #followGrowth(row) {
    if (row === this.#list.lastElementChild) this.#autoscroll.onGrowth(0);
  }

  /** Delete a line for everybody in a moment. Until then a bar in its row takes the deletion back. */
  #deleteSoon(row) {
    const { id } = this.#captions.utteranceAt(row) ?? {};
    if (!id || this.#deletions.has(id)) return;
    const bar = element("div", "deletion");
    const undo = element("button", "button", STRINGS.captions.undo);
    const now = element("button", "button danger", STRINGS.captions.deleteNow);
    undo.type = now.type = "button";
    undo.addEventListener("click", () => {
      this.#forgetDeletion(id);
      row.focus();
    });
    now.addEventListener("click", () => this.#deleteNow(id));
    bar.append(element("p", "", STRINGS.captions.deleting), undo, now);
    bar.firstChild.setAttribute("role", "status");
    this.#deletions.set(id, { row, bar, timer: setTimeout(() => this.#deleteNow(id), UNDO_MS) });
    this.#toolbar.remove();
    row.dataset.deleting = "";
    row.append(bar);
    undo.focus();
    this.#followGrowth(row);
  }

  #deleteNow(id) {
    const { row } = this.#deletions.get(id);
    const focused = row.contains(document.activeElement);
    this.#forgetDeletion(id);
    this.#send({ type: "retract", id });
    if (focused) this.#reader.focus(); // the row is about to disappear
  }

  #forgetDeletion(id) {
    const { row, bar, timer } = this.#deletions.get(id);
    clearTimeout(timer);
    this.#deletions.delete(id);
    bar.remove();
    row.removeAttribute("data-deleting");
  }

  /** Handle keys: Enter goes into the captions, arrows go from one to the next, Escape goes back. */
  #onKey(event) {
    const row = event.target.closest(".row");
    if (event.target === this.#reader && event.key === "Enter") this.#list.lastElementChild?.focus();
    else if (event.target === row && event.key === "ArrowUp") row.previousElementSibling?.focus();
    else if (event.target === row && event.key === "ArrowDown") row.nextElementSibling?.focus();
    else if (row && event.key === "Escape" && !this.#editor) this.#reader.focus();
    else return;
    event.preventDefault();
  }

  /** Replace the texts of a row by fields. Enter sends what was changed. */
  #edit() {
    this.#editor?.close();
    const row = this.#row;
    const utterance = this.#captions.utteranceAt(row);
    const form = element("form", "editor");
    const texts = new Map([[utterance.lang, utterance.text]]);
    for (const { dataset } of row.querySelectorAll(".caption")) {
      const caption = utterance.captions[dataset.lang];
      if (caption && !texts.has(dataset.lang)) texts.set(dataset.lang, caption.stable);
    }
    for (const [lang, text] of texts) form.append(editorField(lang, text, lang === utterance.lang));
    const save = element("button", "button primary", STRINGS.captions.save);
    const cancel = element("button", "button", STRINGS.page.cancel);
    cancel.type = "button";
    const buttons = element("div", "buttons");
    buttons.append(cancel, save);
    form.append(buttons);
    const close = () => {
      form.remove();
      row.removeAttribute("data-editing");
      this.#editor = null;
      this.#autoscroll.resume();
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
      else if (event.key === "Enter" && !event.isComposing) form.requestSubmit(); // an input method uses Enter itself
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    cancel.addEventListener("click", close);
    this.#editor = { row, close };
    this.#autoscroll.pause();
    this.#toolbar.remove();
    row.dataset.editing = "";
    row.append(form);
    form.querySelector("textarea:not([data-original])")?.focus({ preventScroll: true });
    form.scrollIntoView({ block: "nearest" });
  }
}

function editorField(lang, text, original) {
  const label = element("label", "", original ? STRINGS.captions.original({ language: nameOf(lang) }) : nameOf(lang));
  const area = inLanguage(element("textarea", "field"), lang);
  area.value = text;
  area.rows = 1 + Math.floor(text.length / 60); // where the style sheet cannot size it by its content
  area.dataset.lang = lang;
  area.toggleAttribute("data-original", original);
  label.append(area);
  return label;
}
