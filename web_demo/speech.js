// Speech through the browser's recogniser (Web Speech API). Knows time; knows no socket, no document.
//
// Recognisers stop by themselves, after a silence or a minute. As long as somebody wants to speak, it is
// started again, and what it had heard so far is said as it stands.

const AGAIN_MS = [250, 500, 1000, 2000, 5000]; // before starting again, after so many starts in vain
const REGIONS = { en: "en-US", de: "de-DE", fr: "fr-FR", es: "es-ES", ja: "ja-JP", zh: "zh-CN" };
const WORDS = {
  absent: "This browser has no speech recognition. Type, paste a transcript, or play the demo; "
    + "Chrome, Edge and Safari can listen.",
  "not-allowed": "The microphone is not allowed for this page. Allow it in the address bar, then press again.",
  "service-not-allowed": "This browser does not let pages recognise speech here. It may ask for https.",
  "audio-capture": "No microphone was found.",
  "language-not-supported": "The recogniser of this browser does not know this language.",
};
const FATAL = Object.keys(WORDS);

/**
 * What one result event says: texts said to their end since the last event, and the one that grows.
 * `results` is the recogniser's list, `from` how many of them have been said to their end before.
 */
export function hear(results, from) {
  const finals = [];
  let next = from;
  while (next < results.length && results[next].isFinal) finals.push(results[next++][0].transcript.trim());
  const growing = Array.from(results).slice(next).map((result) => result[0].transcript).join("").trim();
  return { finals: finals.filter(Boolean), growing, next };
}

export class Speech {
  #Recogniser;
  #onText;
  #onState;
  #recogniser = null;
  #lang = "en";
  #wanted = false;
  #muted = false;
  #heard = 0; // results of this recogniser that have ended
  #growing = "";
  #failures = 0;
  #timer = 0;

  /**
   * `onText(text, final, lang)` is told what is said, each time the whole text so far; `onState` one of
   * "off", "starting", "listening", "muted", "waiting", "blocked", and in words why.
   */
  constructor({ onText, onState, Recogniser = globalThis.SpeechRecognition ?? globalThis.webkitSpeechRecognition }) {
    this.#Recogniser = Recogniser;
    this.#onText = onText;
    this.#onState = onState;
  }

  get possible() {
    return Boolean(this.#Recogniser);
  }

  get on() {
    return this.#wanted;
  }

  get muted() {
    return this.#muted;
  }

  start(lang) {
    this.#lang = lang;
    if (!this.possible) return this.#onState("blocked", WORDS.absent);
    if (this.#wanted && !this.#muted) return;
    this.#wanted = true;
    this.#muted = false;
    this.#failures = 0;
    this.#listen();
  }

  /** Stop listening. What was heard is said to its end. */
  stop() {
    this.#wanted = this.#muted = false;
    this.#rest("off");
  }

  /** Do not listen for a while; `start` goes on. */
  mute() {
    if (!this.#wanted) return;
    this.#muted = true;
    this.#rest("muted");
  }

  /** Another language is spoken from now on. */
  speak(lang) {
    if (lang === this.#lang) return;
    this.#lang = lang;
    if (this.#wanted && !this.#muted) this.#recogniser?.stop(); // `onend` starts it again
  }

  #rest(state) {
    clearTimeout(this.#timer);
    this.#recogniser?.stop(); // it may give one more result; `onend` says what is left
    if (!this.#recogniser) this.#finish();
    this.#onState(state);
  }

  #listen() {
    clearTimeout(this.#timer);
    if (this.#recogniser) return; // it ends first, and `onend` starts it again
    const lang = this.#lang;
    const recogniser = (this.#recogniser = new this.#Recogniser());
    recogniser.lang = REGIONS[lang] ?? lang;
    recogniser.continuous = true;
    recogniser.interimResults = true;
    this.#heard = 0;
    recogniser.onstart = () => this.#onState("listening");
    recogniser.onresult = ({ results }) => {
      this.#failures = 0;
      const { finals, growing, next } = hear(results, this.#heard);
      this.#heard = next;
      for (const text of finals) this.#put(text, true, lang);
      if (growing && growing !== this.#growing) this.#put(growing, false, lang);
    };
    recogniser.onerror = ({ error }) => this.#failed(error);
    recogniser.onend = () => {
      this.#recogniser = null;
      this.#finish(lang);
      if (!this.#wanted || this.#muted) return;
      const wait = AGAIN_MS[Math.min(this.#failures, AGAIN_MS.length - 1)];
      this.#failures++;
      this.#timer = setTimeout(() => this.#listen(), wait);
    };
    this.#onState("starting");
    try {
      recogniser.start();
    } catch {
      recogniser.onend(); // another page has it: try again
    }
  }

  #failed(error) {
    if (FATAL.includes(error)) {
      this.#wanted = this.#muted = false;
      this.#onState("blocked", WORDS[error]);
    } else if (error === "network") {
      this.#onState("waiting", "The browser cannot reach its speech service; trying again.");
    } // "no-speech" and "aborted" come before `onend`, and mean nothing
  }

  /** The recogniser has gone: what still grew is all there is of it. */
  #finish(lang = this.#lang) {
    if (this.#growing) this.#put(this.#growing, true, lang);
  }

  #put(text, final, lang) {
    this.#growing = final ? "" : text;
    this.#onText(text, final, lang);
  }
}
