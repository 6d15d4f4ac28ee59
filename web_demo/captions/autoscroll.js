// Scrolling to the newest caption, until the reader scrolls back.
//
// Owns: the scroll position of the captions and the button that returns to the newest one.
// Must not know: captions, sockets.

import { STRINGS } from "../page/strings.js";

const NEAR_PX = 32; // this close to the end counts as at the end
const EASE = 0.28; // share of the remaining way in each frame, so that a new line glides in
const RELAYOUT_MS = 300; // after a new layout, scroll events are not the reader's for this long

/** Automatic scrolling of an element whose content grows at its end. */
export class AutoScroll {
  #scroller;
  #button;
  #following = true;
  #empty = true; // until the first caption; before it there is nothing to follow
  #editing = false;
  #top = 0;
  #newRows = 0; // since the reader scrolled back
  #relayoutAt = -Infinity;
  #frame = 0;
  #reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

  /**
   * @param {HTMLElement} scroller
   * @param {HTMLButtonElement} button returns to the newest caption; shown while the reader is elsewhere
   */
  constructor(scroller, button) {
    this.#scroller = scroller;
    this.#button = button;
    scroller.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    button.addEventListener("click", () => this.jumpToNewest());
    // The text bar grows and shrinks, and a telephone opens its keyboard: the newest caption stays in sight.
    new ResizeObserver(() => this.onRelayout()).observe(scroller);
  }

  /** Follow the content, which grew; `rows` of it are new. */
  onGrowth(rows) {
    this.#empty &&= !rows;
    if (this.#empty) return; // the start screen opens at its top
    if (this.#following && !this.#editing) {
      this.#frame ||= requestAnimationFrame(() => this.#glide());
    } else {
      this.#newRows += rows;
      this.#updateButton();
    }
  }

  /** Expect the content to move without the reader, because the page is laid out again. */
  onRelayout() {
    this.#relayoutAt = performance.now();
    this.onGrowth(0);
  }

  /** Stand still while a caption is edited: new captions must not push it out of sight. */
  pause() {
    this.#editing = true;
  }

  /** Scroll again as before `pause`. */
  resume() {
    this.#editing = false;
    this.onGrowth(0);
  }

  /** Show the newest caption at once. */
  jumpToNewest() {
    this.#following = true;
    this.#newRows = 0;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#updateButton();
  }

  /** Pixels between the visible part and the end of the content. */
  get #remaining() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - clientHeight - scrollTop;
  }

  #glide() {
    this.#frame = 0;
    const remaining = this.#remaining;
    if (!this.#following || this.#editing || remaining < 1) return;
    const jumps = this.#reducedMotion.matches || remaining > this.#scroller.clientHeight;
    this.#scroller.scrollTop += jumps ? remaining : Math.max(1, remaining * EASE);
    this.#frame = requestAnimationFrame(() => this.#glide());
  }

  #onScroll() {
    if (this.#empty) return;
    const top = this.#scroller.scrollTop;
    if (this.#remaining < NEAR_PX) {
      this.#following = true;
      this.#newRows = 0;
    } else if (top < this.#top - 2 && !this.#editing) {
      // Growing content never scrolls back, so it was the reader, or a new layout.
      if (performance.now() - this.#relayoutAt > RELAYOUT_MS) this.#following = false;
      else this.onGrowth(0);
    }
    this.#top = top;
    this.#updateButton();
  }

  #updateButton() {
    const { hidden } = this.#button;
    if (hidden !== this.#following) this.#button.hidden = this.#following;
    const text = this.#newRows ? STRINGS.captions.newestCount({ count: this.#newRows }) : STRINGS.captions.newest;
    const label = this.#button.lastElementChild;
    if (label.textContent !== text) label.textContent = text; // this runs in each frame of scrolling
  }
}
