// Stay at the newest caption, until the reader scrolls back; then offer the way to it.

const NEAR_PX = 32; // so near the end counts as at the end
const EASE = 0.28; // of the way left, each frame: a new line glides in
const SETTLED_MS = 300; // after which content that was laid out anew stays where it is

export class Follow {
  #scroller;
  #button;
  #following = true;
  #top = 0;
  #missed = 0;
  #rearranged = -Infinity; // when
  #gliding = 0;
  #calm = matchMedia("(prefers-reduced-motion: reduce)");

  constructor(scroller, button) {
    this.#scroller = scroller;
    this.#button = button;
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    button.addEventListener("click", () => this.jump());
  }

  /** The page grew, by so many new rows. */
  grew(rows) {
    if (this.#following) {
      this.#gliding ||= requestAnimationFrame(() => this.#glide());
    } else {
      this.#missed += rows;
      this.#offer();
    }
  }

  /** The page is laid out anew: that its content moves does not mean that the reader went back. */
  rearranged() {
    this.#rearranged = performance.now();
    this.grew(0);
  }

  /** To the newest caption, at once. */
  jump() {
    this.#following = true;
    this.#missed = 0;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#offer();
  }

  get #left() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - clientHeight - scrollTop;
  }

  #glide() {
    this.#gliding = 0;
    const left = this.#left;
    if (!this.#following || left < 1) return;
    const far = this.#calm.matches || left > this.#scroller.clientHeight;
    this.#scroller.scrollTop += far ? left : Math.max(1, left * EASE);
    this.#gliding = requestAnimationFrame(() => this.#glide());
  }

  #scrolled() {
    const top = this.#scroller.scrollTop;
    if (this.#left < NEAR_PX) {
      this.#following = true;
      this.#missed = 0;
    } else if (top < this.#top - 2) {
      // What grows never goes back, so it was the reader, or a new layout.
      if (performance.now() - this.#rearranged > SETTLED_MS) this.#following = false;
      else this.grew(0);
    }
    this.#top = top;
    this.#offer();
  }

  #offer() {
    const { hidden } = this.#button;
    if (hidden !== this.#following) this.#button.hidden = this.#following;
    const words = this.#missed ? `Jump to live, ${this.#missed} new` : "Jump to live";
    const label = this.#button.lastElementChild;
    if (label.textContent !== words) label.textContent = words; // each frame of scrolling comes here
  }
}
