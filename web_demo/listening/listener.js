// The captions of one language, spoken aloud by a voice of the browser.
//
// Owns: the voice, what has been spoken, when it is quiet. Which line comes next is in speaking-queue.js.
// Must not know: the document, sockets, rows.

import { nameOf } from "../page/languages.js";
import { STRINGS, UI_LANGUAGE, uiNameOf } from "../page/strings.js";
import { isOwnId } from "../speech/utterance-ids.js";
import { SpeakingQueue } from "./speaking-queue.js";

const VOICES_MS = 1500; // browsers load their voices in the background
const STUCK_MS = 15_000; // after this and twice the usual time, a voice that reports no end has stopped

/** A voice that reads captions aloud. */
export class Listener {
  #synthesis;
  #Utterance;
  #queue = new SpeakingQueue();
  #lang = null; // that is spoken; null while nobody listens
  #voice = null;
  #current = null; // { part, timer } that is spoken now
  #held = false; // the own microphone is open
  #timer = 0; // of the pause before the next part
  #known = new Set(); // ids of lines that were there before somebody listened
  #said = new Set(); // "id text" of lines that were queued once
  #epoch = null;
  #onChange;
  #onNotice;
  #now;

  /**
   * @param {(lang: string | null) => void} options.onChange called with the language that is spoken from now on
   * @param {(text: string) => void} options.onNotice receives why a language cannot be heard, and what was skipped
   * @param options.synthesis the voices of the browser
   * @param options.Utterance class of a text for them
   * @param {() => number} options.now clock, in milliseconds
   */
  constructor({
    onChange, onNotice, synthesis = globalThis.speechSynthesis, Utterance = globalThis.SpeechSynthesisUtterance,
    now = () => performance.now(),
  }) {
    this.#now = now;
    this.#onChange = onChange;
    this.#onNotice = onNotice;
    this.#synthesis = synthesis;
    this.#Utterance = Utterance;
  }

  /**
   * Speak the captions of a language from now on.
   * @param {string} lang
   * @param {object} state of clients/js/captions.js: its finished lines are not spoken
   */
  async start(lang, state) {
    this.stop();
    // Telephones allow speech from the first one on that follows a touch at once. It also shows that sound is on.
    this.#synthesis.speak(this.#utterance(nameOf(lang), lang, this.#find(lang)));
    const voice = this.#find(lang) ?? (await this.#load(lang));
    if (!voice) {
      this.#synthesis.cancel();
      return this.#onNotice(STRINGS.listening.noVoice({ language: uiNameOf(lang) }));
    }
    this.#voice = voice;
    this.#lang = lang;
    this.#epoch = state.epoch;
    const lines = [...state.utterances.values()];
    this.#known = new Set(lines.filter(({ final }) => final).map(({ id }) => id));
    this.#said = new Set(lines.map(({ id, captions }) => `${id} ${captions[lang]?.stable}`));
    this.#onChange(lang);
  }

  /** Be quiet. */
  stop() {
    clearTimeout(this.#timer);
    this.#queue.clear();
    this.#drop();
    if (this.#lang) this.#onChange((this.#lang = null));
  }

  /** Be quiet while the own microphone is open, which would hear the voice; what was interrupted is said again. */
  hold(held) {
    this.#held = held;
    const { part } = this.#current ?? {};
    if (!held) return this.#speakNext();
    this.#drop();
    if (part) this.#queue.putBack(part);
  }

  /** Handle an event of the meeting. Only finished captions are spoken: they are not taken back. */
  onEvent(event) {
    if (!this.#lang) return;
    if (event.type === "welcome" && event.epoch !== this.#epoch) {
      this.#epoch = event.epoch;
      this.#known.clear(); // ids may be used again
    } else if (event.type === "retracted") this.#queue.remove(event.id);
    else if (event.lang !== this.#lang || isOwnId(event.id)) return;
    else if (event.type === "edited") this.#queue.correct(event.id, event.text);
    else if (event.type === "final") this.#add(event);
  }

  #add({ id, text }) {
    const line = `${id} ${text}`;
    if (this.#known.has(id) || this.#said.has(line)) return; // sent again after a break
    this.#said.add(line);
    this.#queue.add({ id, text, at: this.#now() });
    this.#speakNext();
  }

  #speakNext() {
    if (this.#held || this.#current || this.#timer) return;
    const next = this.#queue.next(this.#now());
    if (!next) return;
    const { part, rate, pause, skipped } = next;
    if (skipped) this.#announce(skipped);
    this.#current = { part };
    this.#timer = setTimeout(() => this.#speak(part, rate), pause);
  }

  #speak(part, rate) {
    this.#timer = 0;
    if (!this.#current) return;
    const utterance = this.#utterance(part.text, this.#lang, this.#voice);
    utterance.rate = rate;
    const current = (this.#current = { part, timer: 0 });
    const begin = this.#now();
    const end = () => {
      if (this.#current !== current) return;
      clearTimeout(current.timer);
      this.#current = null;
      this.#queue.learn(part.text, this.#now() - begin, rate);
      this.#speakNext();
    };
    utterance.onend = end;
    utterance.onerror = end;
    current.timer = setTimeout(() => {
      this.#synthesis.cancel();
      end();
    }, STUCK_MS + 200 * part.text.length);
    this.#synthesis.speak(utterance);
  }

  /** Say, in the language of the page, that lines were left out. */
  #announce(count) {
    const text = STRINGS.listening.skipped({ count });
    this.#onNotice(text);
    const voice = this.#find(UI_LANGUAGE);
    if (voice) this.#synthesis.speak(this.#utterance(text, UI_LANGUAGE, voice));
  }

  /** Stop what is spoken now. */
  #drop() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    clearTimeout(this.#current?.timer);
    this.#current = null;
    this.#synthesis.cancel();
  }

  #utterance(text, lang, voice) {
    const utterance = new this.#Utterance(text);
    utterance.lang = voice?.lang ?? lang;
    if (voice) utterance.voice = voice;
    return utterance;
  }

  /** Return a voice of a language, one on this device first; undefined if there is none. */
  #find(lang) {
    const base = (tag) => tag.toLowerCase().split(/[-_]/)[0];
    const voices = this.#synthesis.getVoices().filter((voice) => base(voice.lang) === base(lang));
    return voices.find(({ localService }) => localService) ?? voices[0];
  }

  async #load(lang) {
    await new Promise((resolve) => {
      this.#synthesis.addEventListener("voiceschanged", resolve, { once: true });
      setTimeout(resolve, VOICES_MS);
    });
    return this.#find(lang);
  }
}
