// How the captions look: theme, size, originals, the presentation view for a projector, and paper.
//
// Owns: the Display dialog; its choices are stored in this browser. The code in the presentation view.
// Must not know: captions, sockets.

import { UI_LANGUAGE } from "../page/strings.js";

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
  #settings;
  #key;
  #code = document.querySelector("#present-code");

  /**
   * @param {{room: string, name: string, http: URL}} settings
   * @param {AccessKey} key
   * @param {() => void} callbacks.onChange called when the captions must be laid out again
   * @param {() => void} callbacks.onPresent called when the presentation view begins
   * @param {object} defaults choices of this page, used until somebody chooses
   */
  constructor(settings, key, { onChange, onPresent }, defaults = {}) {
    this.#settings = settings;
    this.#key = key;
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
    import("../page/wake-lock.js").then(({ keepScreenOn }) => keepScreenOn(on));
    if (on) this.#presentButton.blur(); // the toolbar stays while the keyboard's focus is in it
    this.#showToolbar();
    this.#onChange();
    if (on) this.#onPresent();
    if (on) this.#showCode();
  }

  /** Write above the captions on paper what they are: the meeting and the day. */
  onPrint() {
    const { name, room } = this.#settings;
    const day = new Intl.DateTimeFormat(UI_LANGUAGE, { dateStyle: "full", timeStyle: "short" }).format(new Date());
    document.querySelector("#print-head").textContent = `${name || room} · ${day}`;
  }

  /** Show the code for people who come late, if their telephones can reach its address. */
  async #showCode() {
    const { isLocal, readCode } = await import("./qr-code.js");
    const code = await readCode(this.#settings, this.#key.readerKey);
    if (!code || (isLocal(location.href) && !code.reachable)) return this.#code.replaceChildren();
    const name = document.createElement("p");
    name.textContent = this.#settings.room;
    this.#code.replaceChildren(code.picture, name);
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
