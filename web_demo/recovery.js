// What a page has to know to come back after its connection broke: how far it has come, what it said
// that may be lost, and when to try again. Pure: knows no socket and no clock.

const BASE_S = 0.25;
const CAP_S = 15;
const MOST = 100; // utterances kept while there is no connection

const DURABLE = ["source", "final", "failed", "cancelled", "edited", "retracted", "settings"];

/** Whether a close is worth a new socket (docs/reference/codes.md). 1006: broken without a close frame. */
export function worthRetrying(code) {
  return ![1000, 1003, 1007, 1008, 1009, 1010].includes(code) && !(code >= 4400 && code < 4500);
}

/** Seconds before attempt `n` (from 0): below a bound that doubles, anywhere (full jitter). */
export function backoff(n, random = Math.random) {
  return random() * Math.min(CAP_S, BASE_S * 2 ** n);
}

/** How far a page has come in its room. */
export class Position {
  #token = null;
  #epoch = null;
  #seq = 0;
  #attempts = 0; // to come back, however they ended
  #under = new Set(); // the tags under which the last number was told; empty: all of them

  /**
   * What the next socket's query says of it. Who reads `several` tags asks for the last number again:
   * where the engine serves two of them with one language, there may be more of it.
   */
  query(several = false) {
    if (this.#epoch === null) return {};
    const place = { epoch: this.#epoch, seq: this.#seq - (several && this.#under.size ? 1 : 0) };
    return this.#token ? { resume: this.#token, ...place } : place;
  }

  /**
   * The address of the next socket: this one, with how far the page has come. Attempts are numbered:
   * one that was given up may be read by the gateway after a later one.
   */
  address(base) {
    const url = new URL(base);
    const several = (url.searchParams.get("to") ?? "").includes(",");
    for (const [name, value] of Object.entries(this.query(several))) url.searchParams.set(name, value);
    if (this.#token) url.searchParams.set("attempt", ++this.#attempts);
    return url;
  }

  /** Another socket was opened; what `seq` counts from now. */
  welcome({ resume, epoch, seq, resumed }) {
    if (!resumed?.ok && epoch !== this.#epoch) {
      this.#seq = seq;
      this.#under.clear();
    }
    this.#epoch = epoch;
    this.#token = resume;
  }

  /** The token is good no more. */
  forget() {
    this.#token = null;
    this.#epoch = null;
  }

  /** Whether an event was not told before; then it is now. */
  fresh({ type, seq, lang = null }) {
    if (!DURABLE.includes(type) || !seq) return true;
    if (seq > this.#seq) this.#under.clear();
    else if (seq < this.#seq || !this.#under.size || this.#under.has(lang)) return false;
    this.#seq = seq;
    this.#under.add(lang);
    return true;
  }
}

/**
 * What was said and may be lost, in order: until its `source` comes, until it is cancelled, or its
 * next revision is said. An entry: { message, ord, heard, closed, accepted }.
 */
export class Ledger {
  #entries = new Map(); // by id; as a Map has them, in the order in which they began
  #revs = new Map();

  /** The message as it is to be sent, now and ever again; null where too much waits already. */
  say(message) {
    const known = this.#entries.get(message.id);
    if (!known && this.#entries.size >= MOST) return null;
    const rev = (this.#revs.get(message.id) ?? 0) + 1;
    this.#revs.set(message.id, rev);
    if (this.#revs.size > 10 * MOST) this.#revs.delete(this.#revs.keys().next().value);
    const entry = { heard: 0, closed: new Set(), accepted: false, ...known };
    const numbered = { ...message, rev };
    this.#entries.set(message.id, { ...entry, ord: null, message: numbered });
    return numbered;
  }

  cancel(id) {
    this.#entries.delete(id);
  }

  /** Whether something under `id` was accepted and is not said to its end. */
  growing(id) {
    const entry = this.#entries.get(id);
    return Boolean(entry?.accepted);
  }

  /** All there is, to be said on another socket. */
  repeat() {
    return [...this.#entries.values()].map(({ message }) => message);
  }

  /** What is to be said again after an `error`, if it is said to its end; else it is forgotten. */
  refused({ id, code, retry }) {
    const entry = this.#entries.get(id);
    if (!entry || code === "rate") return null;
    if (retry && entry.message.final) return entry.message;
    this.#entries.delete(id);
    return null;
  }

  /** A message that waits to be said again, unless it need not be any more. */
  get(id) {
    return this.#entries.get(id)?.message ?? null;
  }

  hear(event) {
    const [root, entry] = this.#of(event.id ?? "");
    if (!entry) return;
    switch (event.type) {
      case "ack":
        entry.accepted = true;
        if (event.rev === entry.message.rev) entry.ord = event.ord;
        break;
      case "source":
        entry.heard = Math.max(entry.heard, event.ord);
        entry.closed.add(event.id);
        break;
      case "cancelled":
      case "retracted":
        if (event.seq && !event.lang && !entry.closed.has(event.id)) this.#entries.delete(root);
    }
    if (entry.message.final && entry.ord !== null && entry.heard >= entry.ord) {
      this.#entries.delete(root);
    }
  }

  /** The entry of an id, or of the utterance that it is a part of: `s7.2` belongs to `s7`. */
  #of(id) {
    const root = this.#entries.has(id) ? id : id.replace(/\.\d+$/, "");
    return [root, this.#entries.get(root)];
  }
}
