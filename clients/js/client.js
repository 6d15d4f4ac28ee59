// One room of a gateway, as a reader or a speaker sees it: the captions as they are now, and what to say.
//
// Owns: the query of a connection, the ids of what is said here, and when the captions are shown anew.
// Must not know: the document, how connections are kept.

import { socketAddress, withQuery } from "./address.js";
import { EMPTY_STATE, inRoomOrder, reduce } from "./captions.js";
import { WebSocketConnection } from "./connection.js";

const UNAUTHENTICATED = 4401; // close code

/** A lasting connection to a room, and the captions of the room. */
export class CaptionClient {
  #address;
  #options;
  #connection;
  #languages;
  #captions = EMPTY_STATE;
  #ticket = null; // for the next socket
  #left = false;
  #welcomed = false; // since the last ticket was requested
  #prefix = Math.random().toString(36).slice(2, 10); // keeps ids of two clients in a room apart
  #said = 0;

  /**
   * @param {string | URL} gateway address, such as `wss://captions.example`
   * @param {object} options see index.d.ts
   */
  constructor(gateway, options = {}) {
    this.#address = socketAddress(gateway);
    this.#options = options;
    this.#languages = [options.to ?? []].flat();
    this.#connection = new WebSocketConnection(() => this.#nextAddress(), {
      onEvent: (event) => this.#onEvent(event),
      onState: (...change) => this.#onState(...change),
      key: options.key,
      WebSocket: options.WebSocket,
    });
  }

  /** The utterances in the order of the room, each with its captions. */
  get utterances() {
    return inRoomOrder(this.#captions);
  }

  /** True if a message can be sent now. */
  get isOpen() {
    return this.#connection.isOpen;
  }

  /** Connect. Rejects if no ticket is to be had. */
  async open() {
    this.#welcomed = false;
    this.#ticket = (await this.#options.ticket?.()) ?? null;
    if (!this.#left) this.#connection.open();
  }

  /** Leave the room for good. Idempotent, and may be called in `onChange`. */
  close() {
    if (this.#left) return;
    this.#left = true;
    this.#connection.close();
  }

  /** Check the connection now, because the network, or an application that slept, is back. */
  wake() {
    this.#connection.wake();
  }

  /**
   * Say a text, or a newer version of one that is not finished. It is sent again if the connection breaks.
   * @param {string} text the whole text so far
   * @param {object} options `id` of an utterance that grows, `final` false while it does, and other fields of `say`
   * @returns {string | null} the id; null if too many texts wait for a connection
   */
  say(text, options = {}) {
    const message = { type: "say", id: `${this.#prefix}-${++this.#said}`, text, ...options };
    if (!this.#connection.send(message)) return null;
    this.#apply({ lang: this.#options.from ?? "", final: true, speaker: this.#options.speaker, ...message });
    return message.id;
  }

  /** Read these languages from now on. */
  want(languages) {
    this.#languages = [languages].flat();
    return this.#connection.send({ type: "want", langs: this.#languages });
  }

  /** Send any message of the protocol; return false if it is lost. */
  send(message) {
    return this.#connection.send(message);
  }

  #nextAddress() {
    const { room, role, from, view, speaker } = this.#options;
    const ticket = this.#ticket;
    this.#ticket = null; // it can be used once; later sockets have a resume token
    return withQuery(this.#address, { room, role, from, view, speaker, to: this.#languages.join(), ticket });
  }

  #onEvent(event) {
    if (event.type === "welcome") this.#welcomed = true;
    this.#options.onEvent?.(event);
    if (event.type === "heard" && event.text) this.#apply({ ...event, type: "say", speaker: this.#options.speaker });
    else this.#apply(event);
  }

  #onState(state, detail, code) {
    if (state === "waiting" || state === "closed") this.#apply({ type: "broken" });
    // The gateway no longer knows the session, and a ticket cannot be used twice.
    if (code === UNAUTHENTICATED && this.#welcomed && this.#options.ticket) {
      this.open().catch((error) => this.#options.onState?.("closed", String(error), code));
      return;
    }
    this.#options.onState?.(state, detail, code);
  }

  #apply(event) {
    const before = this.#captions;
    this.#captions = reduce(before, event);
    if (this.#captions !== before) this.#options.onChange?.(this);
  }
}

/**
 * Join a room.
 * @param {string | URL} gateway
 * @param {object} options see index.d.ts
 * @returns {CaptionClient}
 */
export function connect(gateway, options = {}) {
  const client = new CaptionClient(gateway, options);
  client.open().catch((error) => options.onState?.("closed", String(error)));
  return client;
}
