// One lasting stream of a room's events over HTTP, for networks that let no WebSocket through.
// Reading only. It looks like a `Connection`, and what it cannot do it says by `send` being false.

import { onReturn } from "./connection.js";
import { Position, backoff, worthRetrying } from "./recovery.js";

export class Events {
  #address;
  #onEvent;
  #onState;
  #source = null;
  #position = new Position();
  #failures = 0;
  #timer = 0;

  /** `address()` gives the URL each time; the callbacks are those of `Connection`. */
  constructor(address, { onEvent, onState }) {
    this.#address = address;
    this.#onEvent = onEvent;
    this.#onState = onState;
    onReturn(() => this.#hurry());
  }

  get isOpen() {
    return false; // for saying something
  }

  send(message) {
    if (message.type === "want") this.open();
    return false;
  }

  open() {
    this.close();
    this.#onState("connecting");
    const source = (this.#source = new EventSource(this.#position.address(this.#address())));
    source.onmessage = ({ data }) => this.#hear(JSON.parse(data));
    source.onerror = () => this.#lost();
    source.addEventListener("close", ({ data }) => {
      const { code } = JSON.parse(data);
      if (worthRetrying(code)) return this.#lost();
      this.close();
      this.#onState("closed", `code ${code}`);
    });
  }

  close() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#source?.close();
    this.#source = null;
  }

  #hear(event) {
    if (event.type === "welcome") {
      this.#failures = 0;
      this.#position.welcome(event);
      this.#onState("open");
    }
    if (this.#position.fresh(event)) this.#onEvent(event);
  }

  #lost() {
    this.close();
    const seconds = backoff(this.#failures++);
    this.#onState("waiting", seconds);
    this.#timer = setTimeout(() => this.open(), seconds * 1000);
  }

  #hurry() {
    if (this.#timer) this.open();
  }
}
