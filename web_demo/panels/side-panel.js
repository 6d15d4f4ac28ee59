// The panel beside the captions; it shows one section at a time. Owns: which section is shown.

/** The side panel. */
export class SidePanel {
  #panel = document.querySelector("#side-panel");
  #shown = null; // { button, section, onClose }

  /**
   * Add a section, which a button shows and hides.
   * @param {HTMLButtonElement} button
   * @param {HTMLElement} section contains a button with `data-close`
   * @param {{onOpen?: () => void, onClose?: () => void}} callbacks
   */
  add(button, section, { onOpen = () => {}, onClose = () => {} } = {}) {
    const item = { button, section, onClose };
    button.addEventListener("click", () => {
      const opens = this.#shown !== item;
      this.close();
      if (!opens) return;
      this.#shown = item;
      this.#panel.hidden = section.hidden = false;
      button.setAttribute("aria-expanded", "true");
      onOpen();
      section.querySelector("button").focus();
    });
    section.querySelector("[data-close]").addEventListener("click", () => this.close(true));
    section.addEventListener("keydown", ({ key }) => key === "Escape" && this.close(true));
  }

  /**
   * Close the panel.
   * @param {boolean} focusButton whether the button that opened it gets the focus
   */
  close(focusButton = false) {
    if (!this.#shown) return;
    const { button, section, onClose } = this.#shown;
    this.#shown = null;
    this.#panel.hidden = section.hidden = true;
    button.setAttribute("aria-expanded", "false");
    onClose();
    if (focusButton) button.focus();
  }
}
