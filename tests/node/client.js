// A client of the gateway's WebSocket, in JSON or MessagePack. It knows frames but not their meaning.

import { decode, encode } from "@msgpack/msgpack";
import WebSocket from "ws";

export const JSON_PROTOCOL = "gw.v1.json";
export const MSGPACK_PROTOCOL = "gw.v1.msgpack";

export class Client {
  #socket;
  #events = [];
  #readers = [];

  /** Connect. `url` contains the query; `protocols` may be empty. */
  static async connect(url, protocols = [JSON_PROTOCOL]) {
    const client = new Client(new WebSocket(url, protocols));
    await new Promise((resolve, reject) => {
      client.#socket.once("open", resolve);
      client.#socket.once("error", reject);
    });
    return client;
  }

  constructor(socket) {
    this.#socket = socket;
    this.closed = new Promise((resolve) => {
      socket.once("close", (code, reason) => {
        for (const { reject } of this.#readers) reject(new Error(`closed ${code} ${reason}`));
        resolve({ code, reason: reason.toString() });
      });
    });
    socket.on("message", (data, binary) => {
      const event = binary ? decode(data) : readText(data.toString());
      const reader = this.#readers.shift();
      if (reader) reader.resolve(event);
      else this.#events.push(event);
    });
  }

  get protocol() {
    return this.#socket.protocol;
  }

  /** Send a message in the negotiated format. */
  send(message) {
    const binary = this.protocol === MSGPACK_PROTOCOL;
    this.#socket.send(binary ? encode(message) : JSON.stringify(message));
  }

  /** Send a frame without encoding it: a string as text, a Uint8Array as binary. */
  sendRaw(frame) {
    this.#socket.send(frame);
  }

  /** Return the next event. Reject if the socket closes before it. */
  next() {
    if (this.#events.length) return Promise.resolve(this.#events.shift());
    return new Promise((resolve, reject) => this.#readers.push({ resolve, reject }));
  }

  /** Return the events up to the first for which `last` is true. Throw at an `error` before it. */
  async until(last) {
    const events = [];
    for (;;) {
      const event = await this.next();
      events.push(event);
      if (last(event)) return events;
      if (event.type === "error") throw new Error(`${event.code}: ${event.msg}`);
    }
  }

  close() {
    this.#socket.terminate();
  }
}

function readText(text) {
  return text.startsWith("{") ? JSON.parse(text) : text;
}
