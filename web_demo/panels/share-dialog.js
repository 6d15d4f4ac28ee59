// The Share dialog: links to the meeting, and a QR code for telephones.
//
// Owns: the links of the dialog and their code.
// Must not know: sockets, captions.

import { meetingLink } from "../connection/meeting-url.js";
import { isLocal, readCode } from "./qr-code.js";
import { STRINGS } from "../page/strings.js";
import { OverlayEditor } from "./overlay-editor.js";

const COPIED_MS = 2000; // how long a button says that the link was copied

/** The Share dialog. */
export class ShareDialog {
  #dialog = document.querySelector("#share-dialog");
  #code = document.querySelector("#qr");
  #readerKey = document.querySelector("#reader-key");
  #settings;
  #key;
  #languages;
  #offered;
  #editor;
  #base = location.href; // or an address of this page that other machines reach

  /**
   * @param {{room: string, name: string, role: string, http: URL}} settings
   * @param {AccessKey} key
   * @param {() => string[]} options.languages returns the languages that this page reads
   * @param {() => string[]} options.offered returns the languages that the gateway translates into
   * @param {(lang: string) => string[]} options.lines returns the newest captions in a language
   */
  constructor(settings, key, { languages, offered, lines }) {
    this.#settings = settings;
    this.#key = key;
    this.#languages = languages;
    this.#offered = offered;
    this.#editor = new OverlayEditor({ lines, onChange: () => this.#render() });
    document.querySelector("#link-overlay").closest(".group").append(this.#editor.node);
    document.querySelector("#share").addEventListener("click", () => {
      this.#readerKey.parentNode.hidden = !key.headers.authorization || key.readerKey !== "";
      document.querySelector("#share-code").textContent = settings.room;
      document.querySelector("#link-speak").closest(".group").hidden = settings.role === "view";
      this.#editor.offer(this.#offered(), this.#languages());
      this.#editor.show();
      this.#render();
      this.#dialog.showModal();
    });
    this.#readerKey.addEventListener("change", () => this.#render());
    this.#dialog.addEventListener("click", ({ target }) => {
      const button = target.closest("[data-copy]");
      if (button) copy(document.querySelector(`#link-${button.dataset.copy}`), button);
    });
    this.#code.addEventListener("click", () => this.#dialog.toggleAttribute("data-large"));
    this.#dialog.addEventListener("close", () => this.#dialog.removeAttribute("data-large"));
  }

  /** Show the newest captions in the preview of the overlay. */
  showPreview() {
    if (this.#dialog.open) this.#editor.show();
  }

  #render() {
    const key = this.#key.readerKey || this.#readerKey.value.trim();
    this.#renderLinks(key);
    this.#renderCode(key);
  }

  #renderLinks(key) {
    const local = isLocal(this.#base);
    document.querySelector("#local-note").hidden = !local;
    // A telephone could not open a local address.
    this.#code.hidden = document.querySelector("#scan-note").hidden = local;
    const withKey = (value) => (value ? `#key=${encodeURIComponent(value)}` : "");
    const fragment = withKey(key);
    const links = {
      read: meetingLink(this.#base, "join.html", this.#settings) + fragment,
      speak: meetingLink(this.#base, "./", this.#settings) + withKey(this.#key.speakerKey),
      overlay: meetingLink(this.#base, "overlay.html", this.#settings, this.#editor.query) + fragment,
    };
    for (const [name, href] of Object.entries(links)) {
      document.querySelector(`#link-${name}`).value = href;
    }
  }

  /** Show the code. If the gateway names an address that other machines reach, the links have it too. */
  async #renderCode(key) {
    const code = await readCode(this.#settings, key);
    if (!code) return this.#code.replaceChildren();
    if (code.reachable) {
      this.#base = code.reachable;
      this.#renderLinks(key);
    }
    this.#code.replaceChildren(code.picture);
  }
}

async function copy(field, button) {
  field.select();
  try {
    await navigator.clipboard.writeText(field.value);
    button.textContent = STRINGS.share.copied;
  } catch {
    button.textContent = STRINGS.share.copyByKeys; // the page may not write the clipboard; the link is selected
  }
  setTimeout(() => (button.textContent = STRINGS.page.copy), COPIED_MS);
}
