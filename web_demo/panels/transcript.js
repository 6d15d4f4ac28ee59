// The Transcript panel, for everybody: search in all that was said, and download it.
//
// Owns: the panel.
// Must not know: sockets, rows.

import { element } from "../page/dom.js";
import { fillMenu, inLanguage, nameOf } from "../page/languages.js";
import { STRINGS, UI_LANGUAGE } from "../page/strings.js";

const { text, subtitles } = STRINGS.transcripts;
const FORMATS = { txt: `${text} (TXT)`, vtt: `${subtitles} (VTT)`, srt: `${subtitles} (SRT)`, json: "JSON" };
const SHOWN = 50; // lines found that are listed, newest first
const FRESH_MS = 5_000; // lines that were read this short a time ago are used again
const TYPING_MS = 200; // after the last key, before it searches
const CLOCK = new Intl.DateTimeFormat(UI_LANGUAGE, { hour: "2-digit", minute: "2-digit" });

/** The Transcript panel. */
export class TranscriptPanel {
  section = document.querySelector("#transcript-panel");
  #field = document.querySelector("#search");
  #status = document.querySelector("#search-status");
  #found = document.querySelector("#found");
  #language = document.querySelector("#transcript-lang");
  #problem = document.querySelector("#transcript-problem");
  #files;
  #languages;
  #goTo;
  #timer = 0;
  #known = null; // { read, promise } of all lines
  #search = 0; // number of the last search; answers of earlier ones are dropped

  /**
   * @param {TranscriptFiles} options.files
   * @param {() => string[]} options.languages returns the languages that are read
   * @param {(line: object) => void} options.goTo shows a line among the captions
   */
  constructor({ files, languages, goTo }) {
    this.#files = files;
    this.#languages = languages;
    this.#goTo = goTo;
    this.#field.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#showFound(), TYPING_MS);
    });
    document.querySelector("#search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#showFound();
    });
    const formats = document.querySelector("#formats");
    for (const [format, label] of Object.entries(FORMATS)) {
      const button = element("button", "button", label);
      button.type = "button";
      button.addEventListener("click", () => this.#download(format));
      formats.append(button);
    }
  }

  /** Set the languages of transcripts: the original and those that are read. */
  offer(languages) {
    const options = languages.map((tag) => ({ tag, endonym: nameOf(tag) }));
    const chosen = this.#language.value || languages[0];
    fillMenu(this.#language, [{ tag: "", endonym: STRINGS.transcripts.original }, ...options], chosen);
  }

  async #showFound() {
    const number = ++this.#search;
    const wanted = folded(this.#field.value);
    this.#found.replaceChildren();
    this.#status.textContent = "";
    if (!wanted) return;
    try {
      const lines = await this.#lines();
      if (number !== this.#search) return;
      const hits = lines.flatMap((utterance) => {
        const hit = this.#hitIn(utterance, wanted);
        return hit ? [{ utterance, ...hit }] : [];
      });
      this.#status.textContent = STRINGS.transcripts.found({ count: hits.length });
      this.#found.append(...hits.slice(-SHOWN).reverse().map((hit) => this.#item(hit)));
    } catch ({ message }) {
      this.#status.textContent = message;
    }
  }

  /** Return the text of an utterance that has the wanted words, with its language; null if none has. */
  #hitIn({ lang, text, speaker, captions }, wanted) {
    const texts = [...this.#languages().map((tag) => [tag, captions[tag]?.text]), [lang, text]].filter(([, one]) => one);
    const found = texts.find(([, one]) => folded(one).includes(wanted));
    const [tag, shown] = found ?? (folded(speaker ?? "").includes(wanted) ? texts[0] : []);
    return shown ? { lang: tag, text: shown } : null;
  }

  #item({ utterance, lang, text }) {
    const item = element("li");
    const button = element("button", "found");
    button.type = "button";
    if (utterance.at) {
      const at = new Date(utterance.at);
      const time = element("time", "", CLOCK.format(at));
      time.dateTime = at.toISOString();
      button.append(time, " ");
    }
    if (utterance.speaker) button.append(element("b", "", utterance.speaker), " ");
    button.append(inLanguage(element("span", "", text), lang));
    button.addEventListener("click", () => this.#goTo(utterance));
    item.append(button);
    return item;
  }

  /** Return all lines, those of a moment ago while somebody types. */
  #lines() {
    const known = this.#known;
    if (known && performance.now() - known.read < FRESH_MS) return known.promise;
    this.#known = { read: performance.now(), promise: this.#files.lines(this.#languages().join()) };
    return this.#known.promise;
  }

  async #download(format) {
    const { value: lang } = this.#language;
    this.#problem.textContent = "";
    try {
      this.#files.save(await this.#files.file(format, lang), format, lang);
    } catch ({ message }) {
      this.#problem.textContent = message;
    }
  }
}

/** Return a text in the form that is compared: without capitals and accents. */
function folded(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().trim();
}
