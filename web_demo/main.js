// The page: menus, the line that is typed, and the wires between connection, captions and view.
// Query: from=en, to=de,fr, room=..., speaker=..., gateway=ws://host:port (default: who served this).

import { EMPTY, reduce } from "./captions.js";
import { Connection } from "./connection.js";
import { View, fillMenu } from "./view.js";

const TYPING_MS = 250; // at most so often is an unfinished line sent
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

const $ = (selector) => document.querySelector(selector);
const query = new URLSearchParams(location.search);
const gateway = new URL(query.get("gateway") ?? location.origin);
gateway.protocol = gateway.protocol.replace("http", "ws");

const view = new View();
const menus = { from: $("#from"), to: [$("#left"), $("#right")] };
const line = $("#line");
let state = EMPTY;
let drawing = 0;
let typed = null; // the line being typed: { id, text } as last sent
let typing = 0;
let said = 0;
const author = Math.random().toString(36).slice(2, 8); // ids of two pages in one room must differ

const connection = new Connection(address, { onEvent, onState });

function address() {
  const url = new URL("/v1/ws", gateway);
  if (menus.from.value) url.searchParams.set("from", menus.from.value);
  if (targets().length) url.searchParams.set("to", targets().join());
  for (const name of ["room", "speaker"]) {
    if (query.get(name)) url.searchParams.set(name, query.get(name));
  }
  return url;
}

function targets() {
  return menus.to.map((menu) => menu.value).filter(Boolean);
}

function onEvent(event) {
  if (event.type === "welcome") {
    typed = null;
    line.maxLength = event.limits.text;
    if (!targets().length) {
      offer(event.languages.map((tag) => ({ tag, endonym: nameOf(tag) })));
      connection.send({ type: "set", from: menus.from.value });
      connection.send({ type: "want", langs: targets() });
    }
    tell("");
  }
  if (event.type === "error") tell([event.msg, event.hint].filter(Boolean).join(" "));
  if (event.type === "goaway") tell(event.why);
  if (["final", "edited"].includes(event.type) && targets().includes(event.lang)) {
    view.announce(event.text, event.lang);
  }
  dispatch(event);
}

function onState(name, detail) {
  const waiting = `no connection, again in ${Math.ceil(detail)} s`;
  const words = { connecting: "connecting", open: "connected", waiting, closed: `closed: ${detail}` };
  $("#state").dataset.state = name;
  $("#state").textContent = words[name];
  $("#send").disabled = name !== "open";
  if (name === "waiting" || name === "closed") dispatch({ type: "broken" });
}

function dispatch(event) {
  state = reduce(state, event);
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    view.render(state, targets());
  });
}

function say(text, final) {
  typed ??= { id: `${author}-${++said}`, text: "" };
  const message = { type: "say", id: typed.id, text, final };
  if (!connection.send(message)) return false;
  dispatch({ ...message, lang: menus.from.value });
  typed = final ? null : { ...typed, text };
  return true;
}

/** While a line is typed, say it so far: whole words only, since half a word is another word. */
function sayTyped() {
  typing = 0;
  const text = (UNSPACED.test(line.value) ? line.value : line.value.replace(/\S+$/, "")).trim();
  if (!$("#partials").checked || text === (typed?.text ?? "")) return;
  if (text) say(text, false);
  else {
    connection.send({ type: "cancel", id: typed.id });
    typed = null;
  }
}

line.addEventListener("input", () => (typing ||= setTimeout(sayTyped, TYPING_MS)));

$("#say").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(typing);
  typing = 0;
  const text = line.value.trim();
  if (text && say(text, true)) line.value = "";
});

menus.from.addEventListener("change", () => {
  connection.send({ type: "set", from: menus.from.value });
});

for (const menu of menus.to) {
  menu.addEventListener("change", () => {
    connection.send({ type: "want", langs: targets() });
    view.render(state, targets());
  });
}

function offer(languages) {
  const [left, right] = (query.get("to") ?? "de,fr").split(",");
  fillMenu(menus.from, languages, query.get("from") ?? "en");
  fillMenu(menus.to[0], languages, left);
  fillMenu(menus.to[1], languages, right);
}

function nameOf(tag) {
  return new Intl.DisplayNames(tag, { type: "language" }).of(tag);
}

function tell(text) {
  $("#message").textContent = text;
}

// Another gateway's languages are in its `welcome`: its HTTP is closed to pages from elsewhere.
if (!query.has("gateway")) {
  const answer = await fetch("/v1/languages").catch(() => null);
  if (answer?.ok) offer((await answer.json()).languages);
}
connection.open();
