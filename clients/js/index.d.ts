// Types of index.js. Messages are in protocol.d.ts, which is made from docs/schema.

import type * as protocol from "./protocol.d.ts";

export type { protocol };
export type ServerMessage = protocol.ServerMessage;
export type ClientMessage = protocol.ClientMessage;

/** State of a connection. `waiting`: the next attempt is due in some seconds. `closed`: there will be none. */
export type ConnectionState = "connecting" | "open" | "waiting" | "closed";

/** A caption in one language: `stable` text, followed by a `draft` that may still change. */
export interface Caption {
  readonly stable: string;
  readonly draft: string;
  /** `interrupted`: the connection ended before the caption did. */
  readonly status: "growing" | "final" | "failed" | "cancelled" | "silent" | "interrupted" | "missing";
  /** Why it failed; one of the error codes. */
  readonly code: string | null;
  /** Written by a person. */
  readonly edited?: true;
  /** The model was unsure of its words. */
  readonly unsure?: true;
  /** A number, a time or the currency of a sum is not that of the original. */
  readonly numbersLost?: true;
  /** A term of the glossary was not used. */
  readonly termMissing?: true;
  /** Language through which it was translated. */
  readonly pivot?: string;
  /** Name of the engine that made it, if that is not the one in `welcome`. */
  readonly engine?: string;
}

/**
 * What somebody said, with its captions by language tag: the original and all that its speaker stated beside
 * it, as in its `source`. A long text is several utterances: `u1`, `u1.2`, ...
 */
export interface Utterance extends Readonly<Omit<protocol.Source, "type" | "seq" | "rev" | "ord" | "speaker">> {
  /** Differs between all utterances, also after a restart of the gateway. */
  readonly key: string;
  readonly speaker: string | null;
  /** The original is complete. */
  readonly final: boolean;
  /** A person corrected the original. */
  readonly edited?: boolean;
  readonly captions: Readonly<Record<string, Caption | undefined>>;
}

/** The captions of a room. It never changes: each event makes another one. */
export interface CaptionState {
  readonly utterances: ReadonlyMap<string, Utterance>;
}

/** Events that do not come from a gateway: `say` is what this program says, `broken` the end of a connection. */
export type LocalEvent =
  | { type: "broken" }
  | { type: "say"; id: string; text: string; lang: string; speaker?: string | null };

/** Largest number of utterances that are kept; the oldest go first. */
export declare const MAX_UTTERANCES: number;
/** The captions before the first event. */
export declare const EMPTY_STATE: CaptionState;
/** Return the captions after an event. */
export declare function reduce(state: CaptionState, event: ServerMessage | LocalEvent): CaptionState;
/** Return the utterances in the order of the room. */
export declare function inRoomOrder(state: CaptionState): Utterance[];
/** Return what a reader of `lang` is shown: a caption, or the original if there is no translation. */
export declare function captionIn(utterance: Utterance, lang: string): Caption & { readonly lang: string };

/** A class like the `WebSocket` of browsers, such as that of the package `ws`. */
export type WebSocketClass = new (url: string, protocols: string[]) => object;

export interface ConnectionOptions {
  onEvent(event: ServerMessage): void;
  /** `detail`: seconds until the next attempt when `waiting`, the reason when `closed`. `code`: the close code. */
  onState(state: ConnectionState, detail?: number | string, code?: number): void;
}

/** A WebSocket that is opened again when it breaks, and resumes where it stopped. */
export declare class WebSocketConnection {
  constructor(
    address: () => string | URL,
    options: ConnectionOptions & { key?: string | undefined; WebSocket?: WebSocketClass | undefined },
  );
  readonly isOpen: boolean;
  open(): void;
  close(): void;
  /** Check the connection now, because the network, or an application that slept, is back. */
  wake(): void;
  /** Send a message; a `say` is sent again if necessary. Return false if it is lost. */
  send(message: ClientMessage): boolean;
  /** Send a piece of live audio; drop it if the network is slow. */
  sendAudio(pcm: ArrayBuffer | ArrayBufferView): void;
}

/** The events of a room over HTTP, for networks that block WebSockets. It only reads. */
export declare class EventStream {
  constructor(address: () => string | URL, options: ConnectionOptions & { EventSource?: (new (url: string) => object) | undefined });
  open(): void;
  close(): void;
  wake(): void;
  send(message: ClientMessage): false;
}

/** Wake a connection when a page or its network returns. Return a function that stops it. For browsers. */
export declare function wakeOnReturn(connection: { wake(): void }): () => void;

export interface ClientOptions {
  /** Name of the room; a private one if absent. */
  room?: string | null | undefined;
  /** BCP 47 tags of the languages to read. */
  to?: string | readonly string[] | undefined;
  /** BCP 47 tag of the language to speak, or `auto`. */
  from?: string | undefined;
  role?: "view" | "speak" | "moderate" | undefined;
  /** How much of unfinished captions to receive. */
  view?: protocol.Want["view"] | undefined;
  /** Name to show beside what is said here. */
  speaker?: string | undefined;
  /** API key or JWT. Do not give one to a page that others open: give it tickets. */
  key?: string | undefined;
  /** Function that requests a ticket, before each connection that does not resume another one. */
  ticket?: (() => Promise<string | null | undefined>) | undefined;
  /** Where there is no global `WebSocket`, as in Node.js before 22. */
  WebSocket?: WebSocketClass | undefined;
  /** Called after each change of the captions. */
  onChange?: ((client: CaptionClient) => void) | undefined;
  onEvent?: ((event: ServerMessage) => void) | undefined;
  onState?: ((state: ConnectionState, detail?: number | string, code?: number) => void) | undefined;
}

/** A lasting connection to a room, and the captions of the room. */
export declare class CaptionClient {
  constructor(gateway: string | URL, options?: ClientOptions);
  /** The utterances in the order of the room. */
  readonly utterances: Utterance[];
  readonly isOpen: boolean;
  open(): Promise<void>;
  close(): void;
  wake(): void;
  /**
   * Say a text, or with the `id` of an earlier one its newer version. `final` is true by default.
   * Return the id; null if too many texts wait for a connection.
   */
  say(text: string, options?: Partial<Omit<protocol.Say, "type" | "text">>): string | null;
  /** Read these languages from now on. */
  want(languages: string | readonly string[]): boolean;
  send(message: ClientMessage): boolean;
}

/** Join a room of the gateway at an address such as `wss://captions.example`. */
export declare function connect(gateway: string | URL, options?: ClientOptions): CaptionClient;
