// The lines of a meeting that this page does not show: those before it joined, and those that it has dropped.
//
// Owns: reading the room's transcript, the control above the first caption, what is read when it is reached.
// Must not know: sockets, rows.

import { STRINGS } from "../page/strings.js";

const LINES = 200; // shown at once
const FRESH_MS = 10_000; // a transcript that was read this short a time ago is used again

/** Earlier lines of the room. */
export class EarlierLines {
  #node = document.querySelector("#earlier");
  #button = document.querySelector("#earlier button");
  #note = document.querySelector("#earlier p");
  #files;
  #languages;
  #state;
  #show;
  #record = null; // { read, languages, promise }
  #busy = false;
  #list = document.querySelector("#utterances");
  #timed = null; // epoch whose clock times have been read

  /**
   * @param {TranscriptFiles} options.files
   * @param {() => string[]} options.languages returns the languages that are read
   * @param {() => object} options.state returns the state of clients/js/captions.js
   * @param {(utterances: object[]) => void} options.show adds utterances to that state
   */
  constructor({ files, languages, state, show }) {
    this.#files = files;
    this.#languages = languages;
    this.#state = state;
    this.#show = show;
    this.#button.addEventListener("click", () => this.showMore());
  }

  /** Offer earlier lines if there may be some, and fill in clock times. Called when captions were rendered. */
  offer() {
    const { utterances, epoch } = this.#state();
    if (this.#list.dataset.times === "shown" && utterances.size && this.#timed !== epoch) {
      this.#timed = epoch;
      this.showTimes();
    }
    if (this.#note.textContent) return; // all have been shown
    this.#node.hidden = this.#first <= 1 || this.#first === Infinity;
  }

  /** Show lines before the first one, unless they are being read. */
  async showMore() {
    if (this.#busy || this.#node.hidden || this.#button.hidden) return;
    this.#busy = true;
    this.#button.textContent = STRINGS.captions.loadingEarlier;
    try {
      const { complete, utterances } = await this.read();
      const first = this.#first;
      const missing = utterances.filter(({ ord }) => ord < first);
      this.#show(missing.slice(-LINES));
      if (missing.length <= LINES) this.#end(complete ? STRINGS.captions.beginning : STRINGS.captions.beginningGone);
    } catch ({ message }) {
      this.#end(message);
    }
    this.#button.textContent = STRINGS.captions.earlier;
    this.#busy = false;
  }

  /** Show all lines from a place of the room on. */
  async showFrom(ord) {
    const { utterances } = await this.read();
    const first = this.#first;
    this.#show(utterances.filter((utterance) => utterance.ord >= ord && utterance.ord < first));
  }

  /** Fill in the clock times of lines that were said before this page joined. */
  async showTimes() {
    const lacking = [...this.#state().utterances.values()].some(({ at, final, retracted }) => !at && final && !retracted);
    if (!lacking) return;
    const { utterances } = await this.read().catch(() => ({ utterances: [] }));
    const first = this.#first;
    this.#show(utterances.filter(({ ord }) => ord >= first));
  }

  /**
   * Read the transcript.
   * @returns {Promise<{complete: boolean, utterances: object[]}>} utterances as in the event `earlier`
   * @throws {Error} with the reason in words, if the gateway refuses
   */
  read() {
    const languages = this.#languages().join();
    const { epoch } = this.#state();
    const known = this.#record;
    if (known && known.languages === languages && known.epoch === epoch && performance.now() - known.read < FRESH_MS) {
      return known.promise;
    }
    const promise = this.#read(languages, epoch);
    this.#record = { promise, languages, epoch, read: performance.now() };
    promise.catch(() => { this.#record = null; });
    return promise;
  }

  async #read(languages, epoch) {
    const record = await this.#files.record(languages);
    return record.epoch === epoch ? record : { complete: true, utterances: [] }; // the gateway has restarted meanwhile
  }

  /** Number of the first utterance that is here, Infinity if there is none. Those before a restart do not count. */
  get #first() {
    const { utterances, epochIndex } = this.#state();
    const known = [...utterances.values()].filter((one) => one.epochIndex === epochIndex && one.ord < Number.MAX_VALUE);
    return known.reduce((first, { ord }) => Math.min(first, ord), Infinity);
  }

  #end(text) {
    this.#note.textContent = text;
    this.#button.hidden = true;
  }
}
