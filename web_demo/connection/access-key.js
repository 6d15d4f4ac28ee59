// The access key of a gateway that asks for one: entered, kept for this tab, exchanged for tickets.
//
// Owns: the key dialog and the keys in session storage. Sockets get a ticket and not the key, because
// addresses are written to logs and a ticket can be used once.
// Must not know: sockets, captions.

import { STRINGS } from "../page/strings.js";

const STORED_KEY = "key";
const STORED_READER_KEY = "guests";
const STORED_SPEAKER_KEY = "speakers";
const ROLES = ["moderate", "speak", "view"]; // most to least permitted

/** The key of this tab, if there is one. */
export class AccessKey {
  #dialog = document.querySelector("#key-dialog");
  #settings;
  #value;

  /**
   * Read the key from the fragment of the address, which browsers do not send to servers, or from this
   * tab's storage. A fragment may also hold, as `guests`, a key to invite readers with.
   * @param {{room: string, role: string, http: URL}} settings
   */
  constructor(settings) {
    this.#settings = settings;
    const fragment = new URLSearchParams(location.hash.slice(1));
    const given = fragment.get("key");
    if (given) {
      sessionStorage.setItem(STORED_KEY, given);
      for (const name of [STORED_READER_KEY, STORED_SPEAKER_KEY]) sessionStorage.setItem(name, fragment.get(name) ?? "");
      history.replaceState(null, "", location.pathname + location.search); // hide the key from onlookers
    }
    this.#value = given ?? sessionStorage.getItem(STORED_KEY);
  }

  /** Key to invite readers with; "" if there is none. A reader passes on the own key. */
  get readerKey() {
    const own = this.#settings.role === "view" ? this.#value : "";
    return sessionStorage.getItem(STORED_READER_KEY) || own || "";
  }

  /** Key to invite speakers with; "" if there is none. */
  get speakerKey() {
    const own = this.#settings.role === "speak" ? this.#value : "";
    return sessionStorage.getItem(STORED_SPEAKER_KEY) || own || "";
  }

  /** Headers of a request to the gateway. */
  get headers() {
    return this.#value ? { authorization: `Bearer ${this.#value}` } : {};
  }

  /**
   * Request a ticket for this room, with the wanted role or the best one that the key permits.
   * @returns { ticket, role }; {} without a key, which not every gateway asks for; null if the key was not accepted
   */
  async requestTicket() {
    if (!this.#value) return {};
    for (const role of ROLES.slice(ROLES.indexOf(this.#settings.role))) {
      const answer = await this.#post({ room: this.#settings.room, role });
      if (answer?.ok) return { ticket: (await answer.json()).ticket, role };
      if (answer?.status === 401) return null;
      if (answer?.status !== 403) return {}; // the socket will report what is wrong
    }
    return {};
  }

  /**
   * Ask the user for a key.
   * @param {() => void} onKey called when a key was entered
   * @param {() => void} onNone called when the dialog was closed without one
   */
  ask(onKey, onNone) {
    if (this.#dialog.open) return;
    const field = this.#dialog.querySelector("input");
    this.#dialog.querySelector("[role=alert]").textContent = this.#value ? STRINGS.key.wrong : "";
    field.value = "";
    this.#dialog.addEventListener("close", () => {
      this.#value = field.value.trim() || null;
      if (!this.#value) return onNone();
      sessionStorage.setItem(STORED_KEY, this.#value);
      for (const name of [STORED_READER_KEY, STORED_SPEAKER_KEY]) sessionStorage.removeItem(name); // of another key
      onKey();
    }, { once: true });
    this.#dialog.showModal();
  }

  #post(body) {
    const url = new URL("v1/tickets", this.#settings.http);
    return fetch(url, { method: "POST", headers: this.headers, body: JSON.stringify(body) }).catch(() => null);
  }
}
