// How others come into the meeting: links, and the code that a telephone scans. Knows the document.

import { link } from "./address.js";

const LOCAL = /^(localhost|127\.|\[::1\])/;

export class Share {
  #box = document.querySelector("#share-box");
  #code = document.querySelector("#qr");
  #guests = document.querySelector("#guests");
  #place;
  #key;
  #langs;
  #at = location.href; // or what others reach instead of it

  /** `place` is { room, gateway, elsewhere, http }, `key` knows those that there are; `langs()` is read now. */
  constructor(place, key, langs) {
    this.#place = place;
    this.#key = key;
    this.#langs = langs;
    document.querySelector("#share").addEventListener("click", () => {
      this.#guests.parentNode.hidden = !key.headers.authorization || key.guests !== "";
      this.#code.hidden = place.elsewhere; // its picture would be of the other address
      this.#show();
      this.#box.showModal();
    });
    this.#guests.addEventListener("change", () => this.#show());
    this.#box.addEventListener("click", ({ target }) => {
      const button = target.closest("[data-copy]");
      if (button) copy(document.querySelector(`#link-${button.dataset.copy}`), button);
    });
  }

  #show() {
    const key = this.#key.guests || this.#guests.value.trim();
    this.#name(key);
    this.#draw(key);
  }

  #name(key) {
    document.querySelector("#local").hidden = !LOCAL.test(new URL(this.#at).host);
    const behind = key ? `#key=${encodeURIComponent(key)}` : "";
    const links = {
      read: link(this.#at, "join.html", this.#place) + behind,
      speak: link(this.#at, "./", this.#place),
      overlay: link(this.#at, "overlay.html", this.#place, { to: this.#langs()[0] ?? "de" }) + behind,
    };
    for (const [name, href] of Object.entries(links)) {
      document.querySelector(`#link-${name}`).value = href;
    }
  }

  /**
   * The code is fetched and not named by an `img`, which could not show a key. A gateway that listens on the
   * network says what its code is of, where this page has an address of this computer only.
   */
  async #draw(key) {
    const url = new URL(`/v1/rooms/${this.#place.room}/qr.svg`, this.#place.http);
    const answer = await fetch(url, { headers: key ? { authorization: `Bearer ${key}` } : {} }).catch(() => null);
    if (!answer?.ok) return this.#code.replaceChildren();
    const [, named] = /<([^>]+)>/.exec(answer.headers.get("link") ?? "") ?? [];
    if (named && !this.#place.elsewhere) {
      this.#at = named;
      this.#name(key);
    }
    const svg = new DOMParser().parseFromString(await answer.text(), "image/svg+xml").documentElement;
    this.#code.replaceChildren(document.importNode(svg, true));
  }
}

async function copy(field, button) {
  field.select();
  try {
    await navigator.clipboard.writeText(field.value);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Press Ctrl-C"; // it is selected
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}
