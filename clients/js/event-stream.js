// A lasting stream of a room's events over HTTP (server-sent events), for networks that block WebSockets.
//
// Owns: streams and reconnecting. Has the interface of `WebSocketConnection`, but is read-only: `send`
// returns false.
// Must not know: the document, captions.

import { ResumePosition, backoff, isRetryable } from "./resume.js";

/** A read-only connection that is opened again when it breaks, and resumes where it stopped. */
export class EventStream {
  #address;
  #onEvent;
  #onState;
  #EventSource;
  #source = null;
  #position = new ResumePosition();
  #failures = 0;
  #retryTimer = 0;

  /**
   * @param {() => string | URL} address returns the URL of the next stream
   * @param {object} options `onEvent` and `onState` as of `WebSocketConnection`, and `EventSource` where there is no
   *   global one
   */
  constructor(address, { onEvent, onState, EventSource = globalThis.EventSource }) {
    this.#address = address;
    this.#onEvent = onEvent;
    this.#onState = onState;
    this.#EventSource = EventSource;
  }

  /** Open another stream if `message` asks for other languages; ignore all other messages. */
  send(message) {
    if (message.type === "want") this.open();
    return false;
  }

  /** Open a stream; an open one is closed. */
  open() {
    this.close();
    this.#onState("connecting");
    const source = (this.#source = new this.#EventSource(this.#position.addTo(this.#address())));
    source.onmessage = ({ data }) => this.#onFrame(JSON.parse(data));
    source.onerror = () => this.#retry();
    source.addEventListener("close", ({ data }) => {
      const { code } = JSON.parse(data);
      if (isRetryable(code)) return this.#retry();
      this.close();
      this.#onState("closed", `code ${code}`, code);
    });
  }

  /** Close the stream for good. */
  close() {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = 0;
    this.#source?.close();
    this.#source = null;
  }

  /** Do not wait for the next attempt: the network, or a page that slept, is back. */
  wake() {
    if (this.#retryTimer) this.open();
  }

  #onFrame(event) {
    if (event.type === "welcome") {
      this.#failures = 0;
      this.#position.welcome(event);
      this.#onState("open");
    }
    if (this.#position.accept(event)) this.#onEvent(event);
  }

  #retry() {
    this.close(); // the browser's own reconnect would use the old address
    const seconds = backoff(this.#failures++);
    this.#onState("waiting", seconds);
    this.#retryTimer = setTimeout(() => this.open(), seconds * 1000);
  }
}
