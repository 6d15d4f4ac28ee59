// How the captions look: theme, size, originals, clock times.
//
// Owns: the Display dialog; its choices are stored in this browser.
// Must not know: captions, sockets.

const DEFAULTS = { theme: "auto", size: "medium", original: "shown", times: "hidden" };
const STORED = "display";

/** The Display dialog. */
export class DisplaySettings {
  #dialog = document.querySelector("#display-dialog");
  #list = document.querySelector("#utterances");
  #onChange;
  #choices;

  /**
   * @param {() => void} onChange called when the captions must be laid out again
   * @param {object} defaults choices of this page, used until somebody chooses
   */
  constructor(onChange, defaults = {}) {
    this.#onChange = onChange;
    this.#choices = { ...DEFAULTS, ...defaults, ...storedChoices() };
    for (const [name, value] of Object.entries(this.#choices)) {
      const input = this.#dialog.querySelector(`[name="${name}"][value="${value}"]`);
      if (input) input.checked = true;
    }
    this.#dialog.addEventListener("change", ({ target }) => {
      this.#choices[target.name] = target.value;
      localStorage.setItem(STORED, JSON.stringify(this.#choices));
      this.#apply();
    });
    document.querySelector("#display").addEventListener("click", () => this.#dialog.showModal());
    this.#apply();
  }

  #apply() {
    const { theme, size, original, times } = this.#choices;
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    document.body.dataset.size = size;
    this.#list.dataset.original = original;
    this.#list.dataset.times = times;
    this.#onChange();
  }
}

function storedChoices() {
  try {
    return JSON.parse(localStorage.getItem(STORED)) ?? {};
  } catch {
    return {};
  }
}
