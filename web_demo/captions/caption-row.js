// The row of one utterance: its speaker, the original, and a caption for each language.
//
// Owns: the elements of a row. They are not rebuilt while a caption grows: text is appended to existing
// text nodes, so the browser lays out one line, a selection survives, and earlier lines keep their breaks.
// Texts only ever become text nodes, never markup.
// Must not know: sockets, other rows.

import { captionIn } from "../../clients/js/captions.js";
import { element } from "../page/dom.js";
import { inLanguage } from "../page/languages.js";
import { STRINGS, UI_LANGUAGE, modelNote } from "../page/strings.js";

const NOTES = {
  failed: (code) => {
    const reason = STRINGS.failures[code];
    return reason ? STRINGS.captions.failedBecause({ reason }) : STRINGS.captions.failed;
  },
  missing: () => STRINGS.captions.missing,
  cancelled: () => STRINGS.captions.stopped,
  interrupted: () => STRINGS.captions.interrupted,
};
const CLOCK = new Intl.DateTimeFormat(UI_LANGUAGE, { hour: "2-digit", minute: "2-digit" });

/** A row of the caption list. */
export class CaptionRow {
  node = element("li", "row");
  utterance = null;
  isBehind = false;
  #speaker = element("div", "speaker");
  #speakerName = element("span");
  #time = element("time");
  #source = element("p", "source");
  #sourceText = document.createTextNode("");
  #captions = new Map(); // language tag -> Caption
  #height = 0;

  /**
   * @param {string} key key of the utterance
   * @param {string[]} languages tags of the columns
   */
  constructor(key, languages) {
    this.node.dataset.key = key;
    this.node.tabIndex = -1;
    this.#speaker.append(this.#speakerName, this.#time);
    this.#speakerName.dir = "auto";
    this.#source.append(this.#sourceText);
    this.node.append(this.#speaker, this.#source);
    for (const lang of languages) {
      const caption = new Caption(lang);
      this.#captions.set(lang, caption);
      this.node.append(caption.node);
    }
  }

  /**
   * Show the utterance as it is now.
   * @param {object} utterance
   * @param {number} hue colour of the speaker, in degrees
   * @param {string | undefined} usual language in which the speaker spoke before
   * @param {boolean} oneByOne leaves all captions but one for the next calls; `isBehind` tells whether there may be any
   */
  update(utterance, hue, usual, oneByOne) {
    this.utterance = utterance;
    this.isBehind = false;
    const name = this.#speakerName.firstChild ?? this.#speakerName.appendChild(document.createTextNode(""));
    setText(name, utterance.speaker ?? "");
    if (utterance.speaker) this.#speaker.style.setProperty("--hue", hue);
    if (utterance.at && !this.#time.dateTime) {
      const at = new Date(utterance.at);
      this.#time.dateTime = at.toISOString();
      this.#time.textContent = CLOCK.format(at);
    }
    inLanguage(this.#source, utterance.lang);
    setText(this.#sourceText, utterance.text);
    if (utterance.edited && !this.#source.querySelector(".tag")) this.#source.append(noteNode("tag", STRINGS.captions.edited));
    // The original of somebody else comes last. Its first line is kept free for it, so that the captions stay where they are.
    this.#source.hidden = this.#captions.has(utterance.lang || usual);
    this.#source.toggleAttribute("data-growing", !utterance.final);
    for (const [lang, caption] of [...this.#captions]) {
      if (!caption.update(utterance) || !oneByOne) continue;
      this.#captions.delete(lang); // to the end: the others come first now
      this.#captions.set(lang, caption);
      this.isBehind = true;
      break;
    }
    this.node.toggleAttribute("data-spoken", !utterance.final && !utterance.interrupted);
  }

  /** Show the name of the speaker. It stays shown, and so does the room for a name that is not known yet. */
  showSpeaker() {
    this.node.toggleAttribute("data-new-speaker", true);
  }

  /** Let the browser leave the row undrawn while it is out of sight. A row in sight would flicker, and move others. */
  leaveUndrawn() {
    this.node.toggleAttribute("data-old", true);
  }

  /** True while a caption of the row grows. */
  get growing() {
    return [...this.#captions.values()].some((caption) => caption.growing);
  }

  /** Return the height in pixels. Read it of all rows before `reserveHeight` is called on any. */
  measureHeight() {
    return this.node.offsetHeight;
  }

  /** Keep the row at least `height` pixels high: a text that becomes shorter must not move the rows below. */
  reserveHeight(height) {
    if (height > this.#height) {
      this.#height = height;
      this.node.style.minHeight = `${height}px`;
    }
  }

  /** Drop the reserved height, because the page was laid out again. */
  releaseHeight() {
    this.#height = 0;
    this.node.style.minHeight = "";
  }
}

/** The caption of one language in a row. */
class Caption {
  node = element("p", "caption");
  growing = false;
  #lang;
  #stable = element("span", "stable").appendChild(document.createTextNode(""));
  #draft = element("span", "draft").appendChild(document.createTextNode(""));
  #notes = "";

  constructor(lang) {
    this.#lang = lang;
    this.node.dataset.lang = lang; // style sheets show it on telephones
    this.node.append(this.#stable.parentNode, this.#draft.parentNode);
  }

  /** Show the caption of an utterance; return whether it reads differently now. */
  update(utterance) {
    const before = this.node.textContent;
    const caption = captionIn(utterance, this.#lang);
    const { status } = caption;
    this.growing = status === "growing";
    inLanguage(this.node, caption.lang);
    this.node.title = caption.engine ? modelNote(caption.engine) : "";
    // Words that become stable leave the draft, and the rest of it stays where it is. Its node would move, so it gets another.
    if (setText(this.#stable, caption.stable)) this.#draft = replaceText(this.#draft);
    setText(this.#draft, caption.draft);
    const empty = !this.#stable.length && !this.#draft.length;
    this.node.dataset.status = this.growing && empty ? "waiting" : status;
    this.#showNotes([
      ["tag", NOTES[status]?.(caption.code)],
      ["tag", caption.edited && STRINGS.captions.edited],
      ["tag", caption.unsure && STRINGS.captions.unsure],
      ["tag", caption.numbersLost && STRINGS.captions.numbersLost],
      ["tag term", caption.termMissing && STRINGS.captions.termMissing], // shown to speakers only
    ].filter(([, note]) => note));
    return this.node.textContent !== before;
  }

  #showNotes(notes) {
    if (notes.join() === this.#notes) return;
    this.#notes = notes.join();
    for (const old of this.node.querySelectorAll(".tag")) old.remove();
    this.node.append(...notes.map(([kind, note]) => noteNode(kind, note)));
  }
}

/** Return a note beside a text, in the language of the page. */
function noteNode(kind, note) {
  return inLanguage(element("span", kind, note), UI_LANGUAGE);
}

/** Change a text node; append if the text only grew, because that keeps the layout of earlier lines. Tell whether it changed. */
function setText(node, text) {
  const before = node.data;
  if (before === text) return false;
  if (text.startsWith(before)) node.appendData(text.slice(before.length));
  else node.data = text;
  return true;
}

function replaceText(node) {
  const other = document.createTextNode("");
  node.replaceWith(other);
  return other;
}
