// The key that a gateway may ask for: kept for this tab, shown to its HTTP, and turned into a ticket for
// sockets, since an address is written into logs and a ticket is good once. Knows the document.

const KEPT = "key";
const GUESTS = "guests";
const ROLES = ["moderate", "speak", "view"]; // from the most to the least

export class Key {
  #box = document.querySelector("#key-box");
  #place;
  #value;

  /**
   * `place` is { room, role, http }. A key may come in the fragment, which no server is sent, and beside it the
   * one for `guests`, who read.
   */
  constructor(place) {
    this.#place = place;
    const behind = new URLSearchParams(location.hash.slice(1));
    const given = behind.get("key");
    if (given) {
      sessionStorage.setItem(KEPT, given);
      sessionStorage.setItem(GUESTS, behind.get("guests") ?? "");
      history.replaceState(null, "", location.pathname + location.search);
    }
    this.#value = given ?? sessionStorage.getItem(KEPT);
  }

  /** The key to invite readers with; "" where it is not known. */
  get guests() {
    return sessionStorage.getItem(GUESTS) ?? "";
  }

  /** What a request has to have. */
  get headers() {
    return this.#value ? { authorization: `Bearer ${this.#value}` } : {};
  }

  /**
   * { ticket, role }: a ticket for this room, with the role that is asked for or the next one below; null
   * where a key is asked for that was not shown; {} where none is.
   */
  async ticket() {
    if (!this.#value && !(await this.#asked())) return {};
    for (const role of ROLES.slice(ROLES.indexOf(this.#place.role))) {
      const answer = await fetch(new URL("/v1/tickets", this.#place.http), {
        method: "POST", headers: this.headers, body: JSON.stringify({ room: this.#place.room, role }),
      }).catch(() => null);
      if (answer?.ok) return { ticket: (await answer.json()).ticket, role };
      if (answer?.status === 401) return null;
      if (answer?.status !== 403) return {}; // the socket will say what is wrong
    }
    return {};
  }

  async #asked() {
    const answer = await fetch(new URL("/v1/tickets", this.#place.http), {
      method: "POST", body: JSON.stringify({ room: this.#place.room }),
    }).catch(() => null);
    await answer?.text(); // a body that nobody reads keeps its connection
    return answer?.status === 401;
  }

  /** Ask the user for a key. `then` is called when there is one. */
  ask(then) {
    if (this.#box.open) return;
    const field = this.#box.querySelector("input");
    this.#box.querySelector("[role=alert]").textContent = this.#value ? "The key was not accepted." : "";
    field.value = "";
    this.#box.addEventListener("close", () => {
      this.#value = field.value.trim() || null;
      if (!this.#value) return;
      sessionStorage.setItem(KEPT, this.#value);
      sessionStorage.removeItem(GUESTS); // it came with another one
      then();
    }, { once: true });
    this.#box.showModal();
  }
}
