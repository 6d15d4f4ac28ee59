// The list of captions on the page.
//
// Owns: the rows, the speakers' colours, the announcements for screen readers.
// Must not know: sockets.

import { element } from "../page/dom.js";
import { inLanguage } from "../page/languages.js";
import { STRINGS, UI_LANGUAGE } from "../page/strings.js";
import { CaptionRow } from "./caption-row.js";
import { inRoomOrder } from "../../clients/js/captions.js";

const NAME_PX = 12; // of a name, this much is enough to count as out of sight
const MAX_DRAWN = 60; // newest rows, which are always laid out: more than fit on a screen
const FEW = 8; // rows: with fewer of them the list is short
const MAX_ANNOUNCEMENTS = 5; // finished captions kept for screen readers
const TELEPHONE = matchMedia("(max-width: 46rem)"); // as in meeting.css: a name stands above its row there
const HUES = [264, 25, 155, 320, 75, 205, 350, 115]; // degrees; speakers get them in the order in which they come

/** The rows of all captions, one per utterance. */
export class CaptionList {
  #list = document.querySelector("#utterances");
  #announcements = document.querySelector("#announcements");
  #rows = new Map(); // key of the utterance -> CaptionRow
  #languages = [];
  #hues = new Map(); // speaker -> hue
  #spoken = new Map(); // speaker -> language that they spoke last
  #autoscroll;
  #onTurn;
  #turnFrame = 0;
  #named = null; // row whose speaker is named above the rows
  #announced = null; // speaker of the last announcement

  /**
   * @param {AutoScroll} autoscroll told when the list grows or is laid out again
   * @param {(name: string, hue: number) => void} onTurn told who says the topmost visible row, if the name
   *   above it has left the screen; "" if the name is in sight
   */
  constructor(autoscroll, onTurn) {
    this.#autoscroll = autoscroll;
    this.#onTurn = onTurn;
    document.querySelector("#reader").addEventListener("scroll", () => this.#findTurnSoon(), { passive: true });
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width !== width) this.releaseHeights();
      width = contentRect.width;
    }).observe(this.#list);
  }

  /**
   * Show the captions. Rows whose utterance is the same object are not touched.
   * @param {object} state of captions.js
   * @param {string[]} languages tags of the columns, from left to right
   * @returns {boolean} whether a caption was left for the next frame
   */
  render(state, languages) {
    const utterances = inRoomOrder(state);
    let changed;
    let added;
    if (this.#languages.join() !== languages.join()) {
      this.#languages = [...languages];
      this.#rows.clear();
      this.#list.replaceChildren();
      this.#autoscroll.onRelayout();
    }
    const shown = this.#rows.get(utterances.find(({ key }) => this.#rows.has(key))?.key)?.node;
    const update = () => { [changed, added] = this.#updateRows(utterances, shown); };
    // While the newest caption is followed, rows before it that grow must not push it down. Else rows that come
    // above those on the screen must not push them away.
    if (this.#autoscroll.isFollowing) this.#autoscroll.keepPlace(this.#newestCaption, update);
    else if (shown && shown.dataset.key !== utterances[0].key) this.#autoscroll.keepPlace(shown, update);
    else update();
    if (!changed.length) return false;
    this.#autoscroll.onGrowth(added);
    this.#findTurnSoon();
    return changed.some((row) => row.isBehind);
  }

  /** Update the rows. Return those that changed, and the number of new ones at or after the node `first`. */
  #updateRows(utterances, first) {
    const changed = [];
    let added = 0;
    if (this.#rows.size > 0) this.#removeRowsExcept(new Set(utterances.map(({ key }) => key)));
    let earlier = Boolean(first);
    let place = this.#list.firstElementChild;
    let previous;
    for (const [i, utterance] of utterances.entries()) {
      let row = this.#rows.get(utterance.key);
      if (!row) {
        row = new CaptionRow(utterance.key, this.#languages);
        this.#rows.set(utterance.key, row);
        if (!earlier) added++;
      }
      if (row.node === first) earlier = false;
      if (row.utterance !== utterance || row.isBehind) {
        // Of captions below each other that all get another line in one frame, before the newest row, one would move.
        const oneByOne = TELEPHONE.matches && row.utterance !== null && i < utterances.length - 1;
        row.update(utterance, this.#hueOf(utterance.speaker), this.#spoken.get(utterance.speaker), oneByOne);
        if (utterance.final) this.#spoken.set(utterance.speaker, utterance.lang);
        changed.push(row);
      }
      const newSpeaker = !previous || utterance.speaker !== previous.speaker;
      if (newSpeaker) row.showSpeaker(); // also if the row stays the same and another one came before it
      if (i < utterances.length - MAX_DRAWN) row.leaveUndrawn();
      if (row.node === place) place = place.nextElementSibling;
      else this.#list.insertBefore(row.node, place);
      previous = utterance;
    }
    this.#list.toggleAttribute("data-short", utterances.length < FEW || this.#isShort);
    // All heights are read before any is written: the browser computes the layout once.
    const growing = changed.filter((row) => row.growing);
    const heights = growing.map((row) => row.measureHeight());
    growing.forEach((row, i) => row.reserveHeight(heights[i]));
    return [changed, added];
  }

  /** True while a list that was short has not scrolled its first row away by a whole screen. */
  get #isShort() {
    return this.#list.hasAttribute("data-short") && this.#list.firstElementChild.getBoundingClientRect().bottom > -innerHeight;
  }

  /** The last caption of the last row: on telephones the captions of a row stand below each other. */
  get #newestCaption() {
    return [...this.#list.lastElementChild?.querySelectorAll(".caption") ?? []].at(-1);
  }

  /** Drop the reserved heights of all rows, because the size of text or columns changed. */
  releaseHeights() {
    for (const row of this.#rows.values()) row.releaseHeight();
    this.#autoscroll.onRelayout();
    this.#findTurnSoon();
  }

  /** Show the row of an utterance in the middle of the screen, and give it the focus. */
  goTo(key) {
    const { node } = this.#rows.get(key) ?? {};
    if (!node) return;
    this.#autoscroll.leaveNewest();
    node.focus({ preventScroll: true });
    node.scrollIntoView({ block: "center" });
  }

  /** Return the utterance whose row contains `node`. */
  utteranceAt(node) {
    return this.#rows.get(node.closest?.(".row")?.dataset.key)?.utterance;
  }

  /**
   * Have screen readers read a finished caption: once and whole, not word by word.
   * @param {{id: string, text: string, lang: string}} caption
   * @param {string | null} speaker named before a text of another speaker
   * @param {boolean} corrected whether it replaces what was read before
   */
  announce({ id, text, lang }, speaker, corrected = false) {
    const node = inLanguage(element("p", "", text), lang);
    node.dataset.id = id;
    const named = speaker && (corrected || speaker !== this.#announced);
    const before = [corrected && STRINGS.captions.corrected, named && speaker].filter(Boolean);
    if (before.length) node.prepend(inLanguage(element("span", "", `${before.join(" ")}: `), UI_LANGUAGE));
    this.#announced = speaker;
    this.#announcements.append(node);
    while (this.#announcements.children.length > MAX_ANNOUNCEMENTS) this.#announcements.firstElementChild.remove();
  }

  /** Take a deleted line out of the announcements, where it could still be read. */
  silence(id) {
    for (const node of [...this.#announcements.children]) if (node.dataset.id === id) node.remove();
  }

  #findTurnSoon() {
    this.#turnFrame ||= requestAnimationFrame(() => {
      this.#turnFrame = 0;
      this.#findTurn();
    });
  }

  /** Find the topmost row that is in sight, by bisection: there may be a thousand rows. */
  #findTurn() {
    const top = document.querySelector("#column-heads").getBoundingClientRect().bottom;
    const rows = this.#list.children;
    let [first, last] = [0, rows.length];
    while (first < last) {
      const middle = (first + last) >> 1;
      if (rows[middle].getBoundingClientRect().bottom <= top + NAME_PX) first = middle + 1;
      else last = middle;
    }
    const row = this.#rows.get(rows[first]?.dataset.key);
    const speaker = row?.utterance.speaker;
    const isAbove = TELEPHONE.matches || document.body.hasAttribute("data-presenting"); // the name, not beside the row
    this.#named?.removeAttribute("data-named-above");
    const named = row?.node.hasAttribute("data-new-speaker")
      && !(isAbove && row.node.getBoundingClientRect().top < top - NAME_PX);
    this.#named = named ? null : row?.node;
    this.#named?.toggleAttribute("data-named-above", true);
    this.#onTurn(speaker && !named ? speaker : "", this.#hueOf(speaker));
  }

  #removeRowsExcept(keys) {
    for (const [key, { node }] of this.#rows) {
      if (!keys.has(key)) {
        node.remove();
        this.#rows.delete(key);
      }
    }
  }

  #hueOf(speaker) {
    if (!speaker) return 0;
    if (!this.#hues.has(speaker)) this.#hues.set(speaker, HUES[this.#hues.size % HUES.length]);
    return this.#hues.get(speaker);
  }
}
