// One lasting connection to a gateway: a WebSocket that is opened again when it breaks, and goes on
// where it ended. Before a planned restart the next one is opened while the old one still works.
// Knows codes and time; knows no document, and of the events only what that takes.

import { Ledger, Position, backoff, worthRetrying } from "./recovery.js";

const PROTOCOL = "gw.v1.json";
const HEARTBEAT_S = 15; // the server sends a `tick` this often; browsers cannot see pings
const SILENCE_S = 2.5 * HEARTBEAT_S; // no frame for so long: the line is dead
const STABLE_S = 5; // a connection that lasts so long was a good one
const LEAVE_S = 5; // until the old socket is closed, after the next one has taken over

/** A laptop that wakes up, or a network that returns, need not wait for a timer. */
export function onReturn(hurry) {
  addEventListener("online", hurry);
  addEventListener("pageshow", hurry);
  document.addEventListener("visibilitychange", () => document.hidden || hurry());
}

export class Connection {
  #address;
  #onEvent;
  #onState;
  #line = null; // whose events count: { socket, welcome, waiting, heard, silence }
  #next = null; // the one that is being opened
  #position = new Position();
  #ledger = new Ledger();
  #going = false; // the server is about to stop
  #attempts = 0;
  #stable = 0;
  #retry = 0;

  /**
   * `address()` gives the URL each time, `onEvent` takes a parsed frame, each event once; `onState` is
   * told "connecting", "open", "waiting" (and the seconds) or "closed" (and the reason).
   */
  constructor(address, { onEvent, onState }) {
    this.#address = address;
    this.#onEvent = onEvent;
    this.#onState = onState;
    onReturn(() => this.#hurry());
  }

  open() {
    clearTimeout(this.#retry);
    this.#retry = 0;
    if (!this.#line) this.#onState("connecting");
    const url = this.#position.address(this.#address());
    url.searchParams.set("hb", HEARTBEAT_S);
    const socket = new WebSocket(url, PROTOCOL);
    const line = (this.#next = { socket, welcome: null, waiting: [], heard: 0, silence: 0 });
    socket.onmessage = ({ data }) => this.#hear(line, JSON.parse(data));
    socket.onclose = ({ code, reason }) => this.#closed(line, code, reason);
    this.#listen(line);
  }

  /** Leave for good. */
  close() {
    const line = this.#line;
    this.#line = null;
    clearTimeout(line?.silence);
    clearTimeout(this.#stable);
    line?.socket.close(1000);
    this.#stop("you left");
  }

  get isOpen() {
    return this.#line?.socket.readyState === WebSocket.OPEN;
  }

  /**
   * Send a message; false where it is lost. What is said is not: it waits for the next socket, and is
   * said again where it may have been lost with the last one.
   */
  send(message) {
    if (message.type === "say") {
      const late = this.#going && !this.#ledger.growing(message.id);
      message = this.#ledger.say(message);
      if (!message) return false;
      if (!late) this.#write(message);
      return true;
    }
    if (message.type === "cancel") this.#ledger.cancel(message.id);
    return this.#write(message);
  }

  #write(message) {
    const open = this.isOpen;
    if (open) this.#line.socket.send(JSON.stringify(message));
    return open;
  }

  #hear(line, event) {
    this.#listen(line);
    if (line === this.#line) {
      this.#take(event);
    } else if (line === this.#next) {
      line.waiting.push(event);
      if (event.type === "welcome") line.welcome = event;
      this.#settle();
    } // else it was left, and the next one has it too
  }

  /** The next socket takes over, once the old one has nothing that it lacks. */
  #settle() {
    const next = this.#next;
    if (!next?.welcome || (this.#line && !next.welcome.resumed?.ok)) return;
    if (this.#line) this.#leave(this.#line);
    this.#line = next;
    this.#next = null;
    this.#going = false;
    this.#position.welcome(next.welcome);
    this.#stable = setTimeout(() => (this.#attempts = 0), STABLE_S * 1000);
    this.#onState("open");
    for (const event of next.waiting.splice(0)) this.#take(event);
    for (const message of this.#ledger.repeat()) this.#write(message);
  }

  #leave(line) {
    clearTimeout(line.silence);
    setTimeout(() => line.socket.close(), LEAVE_S * 1000); // the server is about to close it itself
  }

  #take(event) {
    if (!this.#position.fresh(event)) return;
    if (event.type === "goaway") {
      this.#going = true;
      if (!this.#next) this.#wait(backoff(0));
    }
    if (event.type === "error") {
      const message = this.#ledger.refused(event);
      if (message) {
        const again = () => this.#ledger.get(event.id) === message && this.#write(message);
        setTimeout(again, event.retry_ms ?? 1000);
        return;
      }
    } else {
      this.#ledger.hear(event);
    }
    this.#onEvent(event);
  }

  #closed(line, code, reason) {
    clearTimeout(line.silence);
    if (line === this.#next) {
      this.#next = null;
      // A token that is good no more is no reason to stay away: come as somebody new.
      const stale = !worthRetrying(code) && "resume" in this.#position.query();
      if (stale) this.#position.forget();
      if (stale || worthRetrying(code)) this.#wait(backoff(this.#attempts++));
      else if (!this.#line) this.#onState("closed", reason || `code ${code}`);
    } else if (line === this.#line) {
      this.#line = null;
      this.#going = false;
      clearTimeout(this.#stable);
      if (!worthRetrying(code)) this.#stop(reason || `code ${code}`);
      else if (this.#next?.welcome) this.#settle();
      else if (this.#next) this.#onState("connecting");
      else this.#wait(backoff(this.#attempts++));
    }
  }

  #wait(seconds) {
    clearTimeout(this.#retry);
    if (!this.#line) this.#onState("waiting", seconds);
    this.#retry = setTimeout(() => this.open(), seconds * 1000);
  }

  #stop(reason) {
    clearTimeout(this.#retry);
    this.#retry = 0;
    const next = this.#next;
    this.#next = null;
    clearTimeout(next?.silence);
    next?.socket.close();
    this.#onState("closed", reason);
  }

  #listen(line) {
    line.heard = Date.now();
    clearTimeout(line.silence);
    line.silence = setTimeout(() => this.#dead(line), SILENCE_S * 1000);
  }

  #dead(line) {
    line.socket.close(); // its `onclose` may take minutes on a dead line: do not wait for it
    this.#closed(line, 1006, "");
  }

  #hurry() {
    if (this.#retry) this.open();
    else if (this.#line && Date.now() - this.#line.heard > SILENCE_S * 1000) {
      this.#dead(this.#line); // timers stood still while the page slept
    }
  }
}
