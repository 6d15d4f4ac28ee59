// Speech recognition by the browser (Web Speech API).
//
// Owns: starting and stopping the browser's recogniser. Recognisers stop by themselves, after a silence or a
// minute; as long as somebody wants to speak, another one is started, and the text so far is finished.
// Must not know: the document, sockets.

import { STRINGS } from "../page/strings.js";

const RESTART_MS = [250, 500, 1000, 2000, 5000]; // by the number of starts without a result
const REGIONS = { en: "en-US", de: "de-DE", fr: "fr-FR", es: "es-ES", ja: "ja-JP", zh: "zh-CN" };
const PROBLEMS = {
  unsupported: STRINGS.microphone.unsupported,
  "not-allowed": STRINGS.microphone.notAllowed,
  "service-not-allowed": STRINGS.microphone.serviceNotAllowed,
  "audio-capture": STRINGS.microphone.notFound,
  "language-not-supported": STRINGS.microphone.languageNotSupported,
};
const FATAL = Object.keys(PROBLEMS);
const REFUSED = ["not-allowed", "service-not-allowed"]; // over http, nothing that people could allow changes them

/**
 * Read one result event of a recogniser.
 * @param results the recogniser's list of results
 * @param {number} from results that were finished before
 * @returns { finals, growing, next }: texts finished by this event, the unfinished text, and the next `from`
 */
export function readResults(results, from) {
  const finals = [];
  let next = from;
  while (next < results.length && results[next].isFinal) finals.push(results[next++][0].transcript.trim());
  const growing = Array.from(results).slice(next).map((result) => result[0].transcript).join("").trim();
  return { finals: finals.filter(Boolean), growing, next };
}

/** Continuous speech recognition in one language at a time. */
export class ContinuousRecognition {
  #Recogniser;
  #secure;
  #onText;
  #onState;
  #recogniser = null;
  #language = "en";
  #wanted = false;
  #muted = false;
  #finished = 0; // results of this recogniser that are final
  #growing = "";
  #failures = 0;
  #timer = 0;

  /**
   * @param {(text: string, final: boolean, lang: string) => void} options.onText receives the whole text of
   *   the utterance so far
   * @param {(state: string, reason?: string) => void} options.onState receives "off", "starting", "listening",
   *   "muted", "waiting" or "blocked"; the last two with a reason to show
   * @param options.Recogniser class of the browser's recogniser
   * @param {boolean} options.secure whether the page came over https, or from the own machine
   */
  constructor({
    onText, onState, Recogniser = globalThis.SpeechRecognition ?? globalThis.webkitSpeechRecognition,
    secure = globalThis.isSecureContext ?? true,
  }) {
    this.#secure = secure;
    this.#Recogniser = Recogniser;
    this.#onText = onText;
    this.#onState = onState;
  }

  /** True if this browser can recognise speech. */
  get isSupported() {
    return Boolean(this.#Recogniser);
  }

  /** Start listening, or continue after `mute`. */
  start(lang) {
    this.#language = lang;
    if (!this.isSupported) return this.#onState("blocked", this.#secure ? PROBLEMS.unsupported : STRINGS.microphone.insecure);
    if (this.#wanted && !this.#muted) return;
    this.#wanted = true;
    this.#muted = false;
    this.#failures = 0;
    this.#listen();
  }

  /** Stop listening. The text so far is finished. */
  stop() {
    this.#wanted = this.#muted = false;
    this.#rest("off");
  }

  /** Stop listening until `start`. */
  mute() {
    if (!this.#wanted) return;
    this.#muted = true;
    this.#rest("muted");
  }

  /** Recognise another language from now on. */
  setLanguage(lang) {
    if (lang === this.#language) return;
    this.#language = lang;
    if (this.#wanted && !this.#muted) this.#recogniser?.stop(); // `onend` starts another one
  }

  #rest(state) {
    clearTimeout(this.#timer);
    this.#recogniser?.stop(); // it may give one more result; `onend` finishes the text
    if (!this.#recogniser) this.#finishText();
    this.#onState(state);
  }

  #listen() {
    clearTimeout(this.#timer);
    if (this.#recogniser) return; // it is ending, and `onend` starts another one
    const lang = this.#language;
    const recogniser = (this.#recogniser = new this.#Recogniser());
    recogniser.lang = REGIONS[lang] ?? lang;
    recogniser.continuous = true;
    recogniser.interimResults = true;
    this.#finished = 0;
    recogniser.onstart = () => this.#onState("listening");
    recogniser.onresult = ({ results }) => {
      this.#failures = 0;
      const { finals, growing, next } = readResults(results, this.#finished);
      this.#finished = next;
      for (const text of finals) this.#emit(text, true, lang);
      if (growing && growing !== this.#growing) this.#emit(growing, false, lang);
    };
    recogniser.onerror = ({ error }) => this.#onError(error);
    recogniser.onend = () => {
      this.#recogniser = null;
      this.#finishText(lang);
      if (!this.#wanted || this.#muted) return;
      const wait = RESTART_MS[Math.min(this.#failures, RESTART_MS.length - 1)];
      this.#failures++;
      this.#timer = setTimeout(() => this.#listen(), wait);
    };
    this.#onState("starting");
    try {
      recogniser.start();
    } catch {
      recogniser.onend(); // another page uses the recogniser: try again later
    }
  }

  #onError(error) {
    if (FATAL.includes(error)) {
      this.#wanted = this.#muted = false;
      this.#onState("blocked", this.#secure || !REFUSED.includes(error) ? PROBLEMS[error] : STRINGS.microphone.insecure);
    } else if (error === "network") {
      this.#onState("waiting", STRINGS.microphone.noService);
    } // "no-speech" and "aborted" come before `onend` and need nothing else
  }

  /** Finish the growing text, because its recogniser has ended. */
  #finishText(lang = this.#language) {
    if (this.#growing) this.#emit(this.#growing, true, lang);
  }

  #emit(text, final, lang) {
    this.#growing = final ? "" : text;
    this.#onText(text, final, lang);
  }
}
