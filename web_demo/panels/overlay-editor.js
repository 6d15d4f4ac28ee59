// The editor of the overlay: how captions look in OBS or on a shared screen, with a preview.
//
// Owns: the choices, their preview. They become the query of the overlay's address.
// Must not know: sockets.

import { element, loadStyle } from "../page/dom.js";
import { inLanguage, nameOf } from "../page/languages.js";
import { STRINGS } from "../page/strings.js";

const MAX_LANGUAGES = 3; // as the overlay has room for
/** The choices: values by their text. The first value is the overlay's own default, which the address leaves out. */
const CHOICES = {
  lines: [["2", "2"], ["1", "1"], ["3", "3"], ["4", "4"]],
  place: [["bottom", STRINGS.overlay.bottom], ["top", STRINGS.overlay.top]],
  size: [["5.2", STRINGS.overlay.medium], ["4", STRINGS.overlay.small], ["7", STRINGS.overlay.large]],
  style: [["band", STRINGS.overlay.band], ["plain", STRINGS.overlay.plain]],
};

const LABELS = {
  lines: STRINGS.overlay.lines, place: STRINGS.overlay.place, size: STRINGS.overlay.size, style: STRINGS.overlay.style,
};

/** The editor, in the Share dialog below the address of the overlay. */
export class OverlayEditor {
  node = element("details", "overlay-editor");
  #preview = element("div", "overlay-preview");
  #languages = element("div");
  #menus = {};
  #lines;

  /**
   * @param {(lang: string) => string[]} options.lines returns the newest captions in a language
   * @param {() => void} options.onChange called when a choice has changed
   */
  constructor({ lines, onChange }) {
    loadStyle("overlay-lines");
    this.#lines = lines;
    const fields = element("div", "fields");
    for (const [name, values] of Object.entries(CHOICES)) {
      const field = element("div");
      const label = element("label", "", LABELS[name]);
      label.htmlFor = `overlay-${name}`;
      const menu = element("select", "field");
      menu.id = label.htmlFor;
      menu.append(...values.map(([value, text]) => Object.assign(element("option", "", text), { value })));
      field.append(label, menu);
      fields.append(field);
      this.#menus[name] = menu;
    }
    const languages = element("fieldset");
    languages.append(element("legend", "", STRINGS.overlay.languages), this.#languages);
    this.#preview.setAttribute("aria-hidden", "true"); // the captions themselves are on the page
    this.node.append(element("summary", "", STRINGS.overlay.edit), languages, fields, this.#preview);
    this.node.addEventListener("change", () => {
      this.show();
      onChange();
    });
    this.node.addEventListener("toggle", () => this.show());
  }

  /** Offer languages; `chosen` are those that are read now. */
  offer(tags, chosen) {
    if (this.#languages.children.length) return; // choices stay while the page is open
    this.#languages.append(...tags.map((tag) => {
      const label = element("label", "check");
      const box = Object.assign(element("input"), { type: "checkbox", value: tag, checked: tag === chosen[0] });
      label.append(box, inLanguage(element("span", "", nameOf(tag)), tag));
      return label;
    }));
  }

  /** The query of the overlay's address. */
  get query() {
    const { lines, place, size, style } = this.#values;
    return {
      to: this.#chosen.join(),
      ...(lines !== "2" && { lines }), ...(place !== "bottom" && { place }), ...(size !== "5.2" && { size }),
      ...(style === "plain" && { plain: "" }),
    };
  }

  /** Show the choices with the newest captions. */
  show() {
    const { lines, place, size, style } = this.#values;
    const chosen = this.#chosen;
    for (const box of this.#languages.querySelectorAll("input")) {
      box.disabled = box.checked ? chosen.length === 1 : chosen.length === MAX_LANGUAGES;
    }
    if (!this.node.open) return;
    this.#preview.style.setProperty("--lines", lines);
    this.#preview.style.setProperty("--size", size);
    this.#preview.dataset.place = place;
    this.#preview.toggleAttribute("data-plain", style === "plain");
    const overlay = element("div", "overlay");
    overlay.append(...chosen.map((tag) => this.#window(tag)));
    this.#preview.replaceChildren(overlay);
  }

  #window(tag) {
    const node = inLanguage(element("div", "window"), tag);
    const texts = this.#lines(tag);
    for (const text of texts.length ? texts : [nameOf(tag)]) {
      const line = element("p");
      line.append(element("span", "text", text));
      node.append(line);
    }
    return node;
  }

  get #chosen() {
    return [...this.#languages.querySelectorAll("input:checked")].map(({ value }) => value);
  }

  get #values() {
    return Object.fromEntries(Object.entries(this.#menus).map(([name, { value }]) => [name, value]));
  }
}
