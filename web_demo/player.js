// Plays what is to be said when: the demo meeting, or a transcript that was pasted.
// Knows time; knows no socket and no document.

import { due } from "./meeting.js";

const AGAIN_MS = 300; // until the next try where the gateway does not take it

export class Player {
  #said;
  #say;
  #onProgress;
  #now;
  #next = 0;
  #seconds = 0; // of the meeting that have passed
  #since = null; // wall time at which `#seconds` was counted
  #timer = 0;
  pace = 1;

  /** `say(entry)` returns false where it cannot be said now; `onProgress(next, said)` is told. */
  constructor(said, { say, onProgress, now = () => performance.now() / 1000 }) {
    this.#said = said;
    this.#say = say;
    this.#onProgress = onProgress;
    this.#now = now;
  }

  get playing() {
    return this.#since !== null;
  }

  play() {
    if (this.playing) return;
    this.#since = this.#now();
    this.#step();
  }

  pause() {
    this.#count();
    clearTimeout(this.#timer);
    this.#since = null;
  }

  setPace(pace) {
    this.#count();
    this.pace = pace;
    if (this.playing) this.#step();
  }

  #count() {
    if (!this.playing) return;
    const now = this.#now();
    this.#seconds += (now - this.#since) * this.pace;
    this.#since = now;
  }

  #step() {
    clearTimeout(this.#timer);
    this.#count();
    const until = due(this.#said, this.#next, this.#seconds);
    for (; this.#next < until; this.#next++) {
      const [entry, after] = [this.#said[this.#next], this.#said[this.#next + 1]];
      // A tab in the background is late: what is outdated already need not be said.
      const outdated = !entry.final && this.#next + 1 < until && after?.line === entry.line;
      if (!outdated && !this.#say(entry)) {
        this.#seconds = Math.min(this.#seconds, entry.at);
        this.#timer = setTimeout(() => this.#step(), AGAIN_MS);
        return;
      }
    }
    this.#onProgress(this.#next, this.#said);
    if (this.#next === this.#said.length) return this.pause();
    const wait = (this.#said[this.#next].at - this.#seconds) / this.pace;
    this.#timer = setTimeout(() => this.#step(), 1000 * Math.max(0, wait));
  }
}
