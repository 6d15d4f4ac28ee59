// The page: the wires between connection, captions, view and what people do.

import { inventRoom, read } from "./address.js";
import { keepAwake } from "./awake.js";
import { EMPTY, reduce } from "./captions.js";
import { Columns } from "./columns.js";
import { Connection } from "./connection.js";
import { Deeds } from "./deeds.js";
import { Demo } from "./demo.js";
import { Display } from "./display.js";
import { Drawer } from "./drawer.js";
import { Events } from "./events.js";
import { Follow } from "./follow.js";
import { Insight } from "./insight.js";
import { Key } from "./key.js";
import { element, fillMenu, nameOf } from "./languages.js";
import { Lines } from "./lines.js";
import { Microphone } from "./mic.js";
import { Paste } from "./paste.js";
import { Share } from "./share.js";
import { Steer } from "./steer.js";
import { View } from "./view.js";

const TOLD_MS = 12_000; // that something is told
const PATIENCE = 2; // sockets that fail before something else is tried

const $ = (selector) => document.querySelector(selector);

const here = read(location.search, location.origin, { role: "speak" });
if (!here.room) {
  // Whoever opens a meeting moderates it. The address in the bar lets others speak.
  here.room = inventRoom();
  sessionStorage.setItem(`moderates ${here.room}`, "1");
  const url = new URL(location);
  url.searchParams.set("room", here.room);
  history.replaceState(null, "", url);
}
if (here.role === "speak" && sessionStorage.getItem(`moderates ${here.room}`)) here.role = "moderate";

let reads = here.role === "view"; // and does not speak
const follow = new Follow($("#reader"), $("#live"));
const view = new View(follow);
const display = new Display(() => view.relax(), { original: reads ? "hidden" : "shown" });
const columns = new Columns($("#heads"), here.to, onColumns);
const from = $("#from");
let state = EMPTY;
let drawing = 0;
let welcomed = false;
let ticket = null; // where the gateway asks for keys
let quiet = 0;

const socket = new Connection(() => address("/v1/ws", here.gateway), {
  onEvent: (event) => hearSocket(event),
  onState: (name, detail) => connection === socket && onState(name, detail),
});
let connection = socket; // or events over HTTP, while no socket comes through
let refusals = 0; // of sockets, before the first one was let in
const lines = new Lines({ say, cancel, lang: () => from.value });
const microphone = new Microphone({ say, lang: () => from.value });
const demo = new Demo({ say, begin: beginDemo, cancel });
const key = new Key(here);
const steer = new Steer(here, { key, send: (message) => connection.send(message) });
const insight = new Insight(here, key);
const drawer = new Drawer();
drawer.add($("#steer"), steer.section, { onOpen: () => steer.offer(columns.langs) });
drawer.add($("#insight"), insight.section, { onOpen: () => insight.open(), onClose: () => insight.close() });
new Deeds(view, { role: () => document.body.dataset.role, send: (message) => connection.send(message) });
new Share(here, key, () => columns.langs);
const paste = new Paste((said, lang) => demo.play(said, lang, "Transcript"));
let pairs = []; // what can be translated into what: [{ tag, targets }]

function address(path, base) {
  const url = new URL(path, base);
  url.searchParams.set("room", here.room);
  url.searchParams.set("role", here.role);
  if (from.value) url.searchParams.set("from", from.value);
  if (columns.langs.length) url.searchParams.set("to", columns.langs.join());
  if (here.speaker) url.searchParams.set("speaker", here.speaker);
  if (ticket) url.searchParams.set("ticket", ticket);
  ticket = null; // good once; from then on there is a token to resume with
  return url;
}

function onEvent(event) {
  switch (event.type) {
    case "welcome":
      welcomed = true;
      lines.welcome(event.limits);
      paste.welcome(event.limits);
      if (!columns.offered.length) offer(event.languages);
      tell("");
      if (event.resumed?.ok === false) missed(event.resumed);
      break;
    case "degraded":
      $("#state").textContent = ["Connected", ...lacking(event)].join(", ");
      break;
    case "error":
      steer.refused(event);
      if (event.code === "stale") lines.ended(event.id);
      else if (event.code === "unauthenticated") key.ask(enter); // it has expired
      else if (event.code !== "busy" || !event.id) tell([event.msg, event.hint].filter(Boolean).join(" "));
      break;
    case "cancelled":
      if (event.seq && !event.lang) lines.ended(event.id);
      break;
    case "settings":
      steer.hear(event);
      break;
    case "presence":
      present(event);
      break;
    case "final":
    case "edited":
      if (event.lang === columns.langs[0]) view.announce(event.text, event.lang);
  }
  insight.hear(event);
  dispatch(event);
}

function onState(name, detail) {
  const waiting = `No connection, again in ${Math.ceil(detail)} s`;
  const words = { connecting: "Connecting", open: "Connected", waiting, closed: `Closed: ${detail}` };
  $("#state").dataset.state = name;
  $("#state").textContent = words[name];
  lines.connected(name !== "closed");
  $("#people").textContent = "";
  if (name === "waiting" || name === "closed") dispatch({ type: "broken" });
  if (name === "waiting" && !welcomed && ++refusals === PATIENCE) readOverHttp();
}

/** This network lets no WebSocket through, as it seems: read without one. */
async function readOverHttp() {
  ticket = (await key.ticket())?.ticket ?? null;
  const events = new Events(() => address(`/v1/rooms/${here.room}/events`, here.http), {
    onState: (name, detail) => connection === events && onState(name, detail),
    onEvent: (event) => {
      if (event.type === "welcome") {
        connection = events;
        become("view");
        onState("open");
      }
      if (connection === events) onEvent(event);
      if (event.type === "welcome" && here.role !== "view") {
        tell("This network lets no WebSocket through: you can read, but not speak.", true);
      }
    },
  });
  events.open();
}

/** A socket that comes through after all takes over. */
function hearSocket(event) {
  if (connection !== socket && event.type === "welcome") {
    connection.close();
    connection = socket;
    become(here.role);
    onState("open");
  }
  if (connection === socket) onEvent(event);
}

function become(role) {
  reads = role === "view";
  document.body.dataset.role = role;
  if (reads) keepAwake(true);
  draw();
}

function dispatch(event) {
  const before = state;
  state = reduce(state, event);
  if (state !== before) draw();
}

function draw() {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    view.render(state, columns.langs);
    const empty = state.utterances.size === 0;
    $("#start").hidden = !empty || reads;
    $("#waiting").hidden = !empty || !reads;
    $("#heads").hidden = empty && !reads;
    $("#again").hidden = empty || reads || demo.playing;
  });
}

function say(message) {
  if (!connection.send({ type: "say", ...message })) return false;
  dispatch({ type: "say", lang: from.value, ...message });
  return true;
}

function cancel(id) {
  connection.send({ type: "cancel", id });
}

function onColumns(langs) {
  connection.send({ type: "want", langs });
  const url = new URL(location);
  url.searchParams.set("to", langs.join());
  history.replaceState(null, "", url);
  steer.offer(langs);
  draw();
}

/** The demo is about to be played in `lang`: read what can be made of it. */
function beginDemo(lang) {
  const targets = pairs.find(({ tag }) => tag === lang)?.targets ?? [];
  const langs = columns.langs.filter((tag) => targets.includes(tag));
  if (langs.length < columns.langs.length) {
    const others = targets.filter((tag) => !langs.includes(tag));
    columns.choose([...langs, ...others].slice(0, columns.langs.length));
  }
  draw();
}

/** What is less well than usual, in words. */
function lacking({ partials, engine }) {
  return [partials === "off" && "whole sentences only", engine && "another engine translates"].filter(Boolean);
}

/** How many are here is no news for screen readers: it stands beside the state, not in it. */
function present({ members, speakers }) {
  $("#people").textContent = members === 1 ? ", only you are here" : `, ${members} are here`;
  $("#people").title = speakers?.join(", ") ?? "";
}

/** The gateway cannot tell everything that was said while there was no connection. */
function missed({ transcript }) {
  tell("The connection was lost. Some of what was said meanwhile may be missing here.");
  if (!transcript) return;
  const url = new URL(transcript.replace(/json$/, "txt"), here.http);
  url.searchParams.set("lang", columns.langs[0]);
  const anchor = element("a", "", "Read the transcript");
  anchor.href = url;
  anchor.target = "_blank";
  $("#message").append(" ", anchor);
}

function offer(tags, sources = tags) {
  fillMenu(from, sources.map((tag) => ({ tag, endonym: nameOf(tag) })), here.from ?? "en");
  columns.offer(tags);
  demo.offer(sources);
  if (welcomed) {
    connection.send({ type: "set", from: from.value });
    connection.send({ type: "want", langs: columns.langs });
  }
  draw();
}

/** Say what went wrong, for as long as it takes to read, or for as long as it is so. */
function tell(text, stays = false) {
  clearTimeout(quiet);
  $("#message").textContent = text;
  if (text && !stays) quiet = setTimeout(() => tell(""), TOLD_MS);
}

/** Connect, with a ticket where there is a key. */
async function enter() {
  const found = await key.ticket();
  if (!found) return key.ask(enter);
  ticket = found.ticket ?? null;
  if (found.role) become((here.role = found.role));
  socket.open();
}

from.addEventListener("change", () => {
  connection.send({ type: "set", from: from.value });
  microphone.speak(from.value);
});

become(here.role);
$("#room").textContent = here.room;
document.title = `${here.room} · Live captions`;

// Another gateway's languages are in its `welcome`: its HTTP is closed to pages from elsewhere.
if (!here.elsewhere) {
  const answer = await fetch("/v1/languages", { headers: key.headers }).catch(() => null);
  if (answer?.ok) {
    pairs = (await answer.json()).languages;
    const targets = [...new Set(pairs.flatMap(({ targets }) => targets))];
    const sources = pairs.map(({ tag }) => tag);
    offer([...sources.filter((tag) => targets.includes(tag)),
           ...targets.filter((tag) => !sources.includes(tag))], sources);
  }
}
await enter();
if (here.demo) demo.start(here.demo);
