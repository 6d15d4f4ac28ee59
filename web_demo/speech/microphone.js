// The microphone button: on, mute and push to talk.
//
// Owns: the button, its status text, and which utterance the recognised speech belongs to.
// Must not know: sockets, captions.

import { icon } from "../page/dom.js";
import { nameOf } from "../page/languages.js";
import { ContinuousRecognition } from "./speech-recognition.js";
import { newId } from "./utterance-ids.js";

const HOLD_MS = 350; // a longer press is push to talk, a shorter one a switch
const HOLD_HINT = "Hold the space bar or the microphone button while you speak.";

/** The microphone button. */
export class Microphone {
  #button = document.querySelector("#mic");
  #status = document.querySelector("#mic-status");
  #pushToTalk = document.querySelector("#push-to-talk");
  #recognition;
  #say;
  #language;
  #id = null; // of the growing utterance
  #pressedAt = 0;

  /**
   * @param {(message: object) => boolean} options.say sends { id, text, final, lang }
   * @param {() => string} options.language returns the tag of the spoken language
   */
  constructor({ say, language }) {
    this.#say = say;
    this.#language = language;
    this.#recognition = new ContinuousRecognition({
      onText: (text, final, lang) => this.#send(text, final, lang),
      onState: (state, reason) => this.#showState(state, reason),
    });
    this.#button.dataset.state = "off";
    this.#pushToTalk.closest("label").hidden = !this.#recognition.isSupported;
    this.#button.addEventListener("pointerdown", (event) => this.#onPress(event));
    this.#button.addEventListener("click", (event) => event.detail === 0 && this.#toggle()); // 0: by keyboard
    addEventListener("keydown", (event) => this.#onSpace(event, true));
    addEventListener("keyup", (event) => this.#onSpace(event, false));
    this.#pushToTalk.addEventListener("change", () => {
      this.#recognition.stop();
      if (this.#pushToTalk.checked) this.#status.textContent = HOLD_HINT;
    });
  }

  /** Recognise another language from now on. */
  setLanguage(lang) {
    this.#recognition.setLanguage(lang);
  }

  #onPress({ button, pointerId }) {
    if (button) return; // not the primary one
    const before = this.#button.dataset.state;
    this.#pressedAt = performance.now();
    this.#button.setPointerCapture(pointerId);
    if (before !== "listening") this.#recognition.start(this.#language());
    this.#button.addEventListener("lostpointercapture", () => {
      const held = performance.now() - this.#pressedAt > HOLD_MS;
      if (held || this.#pushToTalk.checked) this.#recognition.stop();
      else if (before === "listening") this.#recognition.mute();
    }, { once: true });
  }

  #toggle() {
    if (this.#button.dataset.state === "listening") this.#recognition.mute();
    else this.#recognition.start(this.#language());
  }

  /** Push to talk with the space bar, unless the focus is on something that uses it. */
  #onSpace(event, down) {
    const used = event.target.closest?.("input:not([type=checkbox]), textarea, select, button, a, dialog, [contenteditable]");
    if (event.code !== "Space" || !this.#pushToTalk.checked || used) return;
    event.preventDefault();
    if (event.repeat) return;
    if (down) this.#recognition.start(this.#language());
    else this.#recognition.stop();
  }

  #send(text, final, lang) {
    this.#id ??= newId();
    this.#say({ id: this.#id, text, final, lang });
    if (final) this.#id = null;
  }

  #showState(state, reason) {
    const listening = state === "listening";
    const status = {
      off: this.#pushToTalk.checked ? HOLD_HINT : "",
      starting: "Starting the microphone…",
      listening: `Listening (${nameOf(this.#language())})`,
      muted: "Microphone muted",
      waiting: reason,
      blocked: reason,
    };
    const label = listening ? "Mute the microphone" : "Speak";
    this.#button.dataset.state = state;
    this.#button.setAttribute("aria-pressed", listening);
    this.#button.setAttribute("aria-label", label);
    this.#button.title = label;
    this.#button.replaceChildren(icon(state === "muted" || state === "blocked" ? "muted" : "mic"));
    this.#status.textContent = status[state];
  }
}
