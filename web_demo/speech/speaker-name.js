// The name under which this page speaks.
//
// Owns: the field for the name. The name is kept in this browser, so people are asked once.
// Must not know: sockets, captions.

const STORED = "speaker name";

/** The field "Your name". */
export class SpeakerName {
  #field = document.querySelector("#name");

  /**
   * @param {string | null} given name in the address of the page; it is not stored
   * @param {(name: string) => void} onChange called with another name; "" is none
   */
  constructor(given, onChange) {
    this.#field.value = given ?? localStorage.getItem(STORED) ?? "";
    this.#field.addEventListener("change", () => {
      localStorage.setItem(STORED, this.value);
      onChange(this.value);
    });
    this.#field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) document.querySelector("#line").focus();
    });
  }

  /** The name as it is typed now, without spaces around it. */
  get value() {
    return this.#field.value.trim();
  }
}
