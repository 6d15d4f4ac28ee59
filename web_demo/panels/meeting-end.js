// The end of a meeting: the question before it, and the screen after it, on which everybody saves what they read.
//
// Owns: the End dialog, the end screen.
// Must not know: sockets, captions.

import { element } from "../page/dom.js";
import { inLanguage, nameOf } from "../page/languages.js";
import { forgetMeeting } from "../page/meeting-memory.js";
import { STRINGS } from "../page/strings.js";
import { problemOf } from "./transcript-files.js";

const FORMATS = { txt: STRINGS.transcripts.text, vtt: STRINGS.transcripts.subtitles };

/** The End dialog and the end screen. */
export class MeetingEnd {
  #dialog = document.querySelector("#end-dialog");
  #problem = document.querySelector("#end-dialog [role=alert]");
  #settings;
  #key;
  #files;
  #languages;
  #kept = new Map(); // "format lang" -> Blob, read just before the gateway deleted it

  /**
   * @param {{room: string, http: URL}} settings
   * @param {AccessKey} options.key
   * @param {TranscriptFiles} options.files
   * @param {() => string[]} options.languages returns the languages that are read in this meeting
   */
  constructor(settings, { key, files, languages }) {
    this.#settings = settings;
    this.#key = key;
    this.#files = files;
    this.#languages = languages;
    document.querySelector("#end").addEventListener("click", () => {
      this.#problem.textContent = "";
      this.#offer(this.#dialog.querySelector("ul"), this.#languages());
      this.#dialog.showModal();
    });
    this.#dialog.querySelector(".danger").addEventListener("click", (event) => {
      event.preventDefault(); // the dialog stays open if the meeting cannot be ended
      this.#end();
    });
    document.querySelector("#reopen").addEventListener("click", () => {
      forgetMeeting();
      location.reload();
    });
  }

  /**
   * Show that the meeting has ended, with its transcripts.
   * @param {string[]} read languages that this page has read
   */
  show(read) {
    const kept = [...this.#kept.keys()].map((name) => name.split(" ")[1]).filter(Boolean);
    this.#dialog.close();
    document.body.dataset.ended = "";
    document.querySelector("#column-heads").inert = true;
    const list = document.querySelector("#ended ul");
    this.#offer(list, [...new Set([...read, ...kept])]);
    list.querySelector("button").classList.add("primary"); // the text in the own language comes first
    document.querySelector("#ended").hidden = false;
    document.querySelector("#ended-title").focus();
  }

  /** List the transcripts, the original last; those that are kept are saved without asking the gateway. */
  #offer(list, languages) {
    list.replaceChildren(...[...languages, ""].map((lang) => {
      const item = element("li", "field-row");
      const name = lang ? inLanguage(element("span", "", nameOf(lang)), lang) : element("span", "", STRINGS.transcripts.original);
      item.append(name, ...Object.entries(FORMATS).map(([format, label]) => {
        const button = element("button", "button", label);
        button.type = "button";
        button.setAttribute("aria-label", STRINGS.transcripts.file({ language: name.textContent, format: label }));
        button.addEventListener("click", () => this.#save(format, lang));
        return button;
      }));
      return item;
    }));
  }

  async #save(format, lang) {
    try {
      this.#files.save(this.#kept.get(`${format} ${lang}`) ?? await this.#files.file(format, lang), format, lang);
    } catch ({ message }) {
      this.#problem.textContent = message;
    }
  }

  /** Keep the transcripts, then delete the room. If a transcript cannot be read, nothing is deleted. */
  async #end() {
    const kept = new Map();
    try {
      for (const lang of ["", ...this.#languages()]) {
        for (const format of Object.keys(FORMATS)) kept.set(`${format} ${lang}`, await this.#files.file(format, lang));
      }
    } catch ({ message }) {
      this.#problem.textContent = STRINGS.end.failed({ reason: message });
      return;
    }
    this.#kept = kept; // before the gateway closes the connection
    const url = new URL(`v1/rooms/${this.#settings.room}`, this.#settings.http);
    const answer = await fetch(url, { method: "DELETE", headers: this.#key.headers }).catch(() => null);
    if (!answer?.ok) this.#problem.textContent = await problemOf(answer);
  }
}
