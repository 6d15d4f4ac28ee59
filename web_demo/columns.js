// The heads of the columns: which languages are read, one to three. Knows the document.

import { direction, element, fillMenu, iconButton, inLanguage, nameOf } from "./languages.js";

export const MOST = 3;

export class Columns {
  langs;
  #node;
  #onChange;
  #offered = [];

  constructor(node, langs, onChange) {
    this.#node = node;
    this.#onChange = onChange;
    this.langs = langs;
  }

  /** What the gateway can translate into; what was chosen and does not exist is dropped. */
  offer(tags) {
    this.#offered = tags.map((tag) => ({ tag, endonym: nameOf(tag) }));
    const langs = this.langs.filter((tag) => tags.includes(tag));
    if (!langs.length) langs.push(...tags.filter((tag) => !tag.startsWith("en")).slice(0, 2));
    this.#choose(langs.length ? langs : tags.slice(0, 1));
  }

  get offered() {
    return this.#offered.map(({ tag }) => tag);
  }

  /** Read these languages, the columns from left to right. */
  choose(langs) {
    this.#choose(langs);
    this.#onChange(this.langs);
  }

  #choose(langs) {
    this.langs = langs;
    document.body.dataset.side = langs.length;
    document.body.style.setProperty("--columns", langs.length);
    this.#draw();
  }

  #draw() {
    const lead = element("p", "lead", this.langs.length > 1 ? "Languages" : "Language");
    const heads = this.langs.map((tag, i) => this.#head(tag, i));
    const free = this.#offered.find(({ tag }) => !this.langs.includes(tag));
    if (free && this.langs.length < MOST) {
      const more = iconButton("plus", "Read another language");
      more.addEventListener("click", () => {
        this.choose([...this.langs, free.tag]);
        this.#node.querySelector(".head:last-child select").focus();
      });
      heads.at(-1)?.append(more);
    }
    this.#node.replaceChildren(lead, ...heads);
  }

  #head(tag, i) {
    const head = element("div", "head");
    head.dir = direction(tag); // over its text, also where that is read from the right
    const menu = element("select");
    menu.setAttribute("aria-label", `Language of column ${i + 1}`);
    fillMenu(menu, this.#offered, tag);
    inLanguage(menu, tag);
    menu.addEventListener("change", () => {
      const langs = [...this.langs];
      const twin = langs.indexOf(menu.value);
      if (twin >= 0) langs[twin] = tag; // the other column had it: they change places
      langs[i] = menu.value;
      this.choose(langs);
      this.#node.querySelectorAll("select")[i].focus();
    });
    head.append(menu);
    if (this.langs.length > 1) {
      const less = iconButton("close", `Stop reading ${nameOf(tag)}`);
      less.addEventListener("click", () => this.choose(this.langs.filter((other) => other !== tag)));
      head.append(less);
    }
    return head;
  }
}
