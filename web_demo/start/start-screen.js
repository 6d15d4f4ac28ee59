// The start screen: who speaks and reads which language, the code of the meeting, and the way into another one.
//
// Owns: the screen until the first caption, the name of the meeting, the form for a code.
// Must not know: sockets, captions.

import { meetingLink, roomOfCode } from "../connection/meeting-url.js";
import { fillMenu, nameOf } from "../page/languages.js";
import { STRINGS } from "../page/strings.js";

const SCRIPT_LANGUAGES = ["en", "de", "fr", "es", "ja", "zh"]; // web_demo/meeting/*.txt

/** The start screen. */
export class StartScreen {
  #node = document.querySelector("#start");
  #empty = document.querySelector("#empty");
  #settings;
  #key;
  #problem = document.querySelector("#join-problem");
  #demoMenu = document.querySelector("#demo-lang");
  #refused = ""; // room that did not exist; a second try opens it

  /**
   * @param {object} settings result of `readSettings`; its `name` follows the field
   * @param {AccessKey} key
   * @param {(name: string) => void} options.onName called with another name of the meeting
   * @param {(lang: string) => void} options.onDemo called when somebody wants the demo meeting in a language
   */
  constructor(settings, key, { onName, onDemo }) {
    this.#settings = settings;
    this.#key = key;
    const name = document.querySelector("#meeting-name");
    name.value = settings.name;
    name.addEventListener("input", () => {
      settings.name = name.value.trim();
      const url = new URL(location);
      if (settings.name) url.searchParams.set("name", settings.name);
      else url.searchParams.delete("name");
      history.replaceState(null, "", url);
      onName(settings.name);
    });
    document.querySelector("#code").textContent = settings.room;
    document.querySelector("#demo").addEventListener("click", () => onDemo(this.#demoMenu.value));
    document.querySelector("#start-share").addEventListener("click", () => document.querySelector("#share").click());
    document.querySelector("#join-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#join(roomOfCode(document.querySelector("#join-code").value));
    });
  }

  /** Set the languages that can be spoken, and the one that is spoken on this page. */
  offer(sources, spoken) {
    const offered = SCRIPT_LANGUAGES.filter((tag) => sources.includes(tag));
    const languages = (offered.length ? offered : SCRIPT_LANGUAGES).map((tag) => ({ tag, endonym: nameOf(tag) }));
    fillMenu(this.#demoMenu, languages, spoken);
  }

  /** Return a language that the demo meeting is written in: the wanted one, else English. */
  demoLanguage(tag) {
    return SCRIPT_LANGUAGES.includes(tag) ? tag : "en";
  }

  /** Show the screen, or to readers a line, until there is something to read. */
  show({ empty, readOnly, alone }) {
    this.#node.hidden = !empty || readOnly;
    this.#empty.hidden = !empty || !readOnly;
    // A mistyped name is a meeting of its own, in which nobody is.
    const text = alone ? STRINGS.captions.nobodyHere({ code: this.#settings.room }) : STRINGS.captions.empty;
    if (this.#empty.textContent !== text) this.#empty.textContent = text;
  }

  /** Go to the meeting with this code. One that does not exist is opened at the second try only. */
  async #join(room) {
    if (!room) return;
    if (room !== this.#refused && !(await this.#exists(room))) {
      this.#refused = room;
      this.#problem.textContent = STRINGS.start.noSuchMeeting({ code: room });
      return;
    }
    location.assign(meetingLink(location.href, "./", { room }));
  }

  async #exists(room) {
    const url = new URL(`v1/rooms/${room}/transcript.txt`, this.#settings.http);
    const answer = await fetch(url, { headers: this.#key.headers }).catch(() => null);
    return answer?.status !== 404;
  }
}
