// The captions on the page. Knows the document; knows no socket.

import { inOrder } from "./captions.js";
import { element, inLanguage } from "./languages.js";
import { Row } from "./row.js";

const SPOKEN = 5; // finished captions kept for screen readers
const HUES = [264, 25, 155, 320, 75, 205, 350, 115]; // of speakers, in the order in which they come

export class View {
  #list = document.querySelector("#utterances");
  #log = document.querySelector("#finals");
  #rows = new Map(); // key -> Row
  #langs = [];
  #voices = new Map(); // speaker -> hue
  #follow;

  constructor(follow) {
    this.#follow = follow;
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width !== width) this.relax();
      width = contentRect.width;
    }).observe(this.#list);
  }

  /** Show `state` in the columns `langs`. Rows whose utterance is the same object are left alone. */
  render(state, langs) {
    const utterances = inOrder(state);
    const changed = [];
    let added = 0;
    if (this.#langs.join() !== langs.join()) {
      this.#langs = [...langs];
      this.#rows.clear();
      this.#list.replaceChildren();
      this.#follow.rearranged();
    }
    if (this.#rows.size > 0) this.#forget(new Set(utterances.map(({ key }) => key)));
    let place = this.#list.firstElementChild;
    let before;
    for (const utterance of utterances) {
      let row = this.#rows.get(utterance.key);
      if (!row) {
        row = new Row(utterance.key, langs);
        this.#rows.set(utterance.key, row);
        added++;
      }
      const turn = !before || utterance.speaker !== before.speaker;
      if (row.utterance !== utterance) {
        row.update(utterance, this.#hue(utterance.speaker), turn);
        changed.push(row);
      }
      if (row.node === place) place = place.nextElementSibling;
      else this.#list.insertBefore(row.node, place);
      before = utterance;
    }
    const growing = changed.filter((row) => row.growing);
    const heights = growing.map((row) => row.measure());
    growing.forEach((row, i) => row.reserve(heights[i]));
    if (changed.length) this.#follow.grew(added);
  }

  /** Sizes or columns changed. */
  relax() {
    for (const row of this.#rows.values()) row.release();
    this.#follow.rearranged();
  }

  /** The utterance whose row contains `node`. */
  at(node) {
    return this.#rows.get(node.closest?.(".row")?.dataset.key)?.utterance;
  }

  /** Have a finished caption read out: once and whole, not word by word. */
  announce(text, lang) {
    this.#log.append(inLanguage(element("p", "", text), lang));
    while (this.#log.children.length > SPOKEN) this.#log.firstElementChild.remove();
  }

  #forget(there) {
    for (const [key, { node }] of this.#rows) {
      if (!there.has(key)) {
        node.remove();
        this.#rows.delete(key);
      }
    }
  }

  #hue(speaker) {
    if (!speaker) return 0;
    if (!this.#voices.has(speaker)) this.#voices.set(speaker, HUES[this.#voices.size % HUES.length]);
    return this.#voices.get(speaker);
  }
}
