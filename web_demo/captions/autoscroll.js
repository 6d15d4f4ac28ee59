// Scrolling to the newest caption, until the reader scrolls back.
//
// Owns: the scroll position of the captions and the button that returns to the newest one.
// Must not know: captions, sockets.

import { STRINGS } from "../page/strings.js";

const TOP_PX = 400; // this close to the first caption, earlier ones are asked for
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
  #onScrolledBack;
  #onTop;
  #step = 0; // pixels of the last step of a glide
  #stepAt = null; // time of its frame
  #reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

  /**
   * @param {HTMLElement} scroller
   * @param {HTMLButtonElement} button returns to the newest caption; shown while the reader is elsewhere
   * @param {(back: boolean) => void} options.onScrolledBack called when the reader leaves the newest caption, or returns
   * @param {() => void} options.onTop called when the reader scrolls back to the first caption
   */
  constructor(scroller, button, { onScrolledBack, onTop }) {
    this.#scroller = scroller;
    this.#button = button;
    this.#onScrolledBack = onScrolledBack;
    this.#onTop = onTop;
    scroller.toggleAttribute("data-following", true);
    scroller.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    button.addEventListener("click", () => this.jumpToNewest());
    // The text bar grows and shrinks, and a telephone opens its keyboard: the newest caption stays in sight.
    new ResizeObserver(() => this.onRelayout()).observe(scroller);
  }

  /** Follow the content, which grew; `rows` of it are new. */
  onGrowth(rows) {
    this.#empty &&= !rows;
    if (this.#empty) return; // the start screen opens at its top
    if (this.isFollowing) {
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

  /** Stay where the reader is, because a line among the earlier ones is shown. */
  leaveNewest() {
    this.#follow(false);
    this.#updateButton();
  }

  /** True while the newest caption is followed. */
  get isFollowing() {
    return this.#following && !this.#editing;
  }

  /** Keep the content in its place on the screen while `change` changes rows above or before `node`. */
  keepPlace(node, change) {
    const before = node?.getBoundingClientRect().top;
    change();
    const moved = node?.isConnected ? node.getBoundingClientRect().top - before : 0;
    // One move a frame: a step of the glide is left for the next one, so that lines do not move against each other.
    const step = this.#stepAt === document.timeline.currentTime ? this.#step : 0;
    if (moved) this.#scroller.scrollTop += moved - step;
    this.#top = this.#scroller.scrollTop;
  }

  /** Show the newest caption at once. */
  jumpToNewest() {
    this.#follow(true);
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
    this.#step = jumps ? remaining : Math.max(1, remaining * EASE);
    this.#stepAt = document.timeline.currentTime;
    this.#scroller.scrollTop += this.#step;
    this.#frame = requestAnimationFrame(() => this.#glide());
  }

  #onScroll() {
    if (this.#empty) return;
    const top = this.#scroller.scrollTop;
    if (this.#remaining < NEAR_PX) {
      this.#follow(true);
    } else if (top < this.#top - 2 && !this.#editing) {
      // Growing content never scrolls back, so it was the reader, or a new layout.
      if (performance.now() - this.#relayoutAt > RELAYOUT_MS) this.#follow(false);
      else this.onGrowth(0);
    }
    if (!this.#following && top < TOP_PX) this.#onTop();
    this.#top = top;
    this.#updateButton();
  }

  #follow(following) {
    if (following) this.#newRows = 0;
    if (following === this.#following) return;
    this.#following = following;
    this.#scroller.toggleAttribute("data-following", following);
    this.#onScrolledBack(!following);
  }

  #updateButton() {
    const { hidden } = this.#button;
    if (hidden !== this.#following) this.#button.hidden = this.#following;
    const text = this.#newRows ? STRINGS.captions.newestCount({ count: this.#newRows }) : STRINGS.captions.newest;
    const label = this.#button.lastElementChild;
    if (label.textContent !== text) label.textContent = text; // this runs in each frame of scrolling
  }
}
