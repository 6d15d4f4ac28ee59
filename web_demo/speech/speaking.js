// What somebody says: by typing, with the microphone, or from the demo meeting or a pasted transcript.
//
// Owns: the parts of the input bar, and under which name and in which language this page speaks.
// Must not know: how captions are shown.

import { MicrophoneButton } from "./microphone-button.js";
import { SpeakerName, SpokenLanguage } from "./speaker.js";
import { TextInput } from "./text-input.js";

/** The input bar. */
export class Speaking {
  language;
  name;
  limits; // of the gateway, after `welcome`
  #player = null; // promise of the controls of playback
  #onPlayback;
  #text;
  #microphone;
  #send;
  #show;

  /**
   * @param {object} settings result of `readSettings`
   * @param {(message: object) => boolean} options.send sends a message; false if it is lost
   * @param {(pcm: ArrayBuffer) => void} options.sendAudio sends audio to the gateway
   * @param {(say: object) => void} options.show shows at once what this page says
   * @param {() => void} options.onLanguage called when another language is spoken
   * @param {(lang: string) => void} options.onPlayback called before a text in a language is played
   * @param {(open: boolean) => void} options.onMicrophone called when the microphone begins or stops listening
   * @param {(text: string) => void} options.onProblem receives why the microphone does not work
   */
  constructor(settings, { send, sendAudio, show, onLanguage, onPlayback, onMicrophone, onProblem }) {
    this.#send = send;
    this.#show = show;
    const say = (message) => this.say(message);
    const cancel = (id) => this.#cancel(id);
    const language = () => this.language.value;
    this.language = new SpokenLanguage(settings.from, (lang) => {
      send({ type: "set", from: lang });
      this.#microphone.setLanguage(lang);
      this.#text.onLanguage();
      onLanguage();
    });
    this.name = new SpeakerName(settings.speaker, (name) => send({ type: "set", speaker: name }));
    this.#text = new TextInput({ say, cancel, language: this.language });
    this.#microphone = new MicrophoneButton({ say, language, send, sendAudio, onListening: onMicrophone, onProblem });
    this.#onPlayback = onPlayback;
  }

  /** Fields of the address of the next connection. */
  get query() {
    return { from: this.language.value, speaker: this.name.value };
  }

  /** Return the controls of playback, which are loaded when something is played first. */
  get player() {
    this.#player ??= import("../playback/demo-controls.js").then(({ DemoControls }) => new DemoControls({
      say: (message) => this.say(message), cancel: (id) => this.#cancel(id), onStart: this.#onPlayback,
    }));
    return this.#player;
  }

  /** Say a text; false if it is lost. */
  say(message) {
    if (!this.#send({ type: "say", ...message })) return false;
    this.#show({ type: "say", lang: this.language.value, ...message, speaker: message.speaker ?? this.name.value });
    return true;
  }

  /** Handle an event of the meeting. */
  onEvent(event) {
    switch (event.type) {
      case "welcome":
        this.limits = event.limits;
        this.#text.setLimits(event.limits);
        this.#microphone.onWelcome(event);
        break;
      case "error":
        this.#microphone.onError(event);
        if (event.code === "stale") this.#text.onEnded(event.id);
        break;
      case "heard":
        if (event.text) this.#show({ ...event, type: "say", speaker: this.name.value });
        break;
      case "cancelled":
        if (event.seq && !event.lang) this.#text.onEnded(event.id);
    }
  }

  /** Allow or prevent sending, by the state of the connection. */
  onState(state) {
    this.#text.setEnabled(state !== "closed");
  }

  /** Stop everything that speaks. */
  stop() {
    this.#player?.then((player) => player.stop());
    this.#microphone.stop();
  }

  #cancel(id) {
    this.#send({ type: "cancel", id });
  }
}
