// The microphone's button, its words, mute and push to talk. Knows the document; knows no socket.

import { icon, nameOf } from "./languages.js";
import { newId } from "./lines.js";
import { Speech } from "./speech.js";

const HELD_MS = 350; // a press longer than that is push to talk

export class Microphone {
  #button = document.querySelector("#mic");
  #words = document.querySelector("#hearing");
  #hold = document.querySelector("#hold");
  #speech;
  #say;
  #lang;
  #id = null; // of the utterance that grows
  #pressed = 0;

  /** `say(message)` returns false where it could not be sent; `lang()` is what is spoken. */
  constructor({ say, lang }) {
    this.#say = say;
    this.#lang = lang;
    this.#speech = new Speech({
      onText: (text, final, spoken) => this.#put(text, final, spoken),
      onState: (state, why) => this.#show(state, why),
    });
    this.#button.dataset.state = "off";
    this.#hold.closest("label").hidden = !this.#speech.possible;
    this.#button.addEventListener("pointerdown", (event) => this.#press(event));
    this.#button.addEventListener("click", (event) => event.detail === 0 && this.#toggle()); // keyboard
    addEventListener("keydown", (event) => this.#key(event, true));
    addEventListener("keyup", (event) => this.#key(event, false));
    this.#hold.addEventListener("change", () => {
      this.#speech.stop();
      if (this.#hold.checked) this.#words.textContent = "Hold the space bar, or the microphone, while you speak.";
    });
  }

  /** Another language is spoken from now on. */
  speak(lang) {
    this.#speech.speak(lang);
  }

  /** A tap is a switch, a longer press is push to talk. */
  #press({ button, pointerId }) {
    if (button) return;
    const was = this.#button.dataset.state;
    this.#pressed = performance.now();
    this.#button.setPointerCapture(pointerId);
    if (was !== "listening") this.#speech.start(this.#lang());
    this.#button.addEventListener("lostpointercapture", () => {
      const held = performance.now() - this.#pressed > HELD_MS;
      if (held || this.#hold.checked) this.#speech.stop();
      else if (was === "listening") this.#speech.mute();
    }, { once: true });
  }

  #toggle() {
    if (this.#button.dataset.state === "listening") this.#speech.mute();
    else this.#speech.start(this.#lang());
  }

  /** The space bar talks, where it does not type or press something. */
  #key(event, down) {
    const busy = event.target.closest?.("input:not([type=checkbox]), textarea, select, button, a, dialog, [contenteditable]");
    if (event.code !== "Space" || !this.#hold.checked || busy) return;
    event.preventDefault();
    if (event.repeat) return;
    if (down) this.#speech.start(this.#lang());
    else this.#speech.stop();
  }

  #put(text, final, lang) {
    this.#id ??= newId();
    this.#say({ id: this.#id, text, final, lang });
    if (final) this.#id = null;
  }

  #show(state, why) {
    const listening = state === "listening";
    const words = {
      off: this.#hold.checked ? "Hold the space bar, or the microphone, while you speak." : "",
      starting: "Starting the microphone",
      listening: `Listening, in ${nameOf(this.#lang())}`,
      muted: "Muted. Nothing is heard.",
      waiting: why,
      blocked: why,
    };
    this.#button.dataset.state = state;
    this.#button.setAttribute("aria-pressed", listening);
    this.#button.setAttribute("aria-label", listening ? "Mute" : "Speak");
    this.#button.title = listening ? "Mute" : "Speak";
    this.#button.replaceChildren(icon(state === "muted" || state === "blocked" ? "muted" : "mic"));
    this.#words.textContent = words[state];
    this.#words.dataset.state = state;
  }
}
