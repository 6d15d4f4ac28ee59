// The element <live-captions>: the captions of a room, on any page. For browsers.
//
//   <live-captions gateway="https://captions.example" room="board" to="fr" lines="3"></live-captions>
//
// Owns: its elements and its look. Texts only ever become text nodes, never markup.
// Must not know: sockets.

import { captionIn } from "./captions.js";
import { connect } from "./client.js";
import { direction } from "./direction.js";
import { wakeOnReturn } from "./page-return.js";

const DEFAULT_LINES = 50;

const STYLE = new CSSStyleSheet(); // unlike a style element, a strict content security policy permits it
STYLE.replaceSync(`
  :host { display: block; overflow-y: auto; line-height: 1.4; overflow-wrap: anywhere; }
  :host([hidden]) { display: none; }
  p { margin: 0; min-height: 1lh; white-space: pre-wrap; }
  [part=line] { padding-block: .2em; }
  [part=speaker] { font-weight: 600; font-size: .85em; }
  [part=draft] { opacity: .65; }
  [part=line]:has([data-status=silent]):not(:has([data-status]:not([data-status=silent]))) { display: none; }
  [data-status=failed] [part=stable], [data-status=interrupted] [part=stable] { font-style: italic; }
`);

/** The newest captions of a room. Its attributes are described in README.md. */
export class LiveCaptionsElement extends HTMLElement {
  static observedAttributes = ["gateway", "room", "to", "lines"];

  #list = document.createElement("div");
  #rows = new Map(); // key of an utterance -> Row
  #client = null;
  #stopWaking = () => {};
  #frame = 0;

  /** Function that returns a ticket, for gateways that ask for keys. Set it before the element is inserted. */
  ticket = null;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [STYLE];
    // Screen readers read a line when it is finished: lines that grow are busy.
    this.#list.setAttribute("role", "log");
    this.#list.setAttribute("part", "list");
    root.append(this.#list);
  }

  connectedCallback() {
    this.#open();
  }

  disconnectedCallback() {
    this.#close();
  }

  attributeChangedCallback(name, before, value) {
    if (!this.#client || before === value) return;
    if (name === "to") {
      this.#client.want(this.#languages);
      this.#clear();
    } else if (name !== "lines") this.#open();
    this.#renderSoon();
  }

  get #languages() {
    return (this.getAttribute("to") ?? "").split(",").map((tag) => tag.trim()).filter(Boolean);
  }

  #open() {
    this.#close();
    const key = this.getAttribute("key") ?? undefined;
    this.#client = connect(this.getAttribute("gateway") ?? location.origin, {
      room: this.getAttribute("room"), to: this.#languages, role: "view", key, ticket: this.ticket ?? undefined,
      onChange: () => this.#renderSoon(),
      onState: (state, detail) => this.dispatchEvent(new CustomEvent("statechange", { detail: { state, detail } })),
    });
    this.#stopWaking = wakeOnReturn(this.#client);
  }

  #close() {
    this.#stopWaking();
    this.#client?.close();
    this.#client = null;
    this.#clear();
  }

  #clear() {
    this.#rows.clear();
    this.#list.replaceChildren();
  }

  #renderSoon() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      if (this.#client) this.#render();
    });
  }

  #render() {
    const atEnd = this.scrollHeight - this.scrollTop - this.clientHeight < 4;
    const shown = this.#client.utterances.slice(-(Number(this.getAttribute("lines")) || DEFAULT_LINES));
    const keys = new Set(shown.map(({ key }) => key));
    for (const [key, { node }] of this.#rows) {
      if (keys.has(key)) continue;
      node.remove();
      this.#rows.delete(key);
    }
    let place = this.#list.firstElementChild;
    let speaker = null;
    for (const utterance of shown) {
      if (!this.#rows.has(utterance.key)) this.#rows.set(utterance.key, new Row(this.#languages));
      const row = this.#rows.get(utterance.key);
      row.update(utterance, utterance.speaker !== speaker);
      if (row.node === place) place = place.nextElementSibling;
      else this.#list.insertBefore(row.node, place);
      speaker = utterance.speaker;
    }
    if (atEnd) this.scrollTop = this.scrollHeight;
  }
}

/** The elements of one utterance. */
class Row {
  node = element("div", "line");
  #speaker = element("div", "speaker");
  #captions;
  #utterance = null;

  constructor(languages) {
    this.node.append(this.#speaker);
    this.#speaker.dir = "auto";
    this.#captions = languages.map((lang) => {
      const node = element("p", "caption");
      const [stable, draft] = [element("span", "stable"), element("span", "draft")];
      node.append(stable, draft);
      this.node.append(node);
      return { lang, node, stable, draft };
    });
  }

  update(utterance, newSpeaker) {
    this.#speaker.hidden = !newSpeaker || !utterance.speaker;
    if (this.#utterance === utterance) return;
    this.#utterance = utterance;
    setText(this.#speaker, utterance.speaker ?? "");
    let growing = false;
    for (const { lang, node, stable, draft } of this.#captions) {
      const caption = captionIn(utterance, lang);
      if (node.lang !== caption.lang) {
        node.lang = caption.lang;
        node.dir = direction(caption.lang);
      }
      node.dataset.status = caption.status;
      setText(stable, caption.stable);
      setText(draft, caption.draft);
      growing ||= caption.status === "growing";
    }
    this.node.setAttribute("aria-busy", growing);
  }
}

function element(name, part) {
  const node = document.createElement(name);
  node.setAttribute("part", part);
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

if (!customElements.get("live-captions")) customElements.define("live-captions", LiveCaptionsElement);
