// One lasting connection to a gateway: a WebSocket that is opened again when it breaks.
// Knows codes and time; knows no document, and not what the events mean.

const PROTOCOL = "gw.v1.json";
const HEARTBEAT_S = 15; // the server sends a `tick` this often; browsers cannot see pings
const SILENCE_S = 2.5 * HEARTBEAT_S; // no frame for so long: the line is dead
const LONGEST_WAIT_S = 20;

/** Whether a close is worth a new socket (docs/codes.md). 1006: broken without a close frame. */
export function worthRetrying(code) {
  return [1001, 1005, 1006, 1011, 1012, 1013].includes(code) || (code >= 4000 && code < 4400);
}

/** Seconds before attempt `n` (from 0): doubled each time, with full jitter. */
export function backoff(n, random = Math.random) {
  return random() * Math.min(LONGEST_WAIT_S, 2 ** n);
}

export class Connection {
  #address;
  #onEvent;
  #onState;
  #socket = null;
  #attempts = 0;
  #silence = 0;
  #retry = 0;

  /**
   * `address()` gives the URL each time, `onEvent` takes a parsed frame, `onState` is told
   * "connecting", "open", "waiting" (and the seconds) or "closed" (and the reason).
   */
  constructor(address, { onEvent, onState }) {
    this.#address = address;
    this.#onEvent = onEvent;
    this.#onState = onState;
    // A laptop that wakes up, or a network that returns, need not wait for the timer.
    addEventListener("online", () => this.#hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.#hurry());
  }

  open() {
    clearTimeout(this.#retry);
    this.#retry = 0;
    this.#onState("connecting");
    const url = new URL(this.#address());
    url.searchParams.set("hb", HEARTBEAT_S);
    const socket = (this.#socket = new WebSocket(url, PROTOCOL));
    socket.onmessage = ({ data }) => {
      this.#listen();
      const event = JSON.parse(data);
      if (event.type === "welcome") {
        this.#attempts = 0;
        this.#onState("open");
      }
      this.#onEvent(event);
    };
    socket.onclose = ({ code, reason }) => this.#closed(socket, code, reason);
    this.#listen();
  }

  get isOpen() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** Send a message; false where there is no open socket, and the message is lost. */
  send(message) {
    if (this.isOpen) this.#socket.send(JSON.stringify(message));
    return this.isOpen;
  }

  #closed(socket, code, reason) {
    if (socket !== this.#socket) return; // given up before
    clearTimeout(this.#silence);
    this.#socket = null;
    if (!worthRetrying(code)) {
      this.#onState("closed", reason || `code ${code}`);
      return;
    }
    const seconds = backoff(this.#attempts++);
    this.#onState("waiting", seconds);
    this.#retry = setTimeout(() => this.open(), seconds * 1000);
  }

  #listen() {
    clearTimeout(this.#silence);
    const socket = this.#socket;
    this.#silence = setTimeout(() => {
      socket.close(); // its `onclose` may take minutes on a dead line: do not wait for it
      this.#closed(socket, 1006, "");
    }, SILENCE_S * 1000);
  }

  #hurry() {
    if (this.#retry) this.open();
  }
}
