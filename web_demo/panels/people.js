// The list of who is here: the speakers by name, and how many people read each language.
//
// Owns: the dialog and the button that opens it. The gateway knows no names of readers.
// Must not know: sockets.

import { element } from "../page/dom.js";
import { STRINGS, uiNameOf } from "../page/strings.js";

const ALONE_MS = 1800; // the gateway announces people after a second; without that, nobody else is here

/** The button with the number of people, and their list. */
export class People {
  count = 0; // sockets in the room, this page's among them
  languages = new Set(); // tags that anybody has read while this page was open
  #button = document.querySelector("#people");
  #dialog = document.querySelector("#people-dialog");
  #presence = null;
  #timer = 0;
  #onChange;
  #waiting = []; // for the number of people

  /** @param {() => void} onChange called when people have come or gone */
  constructor(onChange) {
    this.#onChange = onChange;
    this.#button.addEventListener("click", () => {
      this.#render();
      this.#dialog.showModal();
    });
  }

  /** Expect others to be announced. A gateway does not tell a person who is alone. */
  onConnected() {
    this.show(null);
    this.#timer = setTimeout(() => this.show({ members: 1 }), ALONE_MS);
  }

  /** Return the number of people as soon as it is known. */
  async known() {
    while (!this.#presence) await new Promise((resolve) => this.#waiting.push(resolve));
    return this.count;
  }

  /** Show a `presence` event; null while there is no connection. */
  show(presence) {
    clearTimeout(this.#timer);
    this.#presence = presence;
    this.count = presence?.members ?? 0;
    for (const tag of Object.keys(presence?.readers ?? {})) this.languages.add(tag);
    this.#button.textContent = presence ? STRINGS.page.people({ count: this.count }) : "";
    this.#button.hidden = !presence;
    if (this.#dialog.open) this.#render();
    this.#onChange();
    if (presence) for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #render() {
    const { speakers = [], readers = {} } = this.#presence ?? {};
    const names = speakers.map((name) => {
      const item = element("li", "", name);
      item.dir = "auto";
      return item;
    });
    const reads = Object.entries(readers).sort(([, one], [, other]) => other - one).map(([tag, count]) =>
      element("li", "", STRINGS.people.reads({ language: uiNameOf(tag), count })));
    const [named, read] = this.#dialog.querySelectorAll("ul");
    named.replaceChildren(...(names.length ? names : [element("li", "quiet", STRINGS.people.nobodyNamed)]));
    read.replaceChildren(...reads);
  }
}
