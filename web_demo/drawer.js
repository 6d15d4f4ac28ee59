// The panel beside the captions, in which one thing at a time is shown. Knows the document.

export class Drawer {
  #drawer = document.querySelector("#drawer");
  #shown = null; // { button, section, onClose }

  /** `button` shows and hides `section`; the callbacks are told. */
  add(button, section, { onOpen = () => {}, onClose = () => {} } = {}) {
    const item = { button, section, onClose };
    button.addEventListener("click", () => {
      const opens = this.#shown !== item;
      this.close();
      if (!opens) return;
      this.#shown = item;
      this.#drawer.hidden = section.hidden = false;
      button.setAttribute("aria-expanded", "true");
      onOpen();
      section.querySelector("button").focus();
    });
    section.querySelector("[data-close]").addEventListener("click", () => this.close(true));
    section.addEventListener("keydown", ({ key }) => key === "Escape" && this.close(true));
  }

  close(back = false) {
    if (!this.#shown) return;
    const { button, section, onClose } = this.#shown;
    this.#shown = null;
    this.#drawer.hidden = section.hidden = true;
    button.setAttribute("aria-expanded", "false");
    onClose();
    if (back) button.focus();
  }
}
