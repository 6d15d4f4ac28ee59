// Which line is spoken aloud next, how fast, and what is left out when speech falls behind. Pure.
//
// A voice needs about as long for a line as the person who said it, so speech that falls behind never catches up by
// itself. It becomes faster first, then its pauses become shorter; at last it skips to the newest line and says so.
// Times are in milliseconds of any clock that the caller uses throughout.

import { splitText } from "../speech/split-text.js";

const MAX_PART = 200; // characters spoken at once: some browsers stop in the middle of longer texts
const MAX_AGE_MS = 12_000; // a line that waited longer is skipped
const MAX_WAITING_MS = 20_000; // of speech at the fastest rate; with more, the newest line comes next
const USUAL_SPEED = 0.014; // characters in a millisecond at the normal rate, until the voice has been measured
const LEARNING = 0.2; // share of a new measurement
/** What is done when the oldest line has waited so long, or when so much speech waits: rate, and pause before it. */
const STEPS = [
  { age: 0, waiting: 0, rate: 1, pause: 300 },
  { age: 600, waiting: 4_500, rate: 1.15, pause: 200 },
  { age: 1_200, waiting: 6_500, rate: 1.3, pause: 100 },
  { age: 2_000, waiting: 9_000, rate: 1.5, pause: 0 },
  { age: 4_000, waiting: 14_000, rate: 1.75, pause: 0 },
];
const FASTEST = STEPS.at(-1).rate;

/** Lines that wait to be spoken. */
export class SpeakingQueue {
  #parts = []; // { id, text, at }
  #speed = USUAL_SPEED;

  /** Speak a finished line after those that wait. `at` is when it was finished. */
  add({ id, text, at }) {
    for (const part of splitText(text, MAX_PART)) this.#parts.push({ id, text: part, at });
  }

  /** Speak another text in place of a line that still waits; what has been spoken is not taken back. */
  correct(id, text) {
    const first = this.#parts.findIndex((part) => part.id === id);
    if (first < 0) return;
    const { at } = this.#parts[first];
    const others = splitText(text, MAX_PART).map((part) => ({ id, text: part, at }));
    const rest = this.#parts.slice(first).filter((part) => part.id !== id);
    this.#parts = [...this.#parts.slice(0, first), ...others, ...rest];
  }

  /** Do not speak a line, because it was deleted. */
  remove(id) {
    this.#parts = this.#parts.filter((part) => part.id !== id);
  }

  /** Speak a part again from its beginning, because it was interrupted. */
  putBack(part) {
    this.#parts.unshift(part);
  }

  /** Forget all lines. */
  clear() {
    this.#parts = [];
  }

  /**
   * Take the next part out of the queue.
   * @param {number} now
   * @returns {{part: object, rate: number, pause: number, skipped: number} | null} `skipped` lines were left out
   *   before it; null if nothing waits
   */
  next(now) {
    if (!this.#parts.length) return null;
    const skipped = this.#skip(now);
    const waiting = this.#waitingMs;
    const part = this.#parts.shift();
    const { rate, pause } = STEPS.findLast((step) => now - part.at >= step.age || waiting >= step.waiting);
    return { part, rate, pause, skipped };
  }

  /** Learn how fast the voice is: it took `ms` for a text at a rate. */
  learn(text, ms, rate) {
    const speed = [...text].length / (ms * rate);
    if (Number.isFinite(speed)) this.#speed += LEARNING * (speed - this.#speed);
  }

  /** How long all that waits takes at the normal rate. */
  get #waitingMs() {
    return this.#parts.reduce((sum, { text }) => sum + [...text].length, 0) / this.#speed;
  }

  /** Drop all but the newest line, if speech is too far behind; return how many lines. */
  #skip(now) {
    if (now - this.#parts[0].at <= MAX_AGE_MS && this.#waitingMs <= MAX_WAITING_MS * FASTEST) return 0;
    const newest = this.#parts.at(-1).id;
    const lines = new Set(this.#parts.map(({ id }) => id)).size - 1;
    this.#parts = this.#parts.filter(({ id }) => id === newest);
    return lines;
  }
}
