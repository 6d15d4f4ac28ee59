// A lasting connection to a gateway over WebSocket.
//
// Owns: sockets, reconnecting, heartbeats, sending again what may be lost. Before a planned restart
// the next socket is opened while the old one still works.
// Must not know: the document, captions, what events mean beyond reconnecting.

import { withQuery } from "./address.js";
import { PendingRequests, ResumePosition, backoff, isRetryable } from "./resume.js";

const PROTOCOL = "gw.v1.json";
const HEARTBEAT_S = 15; // interval of the server's `tick`; browsers do not show pings to pages
const SILENCE_S = 2.5 * HEARTBEAT_S; // without a frame for this long, the connection is dead
const ANSWER_S = 5; // until an utterance without an answer is said again: over its rate the gateway reads no frame
const STABLE_S = 5; // a connection that lasts this long resets the backoff
const MAX_WAITING_AUDIO = 96_000; // bytes that wait to be sent: three seconds at 16 kHz
const OPEN = 1; // state of a socket
const LINGER_S = 5; // until the old socket is closed, after the next one has taken over

/** A WebSocket connection that is opened again when it breaks, and resumes where it stopped. */
export class WebSocketConnection {
  #address;
  #onEvent;
  #onState;
  #protocols;
  #WebSocket;
  #current = null; // whose events count: { socket, welcome, queued, lastFrame, silenceTimer }
  #next = null; // the one that is being opened
  #position = new ResumePosition();
  #pending = new PendingRequests();
  #serverLeaving = false; // `goaway` was received
  #attempts = 0;
  #stableTimer = 0;
  #retryTimer = 0;
  #answerTimer = 0; // of the utterance that is beginning

  /**
   * @param {() => string | URL} address returns the URL of the next socket
   * @param {(event: object) => void} options.onEvent receives each event once
   * @param {(state: string, detail?: number | string, code?: number) => void} options.onState receives "connecting",
   *   "open", "waiting" with the seconds until the next attempt, or "closed" with the reason and the code
   * @param {string} options.key API key or JWT. It is sent as a sub-protocol, because addresses are written to logs
   * @param {typeof WebSocket} options.WebSocket where there is no global one
   */
  constructor(address, { onEvent, onState, key, WebSocket = globalThis.WebSocket }) {
    this.#address = address;
    this.#onEvent = onEvent;
    this.#onState = onState;
    this.#protocols = key ? [PROTOCOL, `gw.bearer.${key}`] : [PROTOCOL];
    this.#WebSocket = WebSocket;
  }

  /** Open the next socket. */
  open() {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = 0;
    if (!this.#current) this.#onState("connecting");
    const url = withQuery(this.#position.addTo(this.#address()), { hb: HEARTBEAT_S });
    const socket = new this.#WebSocket(url, this.#protocols);
    const link = (this.#next = { socket, welcome: null, queued: [], lastFrame: 0, silenceTimer: 0 });
    socket.onmessage = ({ data }) => this.#onFrame(link, JSON.parse(data));
    socket.onerror = () => {}; // `onclose` follows; the package `ws` would throw
    socket.onclose = ({ code, reason }) => this.#onClose(link, code, reason);
    this.#watchSilence(link);
  }

  /** Close the connection for good. */
  close() {
    const link = this.#current;
    this.#current = null;
    clearTimeout(link?.silenceTimer);
    clearTimeout(this.#stableTimer);
    clearTimeout(this.#answerTimer);
    link?.socket.close(1000);
    this.#stop("you left", 1000);
  }

  /** Check the connection now, and do not wait for the next attempt: the network, or a page that slept, is back. */
  wake() {
    if (this.#retryTimer) this.open();
    else if (this.#current && Date.now() - this.#current.lastFrame > SILENCE_S * 1000) {
      this.#drop(this.#current); // timers do not run while a page sleeps
    }
  }

  /** True if a message can be sent now. */
  get isOpen() {
    return this.#current?.socket.readyState === OPEN;
  }

  /**
   * Send a message. A `say` is kept until the gateway confirms it, and is sent again if necessary. A new
   * utterance is sent when the gateway has accepted the one before.
   * @returns {boolean} false if the message is lost
   */
  send(message) {
    if (message.type === "say") {
      message = this.#pending.add(message);
      if (!message) return false;
      const { id } = message;
      if (this.#pending.isGrowing(id) || (this.#pending.isBeginning(id) && !this.#serverLeaving)) this.#write(message);
      else this.#beginNext();
      return true;
    }
    if (message.type === "cancel") this.#pending.remove(message.id);
    if (message.type === "bye") for (const said of this.#pending.waiting()) this.#write(said); // it accepts none later
    const sent = this.#write(message);
    this.#beginNext();
    return sent;
  }

  /** Send a piece of live audio; drop it if the network is slow, since what is late would delay all that follows. */
  sendAudio(pcm) {
    // React Native does not tell how much waits.
    if (this.isOpen && (this.#current.socket.bufferedAmount ?? 0) < MAX_WAITING_AUDIO) this.#current.socket.send(pcm);
  }

  /** Send the next new utterance, unless one is beginning. A gateway that is leaving takes none: the next socket sends it. */
  #beginNext() {
    const message = this.isOpen && !this.#serverLeaving ? this.#pending.begin() : null;
    if (message) this.#begin(message.id);
  }

  /** Send the newest text of an utterance that is beginning, until it is answered. */
  #begin(id) {
    if (!this.#pending.isBeginning(id) || !this.#write(this.#pending.get(id))) return;
    this.#beginAgainIn(ANSWER_S * 1000, id);
  }

  #beginAgainIn(ms, id) {
    clearTimeout(this.#answerTimer);
    this.#answerTimer = setTimeout(() => this.#begin(id), ms);
  }

  #write(message) {
    const open = this.isOpen;
    if (open) this.#current.socket.send(JSON.stringify(message));
    return open;
  }

  #onFrame(link, event) {
    this.#watchSilence(link);
    if (link === this.#current) {
      this.#dispatch(event);
    } else if (link === this.#next) {
      link.queued.push(event);
      if (event.type === "welcome") link.welcome = event;
      this.#switchToNext();
    } // else the socket was replaced, and the current one receives the event as well
  }

  /** Let the next socket take over, if it continues where the current one is. */
  #switchToNext() {
    const next = this.#next;
    // A next process without the room's events cannot replace a socket that still works.
    if (!next?.welcome || (this.#current && !next.welcome.resumed?.ok)) return;
    if (this.#current) this.#retire(this.#current);
    this.#current = next;
    this.#next = null;
    this.#serverLeaving = false;
    this.#position.welcome(next.welcome);
    this.#pending.beginAgain();
    this.#stableTimer = setTimeout(() => (this.#attempts = 0), STABLE_S * 1000);
    this.#onState("open");
    for (const event of next.queued.splice(0)) this.#dispatch(event);
    this.#beginNext();
  }

  #retire(link) {
    clearTimeout(link.silenceTimer);
    setTimeout(() => link.socket.close(), LINGER_S * 1000); // the server usually closes it before
  }

  #dispatch(event) {
    if (!this.#position.accept(event)) return;
    if (event.type === "goaway") {
      this.#serverLeaving = true;
      if (!this.#next) this.#retryIn(backoff(0));
    }
    if (event.type === "error") {
      const message = this.#pending.onError(event);
      if (message) {
        // The page is not told: the message is sent again, unless it was replaced meanwhile.
        const sendAgain = () => this.#pending.get(event.id) === message && this.#write(message);
        const wait = event.retry_ms ?? 1000;
        if (this.#pending.isBeginning(event.id)) this.#beginAgainIn(wait, event.id);
        else setTimeout(sendAgain, wait);
        return;
      }
    } else {
      this.#pending.onEvent(event);
    }
    this.#beginNext();
    this.#onEvent(event);
  }

  #onClose(link, code, reason) {
    clearTimeout(link.silenceTimer);
    if (link === this.#next) {
      this.#next = null;
      // A refused resume token does not mean that the page is refused: connect without it.
      const stale = !isRetryable(code) && "resume" in this.#position.query();
      if (stale) this.#position.forget();
      if (stale || isRetryable(code)) this.#retryIn(backoff(this.#attempts++));
      else if (!this.#current) this.#onState("closed", reason || `code ${code}`, code);
    } else if (link === this.#current) {
      this.#current = null;
      this.#serverLeaving = false;
      clearTimeout(this.#stableTimer);
      if (!isRetryable(code)) this.#stop(reason || `code ${code}`, code);
      else if (this.#next?.welcome) this.#switchToNext();
      else if (this.#next) this.#onState("connecting");
      else this.#retryIn(backoff(this.#attempts++));
    }
  }

  #retryIn(seconds) {
    clearTimeout(this.#retryTimer);
    if (!this.#current) this.#onState("waiting", seconds);
    this.#retryTimer = setTimeout(() => this.open(), seconds * 1000);
  }

  #stop(reason, code) {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = 0;
    const next = this.#next;
    this.#next = null;
    clearTimeout(next?.silenceTimer);
    next?.socket.close();
    this.#onState("closed", reason, code);
  }

  #watchSilence(link) {
    link.lastFrame = Date.now();
    clearTimeout(link.silenceTimer);
    link.silenceTimer = setTimeout(() => this.#drop(link), SILENCE_S * 1000);
  }

  #drop(link) {
    link.socket.close(); // on a dead connection `onclose` may come minutes later, so do not wait for it
    this.#onClose(link, 1006, "");
  }
}
