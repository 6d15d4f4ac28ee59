// State that lets a page continue after its connection broke. Pure.
//
// Owns: the position in the room's events, messages that the gateway has not confirmed, waiting times.
// Must not know: sockets, clocks.

import { withQuery } from "./address.js";

const BASE_S = 0.25;
const CAP_S = 15;
const MAX_PENDING = 100; // utterances kept while there is no connection
const MAX_REVISIONS = 10 * MAX_PENDING; // a late message must still get a higher revision

const DURABLE = ["source", "final", "failed", "cancelled", "edited", "retracted", "settings"];

/**
 * Tell whether to connect again after a close (docs/reference/codes.md).
 * @param {number} code close code; 1006 means that no close frame was received
 */
export function isRetryable(code) {
  return ![1000, 1003, 1007, 1008, 1009, 1010].includes(code) && !(code >= 4400 && code < 4500);
}

/**
 * Return the seconds to wait before an attempt: exponential backoff with full jitter.
 * @param {number} attempt attempts made so far, from 0
 * @param {() => number} random source of numbers from 0 to 1
 */
export function backoff(attempt, random = Math.random) {
  return random() * Math.min(CAP_S, BASE_S * 2 ** attempt);
}

/** Position of a page in the events of its room. */
export class ResumePosition {
  #token = null;
  #epoch = null;
  #seq = 0;
  #attempts = 0; // attempts to resume, successful or not
  #languages = new Set(); // tags that received the event numbered #seq; empty: all of them did

  /**
   * Return the query parameters of the next connection.
   * @param {boolean} severalLanguages whether the page reads several languages. The last number is
   *   then asked for again: if the engine serves two tags with one language, the room may hold
   *   further events of that number.
   */
  query(severalLanguages = false) {
    if (this.#epoch === null) return {};
    const repeats = severalLanguages && this.#languages.size ? 1 : 0;
    const position = { epoch: this.#epoch, seq: this.#seq - repeats };
    return this.#token ? { resume: this.#token, ...position } : position;
  }

  /**
   * Return `base` with the position of the page added to its query. Attempts are numbered because
   * the gateway may receive an abandoned attempt after a newer one.
   * @param {string | URL} base
   * @returns {string}
   */
  addTo(base) {
    const severalLanguages = /[?&]to=[^&]*(,|%2c)/i.test(base);
    const attempt = this.#token ? ++this.#attempts : null;
    return withQuery(base, { ...this.query(severalLanguages), attempt });
  }

  /** Apply the `welcome` of a new connection. */
  welcome({ resume, epoch, seq, resumed }) {
    // A new epoch counts from the start, unless the gateway says that it continues the old one.
    if (!resumed?.ok && epoch !== this.#epoch) {
      this.#seq = seq;
      this.#languages.clear();
    }
    this.#epoch = epoch;
    this.#token = resume;
  }

  /** Drop the token, because the gateway no longer accepts it. */
  forget() {
    this.#token = null;
    this.#epoch = null;
  }

  /**
   * Record an event.
   * @returns {boolean} whether the event is new; false if the page has received it before
   */
  accept({ type, seq, lang = null }) {
    if (!DURABLE.includes(type) || !seq) return true;
    if (seq > this.#seq) this.#languages.clear();
    else if (seq < this.#seq || !this.#languages.size || this.#languages.has(lang)) return false;
    this.#seq = seq;
    this.#languages.add(lang);
    return true;
  }
}

/**
 * Utterances that may be lost if the connection breaks, oldest first. An entry stays until its
 * `source` arrives or it is cancelled, and is replaced by its next revision.
 *
 * Utterances are begun one by one, each when the gateway has accepted the one before. The room puts
 * them in the order in which it accepts them, and one that was refused as busy and said again would
 * come after all that were accepted meanwhile.
 *
 * An entry: { message, ord, lastOrd, closedIds, accepted }.
 */
export class PendingRequests {
  #entries = new Map(); // by id, in the order in which the utterances began
  #revisions = new Map();
  #begun = null; // id of the utterance that was begun last

  /**
   * Keep a `say` message.
   * @returns the message with its revision, to be sent now and after a reconnect; null if too many wait
   */
  add(message) {
    const known = this.#entries.get(message.id);
    if (!known && this.#entries.size >= MAX_PENDING) return null;
    const rev = (this.#revisions.get(message.id) ?? 0) + 1;
    this.#revisions.set(message.id, rev);
    if (this.#revisions.size > MAX_REVISIONS) this.#revisions.delete(this.#revisions.keys().next().value);
    const entry = { lastOrd: 0, closedIds: new Set(), accepted: false, ...known };
    const numbered = { ...message, rev };
    this.#entries.set(message.id, { ...entry, ord: null, message: numbered });
    return numbered;
  }

  /** Forget an utterance. */
  remove(id) {
    this.#entries.delete(id);
  }

  /** Tell whether this connection's gateway has accepted an utterance of which more may follow. */
  isGrowing(id) {
    return Boolean(this.#entries.get(id)?.accepted);
  }

  /** Tell whether an utterance has been begun, and waits for its answer or to be sent again. */
  isBeginning(id) {
    return id === this.#begun && this.#entries.has(id) && !this.isGrowing(id);
  }

  /** Begin the next utterance: return its message; null if there is none, or one is beginning. */
  begin() {
    if (this.isBeginning(this.#begun)) return null;
    const [message = null] = this.waiting();
    this.#begun = message?.id ?? null;
    return message;
  }

  /** Return the messages of the utterances that have not been begun. */
  waiting() {
    return this.unconfirmed().filter(({ id }) => !this.isGrowing(id) && !this.isBeginning(id));
  }

  /** Begin all utterances again: a new connection may be to a gateway that knows none of them. */
  beginAgain() {
    this.#begun = null;
    for (const entry of this.#entries.values()) entry.accepted = false;
  }

  /** Return the messages that may be lost if the connection breaks. */
  unconfirmed() {
    return [...this.#entries.values()].map(({ message }) => message);
  }

  /** Return the current message of an utterance, or null. */
  get(id) {
    return this.#entries.get(id)?.message ?? null;
  }

  /**
   * Handle an `error` event.
   * @returns the message to send again later; null if there is none, and then the entry is forgotten
   */
  onError({ id, code, retry }) {
    const entry = this.#entries.get(id);
    if (!entry || code === "rate") return null;
    // An unfinished text need not be sent again: its next revision is about to follow.
    if (retry && entry.message.final) return entry.message;
    this.#entries.delete(id);
    return null;
  }

  /** Handle any other event: it may confirm or end an entry. */
  onEvent(event) {
    const [root, entry] = this.#find(event.id ?? "");
    if (!entry) return;
    switch (event.type) {
      case "ack":
        entry.accepted = true;
        if (event.rev === entry.message.rev) entry.ord = event.ord;
        break;
      case "source":
        entry.lastOrd = Math.max(entry.lastOrd, event.ord);
        entry.closedIds.add(event.id);
        break;
      case "cancelled":
      case "retracted":
        // A segment that had ended before says nothing about the one that grows.
        if (event.seq && !event.lang && !entry.closedIds.has(event.id)) this.#entries.delete(root);
    }
    if (entry.message.final && entry.ord !== null && entry.lastOrd >= entry.ord) this.#entries.delete(root);
  }

  /** Return [id, entry] of an utterance or of the one it is a segment of: `s7.2` belongs to `s7`. */
  #find(id) {
    const root = this.#entries.has(id) ? id : id.replace(/\.\d+$/, "");
    return [root, this.#entries.get(root)];
  }
}
