// Captions over a picture, for OBS, vMix or a shared screen: the last lines on a transparent page.
// Query: room, to=de,fr, lines=2, size=5.2 (hundredths of the height), place=top, plain, gateway; and
// #key=... where the gateway asks for one.

import { read } from "./address.js";
import { EMPTY, inOrder, reduce } from "./captions.js";
import { Connection } from "./connection.js";
import { Key } from "./key.js";
import { element, inLanguage } from "./languages.js";

const QUIET_MS = 12_000; // after so long without anything new, the picture is left alone

const query = new URLSearchParams(location.search);
const here = { ...read(location.search, location.origin), role: "view" };
const langs = here.to.length ? here.to : ["en"];
const number = (name, least, most, usual) => {
  const value = Number(query.get(name) ?? usual);
  return value >= least && value <= most ? value : usual;
};

const overlay = document.querySelector("#overlay");
document.body.style.setProperty("--lines", number("lines", 1, 8, 2));
document.body.style.setProperty("--size", `${number("size", 1, 30, 5.2)}vh`);
document.body.dataset.place = query.get("place") ?? "bottom";
document.body.toggleAttribute("data-plain", query.has("plain"));

const windows = langs.map((lang) => {
  const node = inLanguage(element("div", "window"), lang);
  overlay.append(node);
  return { lang, node };
});
let state = EMPTY;
let drawing = 0;
let quiet = 0;

const connection = new Connection(address, {
  onEvent: (event) => dispatch(event),
  onState: (name) => name === "waiting" && dispatch({ type: "broken" }),
});

function address() {
  const url = new URL("/v1/ws", here.gateway);
  url.searchParams.set("role", "view");
  if (here.room) url.searchParams.set("room", here.room);
  url.searchParams.set("to", langs.join());
  if (ticket) url.searchParams.set("ticket", ticket);
  ticket = null; // good once; from then on there is a token to resume with
  return url;
}

function dispatch(event) {
  const before = state;
  state = reduce(state, event);
  if (state === before) return;
  clearTimeout(quiet);
  quiet = setTimeout(() => overlay.replaceChildren(), QUIET_MS);
  if (!overlay.children.length) overlay.append(...windows.map(({ node }) => node));
  drawing ||= requestAnimationFrame(draw);
}

function draw() {
  drawing = 0;
  const last = inOrder(state).slice(-3);
  for (const { lang, node } of windows) {
    const rows = last.map(({ key, captions }) => [key, captions[lang]]).filter(([, caption]) => caption);
    const there = new Map([...node.children].map((child) => [child.dataset.key, child]));
    node.replaceChildren(...rows.map(([key, caption]) => show(there.get(key) ?? line(key), caption)));
  }
}

function line(key) {
  const node = element("p");
  const text = element("span", "text");
  text.append(element("span", "stable"), element("span", "draft"));
  node.append(text);
  node.dataset.key = key;
  return node;
}

/** A caption that failed is left out: over a picture nobody looks for the original. */
function show(node, { stable, draft }) {
  const [first, second] = node.firstChild.children;
  if (first.textContent !== stable) first.textContent = stable;
  if (second.textContent !== draft) second.textContent = draft;
  node.hidden = !stable && !draft;
  return node;
}

let { ticket } = (await new Key(here).ticket()) ?? {};
connection.open();
