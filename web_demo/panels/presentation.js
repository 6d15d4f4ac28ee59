// The presentation view for a projector: the last captions alone, and a code for people who come late.
//
// Owns: when the view begins and ends, its bar, which hides, and its code. Its style is in presentation.css.
// Must not know: captions, sockets.

import { element } from "../page/dom.js";
import { keepScreenOn } from "../page/wake-lock.js";
import { isLocal, readCode } from "./qr-code.js";

const IDLE_MS = 2500; // after the last movement, the bar hides

/** The Present button. */
export class Presentation {
  #button = document.querySelector("#present");
  #code = document.querySelector("#present-code");
  #settings;
  #key;
  #onChange;
  #onBegin;
  #idleTimer = 0;

  /**
   * @param {{room: string, http: URL}} settings
   * @param {AccessKey} key
   * @param {() => void} options.onChange called when the captions must be laid out again
   * @param {() => void} options.onBegin called when the view begins
   */
  constructor(settings, key, { onChange, onBegin }) {
    this.#settings = settings;
    this.#key = key;
    this.#onChange = onChange;
    this.#onBegin = onBegin;
    this.#button.addEventListener("click", () => this.#present(!this.#isOn));
    document.addEventListener("fullscreenchange", () => {
      if (!document.fullscreenElement && this.#isOn) this.#present(false);
    });
    for (const type of ["pointermove", "pointerdown", "keydown"]) addEventListener(type, () => this.#showBar());
    addEventListener("keydown", ({ key: pressed }) => {
      // In full screen the browser handles Escape. Otherwise it may be meant for a dialog or a panel.
      if (pressed === "Escape" && this.#isOn && document.activeElement === document.body) this.#present(false);
    });
  }

  get #isOn() {
    return document.body.hasAttribute("data-presenting");
  }

  /** Begin or end the view, in full screen if the browser allows it. */
  #present(on) {
    document.body.toggleAttribute("data-presenting", on);
    this.#button.setAttribute("aria-pressed", on);
    keepScreenOn(on);
    this.#showBar();
    this.#onChange();
    if (on) {
      document.documentElement.requestFullscreen?.().catch(() => {});
      this.#button.blur(); // the bar stays while the keyboard's focus is in it
      this.#onBegin();
      this.#showCode();
    } else if (document.fullscreenElement) document.exitFullscreen();
  }

  /** Show the code for people who come late, if their telephones can reach its address. */
  async #showCode() {
    const code = await readCode(this.#settings, this.#key.readerKey);
    if (!code || (isLocal(location.href) && !code.reachable)) return this.#code.replaceChildren();
    this.#code.replaceChildren(code.picture, element("p", "", this.#settings.room));
  }

  /** Show the bar until nobody moves for a while. */
  #showBar() {
    clearTimeout(this.#idleTimer);
    document.body.toggleAttribute("data-active", true);
    this.#idleTimer = setTimeout(() => document.body.removeAttribute("data-active"), IDLE_MS);
  }
}
