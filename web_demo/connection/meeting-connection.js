// The connection of the page to its meeting: a WebSocket, or server-sent events on a network that blocks those.
//
// Owns: the choice between the two, the address of the next connection, tickets and the question for a key.
// Must not know: captions, the document.

import { WebSocketConnection } from "../../clients/js/connection.js";
import { wakeOnReturn } from "../../clients/js/page-return.js";

const MAX_FAILED_SOCKETS = 2; // before the page reads over HTTP
const NO_KEY = 4401; // close code

/** A connection to a room, with messages that any of its parts may send. */
export class MeetingConnection {
  #settings;
  #key;
  #query;
  #onEvent;
  #onState;
  #onRole;
  #socket;
  #current; // the socket, or an event stream while sockets fail
  #failures = 0; // sockets that failed before the first one succeeded
  #welcomed = false;
  #ticket = null; // for the next connection, if the gateway asks for keys

  /**
   * @param {object} settings result of `readSettings`; its role becomes the best one that the key permits
   * @param {AccessKey} key
   * @param {() => object} options.query returns the fields `from`, `to` and `speaker` of the next address
   * @param {(event: object) => void} options.onEvent receives each event once
   * @param {(state: string, detail?: number | string, code?: number) => void} options.onState as of `WebSocketConnection`
   * @param {(role: string) => void} options.onRole called with the role that this page has from now on
   */
  constructor(settings, key, { query, onEvent, onState, onRole }) {
    this.#settings = settings;
    this.#key = key;
    this.#query = query;
    this.#onEvent = onEvent;
    this.#onState = onState;
    this.#onRole = onRole;
    this.#socket = new WebSocketConnection(() => this.#address("v1/ws", settings.gateway), {
      onEvent: (event) => this.#onSocketEvent(event),
      onState: (...change) => this.#current === this.#socket && this.#onConnectionState(...change),
    });
    this.#current = this.#socket;
    wakeOnReturn(this.#socket);
  }

  /** True while the page can only read, because this network blocks sockets. */
  get isReadOnly() {
    return this.#current !== this.#socket;
  }

  /** Connect: with a ticket if there is a key, else as a gateway without keys allows, which closes if it has some. */
  async open() {
    const access = await this.#key.requestTicket();
    if (!access) return this.askForKey();
    this.#ticket = access.ticket ?? null;
    if (access.role) this.#onRole((this.#settings.role = access.role));
    this.#socket.open();
  }

  /** Ask for a key and connect with it. Without one the page is closed, and says so. */
  askForKey() {
    this.#key.ask(() => this.open(), () => this.#onState("closed", "no key", NO_KEY));
  }

  /** Send a message; false if it is lost. */
  send(message) {
    return this.#current.send(message);
  }

  /** Send a piece of live audio. */
  sendAudio(pcm) {
    this.#socket.sendAudio(pcm);
  }

  /** Return the address of the next connection. */
  #address(path, base) {
    const { room, role } = this.#settings;
    const url = new URL(path, base);
    for (const [name, value] of Object.entries({ room, role, ...this.#query(), ticket: this.#ticket })) {
      if (value) url.searchParams.set(name, value);
    }
    this.#ticket = null; // it can be used once; later connections have a resume token
    return url;
  }

  #onConnectionState(state, detail, code) {
    this.#onState(state, detail, code);
    if (code === NO_KEY) this.askForKey(); // none was sent, or it has expired
    if (state === "waiting" && !this.#welcomed && ++this.#failures === MAX_FAILED_SOCKETS) this.#readOverHttp();
  }

  /** Handle an event of the socket; one that succeeds after all replaces the event stream. */
  #onSocketEvent(event) {
    if (event.type === "welcome") this.#welcomed = true;
    if (this.isReadOnly && event.type === "welcome") {
      this.#current.close();
      this.#current = this.#socket;
      this.#onRole(this.#settings.role);
      this.#onState("open");
    }
    if (!this.isReadOnly) this.#onEvent(event);
  }

  async #readOverHttp() {
    const { EventStream } = await import("../../clients/js/event-stream.js");
    this.#ticket = (await this.#key.requestTicket())?.ticket ?? null;
    const address = () => this.#address(`v1/rooms/${this.#settings.room}/events`, this.#settings.http);
    const stream = new EventStream(address, {
      onState: (...change) => (this.#current === stream || change[2] === NO_KEY) && this.#onConnectionState(...change),
      onEvent: (event) => {
        if (event.type === "welcome") {
          this.#current = stream;
          this.#onRole("view");
          this.#onState("open");
        }
        if (this.#current === stream) this.#onEvent(event);
      },
    });
    wakeOnReturn(stream);
    stream.open();
  }
}
