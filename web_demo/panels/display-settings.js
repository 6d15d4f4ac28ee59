// How the captions look: theme, size, originals, and the presentation view for a projector.
//
// Owns: the Display dialog; its choices are stored in this browser.
// Must not know: captions, sockets.

import { keepScreenOn } from "../page/wake-lock.js";

const DEFAULTS = { theme: "auto", size: "medium", original: "shown", times: "hidden" };
const STORED = "display";
const IDLE_MS = 2500; // after the last movement, the presentation view hides the toolbar

/** The Display dialog and the Present button. */
export class DisplaySettings {
  #dialog = document.querySelector("#display-dialog");
  #list = document.querySelector("#utterances");
  #presentButton = document.querySelector("#present");
  #onChange;
  #onPresent;
  #idleTimer = 0;
  #choices;

  /**
   * @param {() => void} callbacks.onChange called when the captions must be laid out again
   * @param {() => void} callbacks.onPresent called when the presentation view begins
   * @param {object} defaults choices of this page, used until somebody chooses
   */
  constructor({ onChange, onPresent }, defaults = {}) {
    this.#onChange = onChange;
    this.#onPresent = onPresent;
    this.#choices = { ...DEFAULTS, ...defaults, ...storedChoices() };
    for (const [name, value] of Object.entries(this.#choices)) {
      const input = this.#dialog.querySelector(`[name="${name}"][value="${value}"]`);
      if (input) input.checked = true;
    }
    this.#dialog.addEventListener("change", ({ target }) => {
      this.#choices[target.name] = target.value;
      localStorage.setItem(STORED, JSON.stringify(this.#choices));
      this.#apply();
    });
    document.querySelector("#display").addEventListener("click", () => this.#dialog.showModal());
    this.#presentButton.addEventListener("click", () => this.present());
    document.addEventListener("fullscreenchange", () => {
      if (!document.fullscreenElement && this.#isPresenting) this.present(false);
    });
    for (const type of ["pointermove", "pointerdown", "keydown"]) addEventListener(type, () => this.#showToolbar());
    addEventListener("keydown", ({ key }) => {
      // In full screen the browser handles Escape. Otherwise it may be meant for a dialog or a panel.
      if (key === "Escape" && this.#isPresenting && document.activeElement === document.body) this.present(false);
    });
    this.#apply();
  }

  get #isPresenting() {
    return document.body.hasAttribute("data-presenting");
  }

  /** Start or end the presentation view: the captions alone, in full screen if the browser allows it. */
  present(on = !this.#isPresenting) {
    document.body.toggleAttribute("data-presenting", on);
    this.#presentButton.setAttribute("aria-pressed", on);
    if (on) document.documentElement.requestFullscreen?.().catch(() => {});
    else if (document.fullscreenElement) document.exitFullscreen();
    keepScreenOn(on);
    if (on) this.#presentButton.blur(); // the toolbar stays while the keyboard's focus is in it
    this.#showToolbar();
    this.#onChange();
    if (on) this.#onPresent();
  }

  #apply() {
    const { theme, size, original, times } = this.#choices;
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    document.body.dataset.size = size;
    this.#list.dataset.original = original;
    this.#list.dataset.times = times;
    this.#onChange();
  }

  /** Show the toolbar of the presentation view until nobody moves for a while. */
  #showToolbar() {
    clearTimeout(this.#idleTimer);
    document.body.toggleAttribute("data-active", true);
    this.#idleTimer = setTimeout(() => document.body.removeAttribute("data-active"), IDLE_MS);
  }
}

function storedChoices() {
  try {
    return JSON.parse(localStorage.getItem(STORED)) ?? {};
  } catch {
    return {};
  }
}
