// Types of live-captions.js. README.md describes the attributes.

import type { ConnectionState } from "./index.d.ts";

/** The newest captions of a room. */
export declare class LiveCaptionsElement extends HTMLElement {
  /** Function that returns a ticket, for gateways that ask for keys. Set it before the element is inserted. */
  ticket: (() => Promise<string | null | undefined>) | null;
}

declare global {
  interface HTMLElementTagNameMap {
    "live-captions": LiveCaptionsElement;
  }
  interface HTMLElementEventMap {
    statechange: CustomEvent<{ state: ConnectionState; detail?: number | string }>;
  }
}
