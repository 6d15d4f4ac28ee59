// One lasting stream of a room's events over HTTP, for networks that let no WebSocket through.
// Reading only. It looks like a `Connection`, and what it cannot do it says by `send` being false.

const WAITS_S = [1, 2, 4, 8, 15];

export class Events {
  #address;
  #onEvent;
  #onState;
  #source = null;
  #place = null; // { resume, epoch, seq }: how far we have come
  #failures = 0;
  #timer = 0;

  /** `address()` gives the URL each time; the callbacks are those of `Connection`. */
  constructor(address, { onEvent, onState }) {
    this.#address = address;
    this.#onEvent = onEvent;
    this.#onState = onState;
    addEventListener("online", () => this.#hurry());
    addEventListener("pageshow", () => this.#hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.#hurry());
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
    const url = new URL(this.#address());
    for (const [name, value] of Object.entries(this.#place ?? {})) url.searchParams.set(name, value);
    const source = (this.#source = new EventSource(url));
    source.onmessage = ({ data }) => this.#hear(JSON.parse(data));
    source.onerror = () => this.#lost();
    source.addEventListener("close", ({ data }) => {
      const { code } = JSON.parse(data);
      if (code < 4400) return this.#lost();
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
      this.#place = { resume: event.resume, epoch: event.epoch, seq: event.seq };
      this.#onState("open");
    } else if (event.seq && event.type !== "tick") {
      this.#place.seq = event.seq;
    }
    this.#onEvent(event);
  }

  #lost() {
    this.close();
    const seconds = Math.random() * WAITS_S[Math.min(this.#failures++, WAITS_S.length - 1)];
    this.#onState("waiting", seconds);
    this.#timer = setTimeout(() => this.open(), seconds * 1000);
  }

  #hurry() {
    if (this.#timer) this.open();
  }
}
