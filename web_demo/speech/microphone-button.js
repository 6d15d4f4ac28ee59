// The microphone button: on, mute and push to talk, and who recognises the speech.
//
// Owns: the button, of the input bar and of the start screen, its status text, its options, and which utterance the recognised speech belongs to.
// Must not know: sockets, captions.

import { element, icon } from "../page/dom.js";
import { inLanguage, nameOf } from "../page/languages.js";
import { STRINGS, uiNameOf } from "../page/strings.js";
import { GatewayRecognition, canStream } from "./gateway-recognition.js";
import { ContinuousRecognition } from "./speech-recognition.js";
import { newId } from "./utterance-ids.js";

const HOLD_MS = 350; // a longer press is push to talk, a shorter one a switch
const WHERE = {
  browser: STRINGS.microphone.toBrowser,
  gateway: STRINGS.microphone.toGateway,
};

/** The microphone button. */
export class MicrophoneButton {
  #button = document.querySelector("#mic");
  #startButton = document.querySelector("#start-mic"); // the same on the start screen
  #status = document.querySelector("#mic-status");
  #pushToTalk = document.querySelector("#push-to-talk");
  #level = document.querySelector("#mic-level");
  #options = document.querySelector("#mic-options");
  #device = document.querySelector("#mic-device");
  #others = document.querySelector("#mic-languages");
  #recognition; // the one in use
  #browser;
  #gateway;
  #heard = null; // what the gateway hears: `audio` of its `welcome`
  #say;
  #language;
  #id = null; // of the growing utterance
  #pressedAt = 0;
  #onListening;
  #onProblem;

  /**
   * @param {(message: object) => boolean} options.say sends { id, text, final, lang }
   * @param {() => string} options.language returns the tag of the spoken language
   * @param {(message: object) => boolean} options.send sends a message
   * @param {(pcm: ArrayBuffer) => void} options.sendAudio sends audio to the gateway
   * @param {(listening: boolean) => void} options.onListening called when the microphone begins or stops listening
   * @param {(text: string) => void} options.onProblem receives why it does not work
   */
  constructor({ say, language, send, sendAudio, onListening, onProblem }) {
    this.#say = say;
    this.#onListening = onListening;
    this.#onProblem = onProblem;
    this.#language = language;
    const onState = (state, reason) => this.#showState(state, reason);
    this.#browser = new ContinuousRecognition({ onText: (text, final, lang) => this.#send(text, final, lang), onState });
    this.#gateway = new GatewayRecognition({ send, sendAudio, onState, onLevel: (level) => (this.#level.value = level) });
    this.#recognition = this.#browser;
    this.#button.dataset.state = "off";
    this.#pushToTalk.closest("label").hidden = !this.#recognition.isSupported;
    this.#device.addEventListener("change", () => this.#gateway.setDevice(this.#device.value));
    this.#others.addEventListener("change", () => this.#gateway.setLanguage(this.#spoken()));
    navigator.mediaDevices?.addEventListener("devicechange", () => this.#listDevices());
    this.#button.addEventListener("pointerdown", (event) => this.#onPress(event));
    this.#button.addEventListener("click", (event) => event.detail === 0 && this.#toggle()); // 0: by keyboard
    this.#startButton.addEventListener("click", () => this.#toggle());
    addEventListener("keydown", (event) => this.#onSpace(event, true));
    addEventListener("keyup", (event) => this.#onSpace(event, false));
    this.#pushToTalk.addEventListener("change", () => {
      this.#recognition.stop();
      if (this.#pushToTalk.checked) this.#status.textContent = STRINGS.microphone.hold;
    });
  }

  /** Recognise another language from now on. */
  setLanguage(lang) {
    this.#choose();
    this.#recognition.setLanguage(this.#spoken(lang));
    if (this.#button.dataset.state === "listening") this.#showState("listening"); // its text names the language
  }

  /** Use the recogniser of the gateway, if its `welcome` names one. */
  onWelcome({ audio = null }) {
    const before = this.#heard?.languages;
    this.#heard = canStream() ? audio : null;
    if (String(before) !== String(this.#heard?.languages)) this.#offerLanguages();
    this.#choose();
    this.#gateway.onConnected();
  }

  #offerLanguages() {
    this.#others.replaceChildren(...(this.#heard?.languages ?? []).map((tag) => {
      const label = inLanguage(element("label", "check"), tag);
      const box = Object.assign(element("input"), { type: "checkbox", value: tag });
      label.append(box, ` ${nameOf(tag)}`);
      return label;
    }));
    this.#others.closest("fieldset").hidden = this.#others.childElementCount < 2;
  }

  /** Stop listening. */
  stop() {
    this.#recognition.stop();
  }

  /** Handle an `error` event. */
  onError(event) {
    this.#gateway.onError(event);
  }

  /** Choose who recognises, unless somebody is speaking: the gateway wherever it can. */
  #choose() {
    const { state } = this.#button.dataset;
    if (this.#recognition !== this.#browser && (state === "listening" || state === "starting")) return;
    const { languages = [] } = this.#heard ?? {};
    const able = this.#heard && (!languages.length || languages.includes(this.#language()));
    if (able && (state === "listening" || state === "starting")) this.#browser.stop();
    this.#recognition = able ? this.#gateway : this.#browser;
    this.#pushToTalk.closest("label").hidden = !this.#recognition.isSupported;
    this.#options.hidden = this.#level.hidden = !able;
  }

  #start() {
    this.#choose();
    this.#recognition.start(this.#spoken());
  }

  /** Return the languages that may be spoken: the chosen one, and for the gateway those that are ticked. */
  #spoken(lang = this.#language()) {
    if (this.#recognition === this.#browser) return lang;
    const ticked = Array.from(this.#others.querySelectorAll(":checked"), ({ value }) => value);
    return [...new Set([lang, ...ticked])].join();
  }

  async #listDevices() {
    const devices = (await navigator.mediaDevices.enumerateDevices()).filter(({ kind }) => kind === "audioinput");
    const options = devices.map(({ deviceId, label }) => new Option(label || STRINGS.microphone.options, deviceId));
    const { value } = this.#device;
    this.#device.replaceChildren(new Option(STRINGS.microphone.defaultDevice, ""), ...options);
    this.#device.value = devices.some(({ deviceId }) => deviceId === value) ? value : "";
  }

  #onPress({ button, pointerId }) {
    if (button) return; // not the primary one
    const before = this.#button.dataset.state;
    this.#pressedAt = performance.now();
    this.#button.setPointerCapture(pointerId);
    if (before !== "listening") this.#start();
    this.#button.addEventListener("lostpointercapture", () => {
      const held = performance.now() - this.#pressedAt > HOLD_MS;
      if (held || this.#pushToTalk.checked) this.#recognition.stop();
      else if (before === "listening") this.#recognition.mute();
    }, { once: true });
  }

  #toggle() {
    if (this.#button.dataset.state === "listening") this.#recognition.mute();
    else this.#start();
  }

  /** Push to talk with the space bar, unless the focus is on something that uses it. */
  #onSpace(event, down) {
    const used = event.target.closest?.("input:not([type=checkbox]), textarea, select, button, a, dialog, [contenteditable]");
    if (event.code !== "Space" || !this.#pushToTalk.checked || used) return;
    event.preventDefault();
    if (event.repeat) return;
    if (down) this.#start();
    else this.#recognition.stop();
  }

  #send(text, final, lang) {
    this.#id ??= newId();
    this.#say({ id: this.#id, text, final, lang });
    if (final) this.#id = null;
  }

  #showState(state, reason) {
    const listening = state === "listening";
    if (listening && this.#recognition === this.#gateway) this.#listDevices(); // their names are known now
    const status = {
      off: this.#pushToTalk.checked ? STRINGS.microphone.hold : "",
      starting: STRINGS.microphone.starting,
      listening: STRINGS.microphone.listening({
        language: uiNameOf(this.#language()), where: this.#recognition === this.#browser ? WHERE.browser : WHERE.gateway,
      }),
      muted: STRINGS.microphone.muted,
      waiting: reason,
      blocked: "",
    };
    if (state === "blocked") this.#onProblem(reason);
    this.#onListening(listening);
    const label = listening ? STRINGS.microphone.mute : STRINGS.microphone.speak;
    this.#startButton.dataset.state = this.#button.dataset.state = state;
    this.#startButton.lastElementChild.textContent = label;
    this.#button.setAttribute("aria-pressed", listening);
    this.#button.setAttribute("aria-label", label);
    this.#button.title = label;
    this.#button.replaceChildren(icon(state === "muted" || state === "blocked" ? "muted" : "mic"));
    this.#status.textContent = this.#status.title = status[state];
  }
}
