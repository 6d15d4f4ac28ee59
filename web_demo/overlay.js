// Captions on a transparent page, for OBS, vMix or a shared screen: the last lines of a meeting.
// Query: room, to=de,fr, lines=2, size=5.2 (percent of the height), place=top, plain (no dark band).
// The fragment may hold the key of the gateway: #key=...

import { CaptionClient } from "../clients/js/client.js";
import { wakeOnReturn } from "../clients/js/page-return.js";
import { AccessKey } from "./connection/access-key.js";
import { readSettings } from "./connection/meeting-url.js";
import { element } from "./page/dom.js";
import "./page/interface-language.js";
import { inLanguage } from "./page/languages.js";

const IDLE_MS = 12_000; // after the last change, the captions disappear
const SHOWN_UTTERANCES = 3; // enough to fill the lines

const query = new URLSearchParams(location.search);
const settings = { ...readSettings(location.search, location.href), role: "view" };
const languages = settings.to.length ? settings.to : ["en"];

const overlay = document.querySelector("#overlay");
document.body.style.setProperty("--lines", readNumber("lines", 1, 8, 2));
document.body.style.setProperty("--size", readNumber("size", 1, 30, 5.2));
overlay.parentNode.dataset.place = query.get("place") ?? "bottom";
overlay.parentNode.toggleAttribute("data-plain", query.has("plain"));

const windows = languages.map((lang) => {
  const node = inLanguage(element("div", "window"), lang);
  overlay.append(node);
  return { lang, node };
});
let frame = 0;
let idleTimer = 0;

const key = new AccessKey(settings);
const client = new CaptionClient(settings.gateway, {
  room: settings.room,
  role: "view",
  to: languages,
  ticket: async () => (await key.requestTicket())?.ticket,
  onChange: showSoon,
});

/** Return a number of the query; `fallback` if it is absent or out of range. */
function readNumber(name, least, most, fallback) {
  const value = Number(query.get(name) ?? fallback);
  return value >= least && value <= most ? value : fallback;
}

function showSoon() {
  clearTimeout(idleTimer);
  idleTimer = setTimeout(() => overlay.replaceChildren(), IDLE_MS);
  if (!overlay.children.length) overlay.append(...windows.map(({ node }) => node));
  frame ||= requestAnimationFrame(render);
}

function render() {
  frame = 0;
  const last = client.utterances.slice(-SHOWN_UTTERANCES);
  for (const { lang, node } of windows) {
    const captions = last.map(({ key, captions }) => [key, captions[lang]]).filter(([, caption]) => caption);
    const lines = new Map([...node.children].map((child) => [child.dataset.key, child]));
    node.replaceChildren(...captions.map(([key, caption]) => showCaption(lines.get(key) ?? newLine(key), caption)));
  }
}

function newLine(key) {
  const node = element("p");
  const text = element("span", "text");
  text.append(element("span", "stable"), element("span", "draft"));
  node.append(text);
  node.dataset.key = key;
  return node;
}

/** Show a caption in a line, or hide the line: an overlay has no room for the original of a failed caption. */
function showCaption(line, { stable, draft }) {
  const [stableNode, draftNode] = line.firstChild.children;
  if (stableNode.textContent !== stable) stableNode.textContent = stable;
  if (draftNode.textContent !== draft) draftNode.textContent = draft;
  line.hidden = !stable && !draft;
  return line;
}

wakeOnReturn(client);
await client.open();
