// The captions on the page. Knows the document; knows no socket. Everything said or translated goes
// through `textContent`: whatever somebody types stays text.

import { inOrder } from "./captions.js";

const NEAR_PX = 120; // so near its end, the page follows what is new
const SPOKEN = 5; // finished captions kept for screen readers

const NOTES = {
  failed: (code) => ["not translated", code?.replaceAll("_", " ")].filter(Boolean).join(": "),
  cancelled: () => "cancelled",
  interrupted: () => "the connection broke",
};

export class View {
  #list = document.querySelector("#utterances");
  #log = document.querySelector("#finals");
  #hint = document.querySelector("#hint");
  #rows = new Map(); // key -> { node, utterance }
  #langs = "";

  /** Show `state` in the columns `langs`. Rows whose utterance is the same object are left alone. */
  render(state, langs) {
    const utterances = inOrder(state);
    const there = new Set(utterances.map(({ key }) => key));
    const following = innerHeight + scrollY > document.body.scrollHeight - NEAR_PX;
    if (this.#langs !== langs.join()) {
      this.#langs = langs.join();
      this.#rows.clear();
      this.#list.replaceChildren();
    }
    for (const [key, { node }] of this.#rows) {
      if (!there.has(key)) {
        node.remove();
        this.#rows.delete(key);
      }
    }
    utterances.forEach((utterance, i) => {
      const row = this.#rows.get(utterance.key) ?? { node: element("li", "utterance") };
      if (row.utterance !== utterance) {
        row.utterance = utterance;
        row.node.replaceChildren(...cells(utterance, langs));
        this.#rows.set(utterance.key, row);
      }
      const next = this.#list.children[i];
      if (next !== row.node) this.#list.insertBefore(row.node, next ?? null);
    });
    this.#hint.hidden = utterances.length > 0;
    if (following) scrollTo({ top: document.body.scrollHeight });
  }

  /** Have a finished caption read out: once and whole, not word by word. */
  announce(text, lang) {
    this.#log.append(inLanguage(element("p", "", text), lang));
    while (this.#log.children.length > SPOKEN) this.#log.firstElementChild.remove();
  }
}

/** Fill a menu with `languages` ({ tag, endonym }), keeping what is chosen where it can be. */
export function fillMenu(select, languages, chosen) {
  const options = languages.map(({ tag, endonym }) => {
    const option = inLanguage(element("option", "", endonym), tag);
    option.value = tag;
    return option;
  });
  select.replaceChildren(...options);
  select.value = languages.some(({ tag }) => tag === chosen) ? chosen : languages[0]?.tag ?? "";
}

function cells(utterance, langs) {
  const source = inLanguage(element("p", "source", utterance.text), utterance.lang);
  source.dataset.growing = !utterance.final;
  if (utterance.speaker) source.prepend(element("span", "speaker", utterance.speaker));
  return [source, ...langs.map((lang) => caption(utterance, lang))];
}

function caption(utterance, lang) {
  const found = utterance.captions[lang];
  const node = inLanguage(element("p", "caption"), lang);
  if (!found) return node;
  node.dataset.status = found.status;
  if (found.status === "failed") {
    // The reader gets the original, and is told that it is the original.
    inLanguage(node, utterance.lang).append(element("span", "original", utterance.text));
  } else {
    node.append(element("span", "stable", found.stable), element("span", "draft", found.draft));
  }
  const note = NOTES[found.status]?.(found.code);
  if (note) node.append(inLanguage(element("span", "note", note), "en"));
  return node;
}

function inLanguage(node, lang) {
  node.lang = lang;
  node.dir = direction(lang);
  return node;
}

function direction(lang) {
  try {
    const locale = new Intl.Locale(lang);
    return (locale.getTextInfo?.() ?? locale.textInfo)?.direction ?? "auto";
  } catch {
    return "auto"; // no tag, or none this browser knows
  }
}

function element(name, className, text = "") {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.textContent = text;
  return node;
}
