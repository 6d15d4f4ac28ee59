// How others come into the meeting: links, and the code that a telephone scans. Knows the document.

import { link } from "./address.js";

const LOCAL = /^(localhost|127\.|\[::1\])/;

export class Share {
  #box = document.querySelector("#share-box");

  /** `place` is { room, gateway, elsewhere, http }; `langs()` the columns that are read now. */
  constructor(place, langs) {
    const code = document.querySelector("#qr");
    const local = document.querySelector("#local");
    document.querySelector("#share").addEventListener("click", () => {
      code.src = new URL(`/v1/rooms/${place.room}/qr.svg`, place.http);
      code.hidden = place.elsewhere; // its picture would be of the other address
      local.hidden = !LOCAL.test(location.host);
      const links = {
        read: link(location.href, "join.html", place),
        speak: link(location.href, "./", place),
        overlay: link(location.href, "overlay.html", place, { to: langs()[0] ?? "de" }),
      };
      for (const [name, href] of Object.entries(links)) {
        document.querySelector(`#link-${name}`).value = href;
      }
      this.#box.showModal();
    });
    this.#box.addEventListener("click", ({ target }) => {
      const button = target.closest("[data-copy]");
      if (button) copy(document.querySelector(`#link-${button.dataset.copy}`), button);
    });
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
