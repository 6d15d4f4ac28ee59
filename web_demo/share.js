// How others come into the meeting: links, and the code that a telephone scans. Knows the document.

import { link } from "./address.js";

const LOCAL = /^(localhost|127\.|\[::1\])/;

export class Share {
  #box = document.querySelector("#share-box");
  #code = document.querySelector("#qr");
  #guests = document.querySelector("#guests");
  #place;
  #langs;

  /** `place` is { room, gateway, elsewhere, http }, `key` says whether there are keys; `langs()` is read now. */
  constructor(place, key, langs) {
    this.#place = place;
    this.#langs = langs;
    document.querySelector("#share").addEventListener("click", () => {
      document.querySelector("#local").hidden = !LOCAL.test(location.host);
      this.#guests.parentNode.hidden = !key.headers.authorization;
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
    const key = this.#guests.value.trim();
    const behind = key ? `#key=${encodeURIComponent(key)}` : "";
    const links = {
      read: link(location.href, "join.html", this.#place) + behind,
      speak: link(location.href, "./", this.#place),
      overlay: link(location.href, "overlay.html", this.#place, { to: this.#langs()[0] ?? "de" }) + behind,
    };
    for (const [name, href] of Object.entries(links)) {
      document.querySelector(`#link-${name}`).value = href;
    }
    this.#draw(key);
  }

  /** The code is fetched and not named by an `img`, which could not show a key. */
  async #draw(key) {
    const url = new URL(`/v1/rooms/${this.#place.room}/qr.svg`, this.#place.http);
    const answer = await fetch(url, { headers: key ? { authorization: `Bearer ${key}` } : {} }).catch(() => null);
    if (!answer?.ok) return this.#code.replaceChildren();
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
