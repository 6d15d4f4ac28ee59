// Timed playback of utterances: the demo meeting, or a pasted transcript.
//
// Owns: when each entry is said, pausing and speed.
// Must not know: sockets, the document.

import { dueBefore } from "./demo-script.js";

const RETRY_MS = 300; // after an entry could not be sent

/** A player of a list of timed entries; see `timeline` in demo-script.js. */
export class Player {
  #entries;
  #say;
  #onProgress;
  #now;
  #next = 0;
  #elapsed = 0; // seconds of the meeting
  #countedAt = null; // wall time at which `#elapsed` was counted; null while paused
  #timer = 0;
  speed = 1;

  /**
   * @param {object[]} entries
   * @param {(entry: object) => boolean} options.say returns false if the entry cannot be said now
   * @param {(next: number) => void} options.onProgress receives the index of the next entry
   * @param {() => number} options.now clock, in seconds
   */
  constructor(entries, { say, onProgress, now = () => performance.now() / 1000 }) {
    this.#entries = entries;
    this.#say = say;
    this.#onProgress = onProgress;
    this.#now = now;
  }

  /** True unless paused. */
  get isPlaying() {
    return this.#countedAt !== null;
  }

  /** Start, or continue after `pause`. */
  play() {
    if (this.isPlaying) return;
    this.#countedAt = this.#now();
    this.#step();
  }

  /** Stop until `play`. */
  pause() {
    this.#countTime();
    clearTimeout(this.#timer);
    this.#countedAt = null;
  }

  /** Play `speed` times as fast as it is spoken. */
  setSpeed(speed) {
    this.#countTime();
    this.speed = speed;
    if (this.isPlaying) this.#step();
  }

  #countTime() {
    if (!this.isPlaying) return;
    const now = this.#now();
    this.#elapsed += (now - this.#countedAt) * this.speed;
    this.#countedAt = now;
  }

  #step() {
    clearTimeout(this.#timer);
    this.#countTime();
    const end = dueBefore(this.#entries, this.#next, this.#elapsed);
    for (; this.#next < end; this.#next++) {
      const [entry, following] = [this.#entries[this.#next], this.#entries[this.#next + 1]];
      // Timers are late in a background tab: a partial text whose next version is due is left out.
      const outdated = !entry.final && this.#next + 1 < end && following?.line === entry.line;
      if (!outdated && !this.#say(entry)) {
        this.#elapsed = Math.min(this.#elapsed, entry.at);
        this.#timer = setTimeout(() => this.#step(), RETRY_MS);
        return;
      }
    }
    this.#onProgress(this.#next);
    if (this.#next === this.#entries.length) return this.pause();
    const wait = (this.#entries[this.#next].at - this.#elapsed) / this.speed;
    this.#timer = setTimeout(() => this.#step(), 1000 * Math.max(0, wait));
  }
}
