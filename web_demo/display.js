// How the captions look: theme, size, originals, and the audience's view. Remembered in this browser.

import { keepAwake } from "./awake.js";

const DEFAULTS = { theme: "auto", size: "medium", original: "shown" };
const KEY = "display";

export class Display {
  #box = document.querySelector("#display-box");
  #list = document.querySelector("#utterances");
  #button = document.querySelector("#audience");
  #onChange;
  #idle = 0;
  #choices;

  /** `onChange` is called when everything has to be laid out anew. */
  constructor(onChange, defaults = {}) {
    this.#onChange = onChange;
    this.#choices = { ...DEFAULTS, ...defaults, ...remembered() };
    for (const [name, value] of Object.entries(this.#choices)) {
      const input = this.#box.querySelector(`[name="${name}"][value="${value}"]`);
      if (input) input.checked = true;
    }
    this.#box.addEventListener("change", ({ target }) => {
      this.#choices[target.name] = target.value;
      localStorage.setItem(KEY, JSON.stringify(this.#choices));
      this.#apply();
    });
    document.querySelector("#display").addEventListener("click", () => this.#box.showModal());
    this.#button.addEventListener("click", () => this.audience());
    document.addEventListener("fullscreenchange", () => {
      if (!document.fullscreenElement && this.#audience) this.audience(false);
    });
    for (const type of ["pointermove", "pointerdown", "keydown"]) addEventListener(type, () => this.#stir());
    addEventListener("keydown", ({ key }) => {
      // On the full screen the browser itself takes Escape. Elsewhere it may be meant for a dialog or a panel.
      if (key === "Escape" && this.#audience && document.activeElement === document.body) this.audience(false);
    });
    this.#apply();
  }

  get #audience() {
    return document.body.hasAttribute("data-audience");
  }

  /** The captions alone, for a projector; the whole screen where the browser lets us. */
  audience(on = !this.#audience) {
    document.body.toggleAttribute("data-audience", on);
    this.#button.setAttribute("aria-pressed", on);
    if (on) document.documentElement.requestFullscreen?.().catch(() => {});
    else if (document.fullscreenElement) document.exitFullscreen();
    keepAwake(on);
    if (on) this.#button.blur(); // the bar stays while something in it has the keyboard's focus
    this.#stir();
    this.#onChange();
  }

  #apply() {
    const { theme, size, original } = this.#choices;
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    document.body.dataset.size = size;
    this.#list.dataset.original = original;
    this.#onChange();
  }

  /** The bar shows while somebody is at the machine. */
  #stir() {
    clearTimeout(this.#idle);
    document.body.toggleAttribute("data-awake", true);
    this.#idle = setTimeout(() => document.body.removeAttribute("data-awake"), 2500);
  }
}

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}
