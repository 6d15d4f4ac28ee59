// The state of the connection, and notices.
//
// Owns: the line below the name of the meeting, the banner over the captions while there is no connection, notices.
// Must not know: sockets, captions.

import { element } from "./dom.js";
import { STRINGS } from "./strings.js";

const NOTICE_MS = 12_000; // how long a notice is shown
const NO_KEY = 4401; // close code
/** Close code of a meeting that has ended. */
export const ROOM_ENDED = 4410;

/** What the page says about itself. */
export class Status {
  #state = document.querySelector("#state");
  #banner = document.querySelector("#banner");
  #notice = document.querySelector("#notice");
  #timer = 0;
  #onKey;

  /** @param {() => void} onKey called when the user wants to enter a key after all */
  constructor(onKey) {
    this.#onKey = onKey;
  }

  /** Show a state of the connection; see `WebSocketConnection`. */
  show(name, detail, code) {
    const texts = {
      connecting: STRINGS.page.connecting,
      open: STRINGS.page.connected,
      waiting: STRINGS.page.waiting({ seconds: Math.ceil(detail) }),
      closed: code === ROOM_ENDED ? STRINGS.page.ended : STRINGS.page.disconnected({ reason: STRINGS.closes[code] ?? detail }),
    };
    this.#state.dataset.state = name;
    this.#state.textContent = texts[name];
    const lost = name === "waiting" || (name === "closed" && code !== ROOM_ENDED);
    if (lost || name === "open" || name === "closed") this.#banner.textContent = lost ? texts[name] : "";
    if (code === NO_KEY) this.#offer(STRINGS.key.title, this.#onKey);
  }

  /** Show what does not work as usual, as a `degraded` event says. */
  showLimits({ partials, engine }) {
    const limits = [partials === "off" && STRINGS.page.wholeSentences, engine && STRINGS.page.backupEngine].filter(Boolean);
    this.#state.textContent = [STRINGS.page.connected, ...limits].join(" · ");
    this.#state.toggleAttribute("data-limited", limits.length > 0);
  }

  /**
   * Show a notice over the captions; "" removes it.
   * @param {string} text
   * @param {{permanent?: boolean, calm?: boolean}} options `permanent`: it stays, since its reason does; `calm`: it
   *   is advice and no fault
   * @returns {HTMLElement} the notice, to which links may be added
   */
  notice(text, { permanent = false, calm = false } = {}) {
    clearTimeout(this.#timer);
    this.#notice.textContent = text;
    this.#notice.toggleAttribute("data-calm", calm);
    if (text && !permanent) this.#timer = setTimeout(() => this.notice(""), NOTICE_MS);
    return this.#notice;
  }

  #offer(label, action) {
    const button = element("button", "button", label);
    button.type = "button";
    button.addEventListener("click", action);
    this.#banner.append(" ", button);
  }
}
