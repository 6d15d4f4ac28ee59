// The meeting page: it connects sockets, captions, input and panels with each other.
//
// Owns: the state of the page, its role, its notices, and the choice between WebSocket and HTTP.

import { EMPTY_STATE, inRoomOrder, reduce } from "../clients/js/captions.js";
import { WebSocketConnection } from "../clients/js/connection.js";
import { EventStream } from "../clients/js/event-stream.js";
import { wakeOnReturn } from "../clients/js/page-return.js";
import { AutoScroll } from "./captions/autoscroll.js";
import { CaptionActions } from "./captions/caption-actions.js";
import { CaptionList } from "./captions/caption-list.js";
import { EarlierLines } from "./captions/earlier-lines.js";
import { LanguageColumns } from "./captions/language-columns.js";
import { AccessKey } from "./connection/access-key.js";
import { inventRoomName, readSettings } from "./connection/meeting-url.js";
import { element } from "./page/dom.js";
import "./page/interface-language.js";
import { fillMenu, nameOf } from "./page/languages.js";
import { pairsOf, reasonAgainst } from "./page/pairs.js";
import { STRINGS, errorText } from "./page/strings.js";
import { keepScreenOn } from "./page/wake-lock.js";
import { DisplaySettings } from "./panels/display-settings.js";
import { ModerationPanel } from "./panels/moderation.js";
import { SidePanel } from "./panels/side-panel.js";
import { StatisticsPanel } from "./panels/statistics.js";
import { TranscriptFiles } from "./panels/transcript-files.js";
import { DemoControls } from "./playback/demo-controls.js";
import { Microphone } from "./speech/microphone.js";
import { SpeakerName } from "./speech/speaker-name.js";
import { TextInput } from "./speech/text-input.js";

const NOTICE_MS = 12_000; // how long a notice is shown
const ROOM_ENDED = 4410; // close code
const MAX_FAILED_SOCKETS = 2; // before the page reads over HTTP

const TOUCH = matchMedia("(pointer: coarse)");
const PHONE = matchMedia("(max-width: 46rem)"); // as in meeting.css: the panel covers the captions

const $ = (selector) => document.querySelector(selector);

const settings = readSettings(location.search, location.href, { role: "speak" });
if (!settings.room) {
  // The person who opens a new meeting moderates it, in this tab. Others who get the address may speak.
  settings.room = inventRoomName();
  sessionStorage.setItem(`moderates ${settings.room}`, "1");
  const url = new URL(location);
  url.searchParams.set("room", settings.room);
  history.replaceState(null, "", url);
}
if (settings.role === "speak" && sessionStorage.getItem(`moderates ${settings.room}`)) settings.role = "moderate";

let welcomed = false;
let readOnly = settings.role === "view";
const autoscroll = new AutoScroll($("#reader"), $("#newest"), {
  onScrolledBack: (back) => dispatch({ type: "scrolled", back }),
  onTop: () => earlier.showMore(),
});
const captions = new CaptionList(autoscroll, (name, hue) => columns.nameTurn(name, hue));
// The presentation view has no button to the newest captions, so it begins there.
new DisplaySettings({
  onChange: () => {
    captions.releaseHeights();
    if (welcomed) requestRender(); // clock times may be wanted
  },
  onPresent: () => autoscroll.jumpToNewest(),
}, { original: readOnly ? "hidden" : "shown" });
const columns = new LanguageColumns($("#column-heads"), settings.to, onLanguages, (tag) => {
  // Who only reads hears speakers of any language.
  return reasonAgainst(pairs, readOnly ? pairs.map((pair) => pair.tag) : [from.value], tag);
});
const from = $("#from");
let state = EMPTY_STATE;
let frame = 0;
let ticket = null; // for the next socket, if the gateway asks for keys
let noticeTimer = 0;
let screenStaysOn = true; // or a promise of it
let liveAfter = 0; // number of the room's last event when this page joined; later ones happen now
let pairs = []; // what the gateway translates into what: [{ tag, targets }]

const socket = new WebSocketConnection(() => address("v1/ws", settings.gateway), {
  onEvent: (event) => onSocketEvent(event),
  onState: (...change) => connection === socket && onState(...change),
});
wakeOnReturn(socket);
let connection = socket; // or an event stream, while sockets fail
let failedSockets = 0; // before the first one succeeded
const speakerName = new SpeakerName(settings.speaker, (name) => connection.send({ type: "set", speaker: name }));
const textInput = new TextInput({ say, cancel, language: () => from.value });
const microphone = new Microphone({
  say,
  language: () => from.value,
  send: (message) => connection.send(message),
  sendAudio: (pcm) => socket.sendAudio(pcm),
});
const demo = new DemoControls({ say, cancel, onStart: onPlaybackStart });
const key = new AccessKey(settings);
const files = new TranscriptFiles(settings, key);
const readLanguages = new Set(); // languages that anybody has read in this meeting, while this page was open
const earlier = new EarlierLines({
  files,
  languages: () => columns.languages,
  state: () => state,
  show: (utterances) => dispatch({ type: "earlier", utterances }),
});
const moderation = new ModerationPanel(settings, {
  send: (message) => connection.send(message),
  languages: () => [...new Set([...columns.languages, ...readLanguages])],
});
const statistics = new StatisticsPanel(settings, key);
const sidePanel = new SidePanel();
sidePanel.add($("#moderation"), moderation.section);
sidePanel.add($("#statistics"), statistics.section, { onOpen: () => statistics.open(), onClose: () => statistics.close() });
const actions = new CaptionActions(captions, autoscroll, {
  role: () => document.body.dataset.role,
  send: (message) => connection.send(message),
});
let share;
let transcript; // these parts are loaded when they are first wanted, so that the first visit is small
let end; // promise of the end screen
let limits;
onFirstClick("#end", loadEnd);
onFirstClick("#share", async () => {
  const { ShareDialog } = await import("./panels/share-dialog.js");
  share = new ShareDialog(settings, key, {
    languages: () => columns.languages, offered: () => columns.offered, lines: (lang) => newestLines(lang),
  });
});
onFirstClick("#transcript", async () => {
  const { TranscriptPanel } = await import("./panels/transcript.js");
  transcript = new TranscriptPanel({ files, read: () => earlier.read(), languages: () => columns.languages, goTo });
  sidePanel.add($("#transcript"), transcript.section, { onOpen: () => transcript.offer(columns.languages) });
});
onFirstClick("#paste", async () => {
  const { PasteDialog } = await import("./playback/paste-dialog.js");
  new PasteDialog((entries, lang) => demo.play(entries, lang, STRINGS.page.pastedTitle), () => limits);
});

/** Load the End dialog and the end screen, once. */
function loadEnd() {
  end ??= import("./panels/meeting-end.js").then(({ MeetingEnd }) => new MeetingEnd(settings, {
    key, files, languages: () => [...new Set([...columns.languages, ...readLanguages])],
  }));
  return end;
}

/** Load a part of the page at the first click on its button; then the part handles that click and later ones. */
function onFirstClick(selector, load) {
  const button = $(selector);
  button.addEventListener("click", async function first() {
    button.removeEventListener("click", first);
    try {
      await load();
      button.click();
    } catch {
      button.addEventListener("click", first); // without a connection the next click tries again
    }
  });
}

/** Return the address of the next connection. */
function address(path, base) {
  const url = new URL(path, base);
  url.searchParams.set("room", settings.room);
  url.searchParams.set("role", settings.role);
  if (from.value) url.searchParams.set("from", from.value);
  if (columns.languages.length) url.searchParams.set("to", columns.languages.join());
  if (speakerName.value) url.searchParams.set("speaker", speakerName.value);
  if (ticket) url.searchParams.set("ticket", ticket);
  ticket = null; // it can be used once; later connections have a resume token
  return url;
}

function onEvent(event) {
  switch (event.type) {
    case "welcome":
      welcomed = true;
      liveAfter = event.seq;
      textInput.setLimits(event.limits);
      limits = event.limits;
      if (!columns.offered.length) {
        pairs = pairsOf(event);
        offerLanguages(event.languages);
      }
      microphone.onWelcome(event);
      moderation.onWelcome(event);
      showNotice("");
      if (readOnly && TOUCH.matches) warnOfDarkScreen();
      if (event.resumed?.ok === false) showGapNotice(event.resumed);
      break;
    case "degraded":
      $("#state").textContent = [STRINGS.page.connected, ...limitations(event)].join(" · ");
      $("#state").toggleAttribute("data-limited", limitations(event).length > 0);
      break;
    case "error":
      moderation.onError(event);
      microphone.onError(event);
      if (event.code === "stale") textInput.onEnded(event.id);
      else if (event.code === "unauthenticated") key.ask(connect); // the key has expired
      else if (event.code !== "busy" || !event.id) showNotice(errorText(event));
      break;
    case "heard":
      if (event.text) dispatch({ ...event, type: "say", speaker: speakerName.value });
      break;
    case "cancelled":
      if (event.seq && !event.lang) textInput.onEnded(event.id);
      break;
    case "settings":
      moderation.onSettings(event);
      break;
    case "presence":
      showPresence(event);
      break;
    case "final":
      if (event.flags?.includes("glossary")) {
        moderation.onMissed(state.utterances.get(`${state.epochIndex}/${event.id}`)?.text ?? "", event.text, event.lang);
      }
    // falls through
    case "edited":
      // One language only: several at once would be noise for screen readers.
      if (event.lang === columns.languages[0]) captions.announce(event.text, event.lang);
  }
  statistics.onEvent(event);
  dispatch(event.type === "source" && event.seq > liveAfter ? { ...event, at: Date.now() } : event);
}

function onState(name, detail, code) {
  const texts = {
    connecting: STRINGS.page.connecting,
    open: STRINGS.page.connected,
    waiting: STRINGS.page.waiting({ seconds: Math.ceil(detail) }),
    closed: STRINGS.page.disconnected({ reason: STRINGS.closes[code] ?? detail }),
  };
  $("#state").dataset.state = name;
  $("#state").textContent = texts[name];
  textInput.setEnabled(name !== "closed");
  $("#people").textContent = "";
  if (code === ROOM_ENDED) endMeeting();
  if (name === "waiting" || name === "closed") dispatch({ type: "broken" });
  if (name === "waiting" && !welcomed && ++failedSockets === MAX_FAILED_SOCKETS) readOverHttp();
}

/** Tell once that the screen may turn off, if the browser does not promise to keep it on. */
async function warnOfDarkScreen() {
  const sure = await screenStaysOn;
  screenStaysOn = true;
  if (!sure) showNotice(STRINGS.page.screenMayDarken);
}

/** Show that the meeting is over, and end everything that would speak in it. */
function endMeeting() {
  $("#state").textContent = STRINGS.page.ended;
  demo.stop();
  microphone.stop();
  actions.end();
  sidePanel.close();
  showNotice("");
  loadEnd().then((meetingEnd) => meetingEnd.show());
}

/** Read the meeting as server-sent events, because this network seems to block WebSockets. */
async function readOverHttp() {
  ticket = (await key.requestTicket())?.ticket ?? null;
  const stream = new EventStream(() => address(`v1/rooms/${settings.room}/events`, settings.http), {
    onState: (...change) => connection === stream && onState(...change),
    onEvent: (event) => {
      if (event.type === "welcome") {
        connection = stream;
        setRole("view");
        onState("open");
      }
      if (connection === stream) onEvent(event);
      if (event.type === "welcome" && settings.role !== "view") {
        showNotice(STRINGS.page.readOnlyNetwork, true);
      }
    },
  });
  wakeOnReturn(stream);
  stream.open();
}

/** Handle an event of the socket; one that succeeds after all replaces the event stream. */
function onSocketEvent(event) {
  if (connection !== socket && event.type === "welcome") {
    connection.close();
    connection = socket;
    setRole(settings.role);
    onState("open");
  }
  if (connection === socket) onEvent(event);
}

function setRole(role) {
  readOnly = role === "view";
  document.body.dataset.role = role;
  if (readOnly) screenStaysOn = keepScreenOn(true);
  requestRender();
}

function dispatch(event) {
  const before = state;
  state = reduce(state, event);
  if (state !== before) requestRender();
}

/** Render in the next frame, once for all events until then. */
function requestRender() {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    captions.render(state, columns.languages);
    earlier.offer();
    share?.showPreview();
    const empty = state.utterances.size === 0;
    $("#start").hidden = !empty || readOnly;
    $("#empty").hidden = !empty || !readOnly;
    $("#column-heads").hidden = empty && !readOnly;
    $("#demo-again").hidden = empty || readOnly || demo.isActive;
  });
}

/** Return the newest captions in a language, as many as the overlay shows. */
function newestLines(lang) {
  const texts = inRoomOrder(state).slice(-3).map(({ captions }) => captions[lang]).filter(Boolean);
  return texts.map(({ stable, draft }) => stable + draft).filter(Boolean);
}

/** Show a line of the transcript among the captions. */
async function goTo({ id, ord }) {
  dispatch({ type: "scrolled", back: true }); // lines are not dropped before the reader has left the newest one
  await earlier.showFrom(ord);
  if (PHONE.matches) sidePanel.close();
  requestAnimationFrame(() => captions.goTo(`${state.epochIndex}/${id}`));
}

function say(message) {
  if (!connection.send({ type: "say", ...message })) return false;
  dispatch({ type: "say", lang: from.value, ...message, speaker: message.speaker ?? speakerName.value });
  return true;
}

function cancel(id) {
  connection.send({ type: "cancel", id });
}

function onLanguages(languages) {
  connection.send({ type: "want", langs: languages });
  const url = new URL(location);
  url.searchParams.set("to", languages.join());
  history.replaceState(null, "", url);
  transcript?.offer(languages);
  requestRender();
}

/** Show languages that `lang` can be translated into, because a text in it is about to be played. */
function onPlaybackStart(lang) {
  const targets = pairs.find(({ tag }) => tag === lang)?.targets ?? [];
  const languages = columns.languages.filter((tag) => targets.includes(tag));
  if (languages.length < columns.languages.length) {
    const others = targets.filter((tag) => !languages.includes(tag));
    columns.choose([...languages, ...others].slice(0, columns.languages.length));
  }
  requestRender();
}

/** Return, in words, what does not work as usual. */
function limitations({ partials, engine }) {
  return [partials === "off" && STRINGS.page.wholeSentences, engine && STRINGS.page.backupEngine].filter(Boolean);
}

/** Show how many people are connected. It is outside the status element, so screen readers do not read it. */
function showPresence({ members, speakers, readers }) {
  for (const tag of Object.keys(readers)) readLanguages.add(tag);
  $("#people").textContent = STRINGS.page.people({ count: members });
  $("#people").title = speakers?.join(", ") ?? "";
}

/** Tell that captions may be missing, since the gateway no longer has all events of the time without a connection. */
function showGapNotice({ transcript }) {
  showNotice(STRINGS.page.gap);
  if (!transcript) return;
  const url = new URL(`.${transcript.replace(/json$/, "txt")}`, settings.http);
  url.searchParams.set("lang", columns.languages[0]);
  const anchor = element("a", "", STRINGS.page.readTranscript);
  anchor.href = url;
  anchor.target = "_blank";
  $("#notice").append(" ", anchor);
}

/** Fill the menus with the languages of the gateway. */
function offerLanguages(targets, sources = targets) {
  fillMenu(from, sources.map((tag) => ({ tag, endonym: nameOf(tag) })), settings.from ?? "en");
  columns.offer(targets);
  demo.offer(sources);
  if (welcomed) {
    connection.send({ type: "set", from: from.value });
    connection.send({ type: "want", langs: columns.languages });
  }
  requestRender();
}

/**
 * Show a notice above the text field; "" removes it.
 * @param {string} text
 * @param {boolean} permanent whether it stays, since its reason does
 */
function showNotice(text, permanent = false) {
  clearTimeout(noticeTimer);
  $("#notice").textContent = text;
  if (text && !permanent) noticeTimer = setTimeout(() => showNotice(""), NOTICE_MS);
}

/** Connect, with a ticket if the gateway asks for a key. */
async function connect() {
  const access = await key.requestTicket();
  if (!access) return key.ask(connect);
  ticket = access.ticket ?? null;
  if (access.role) setRole((settings.role = access.role));
  socket.open();
}

$("#dock-toggle").addEventListener("click", ({ currentTarget }) => {
  currentTarget.setAttribute("aria-expanded", currentTarget.getAttribute("aria-expanded") !== "true");
});

from.addEventListener("change", () => {
  connection.send({ type: "set", from: from.value });
  microphone.setLanguage(from.value);
  columns.refresh();
});

$(".brand").addEventListener("click", (event) => {
  if (!state.utterances.size || "ended" in document.body.dataset) return; // nothing is left behind
  event.preventDefault();
  $("#leave-dialog").showModal();
});

setRole(settings.role);
$("#room").textContent = settings.room;
document.title = STRINGS.page.meetingTitle({ room: settings.room });

const answer = await fetch(new URL("v1/languages", settings.http), { headers: key.headers }).catch(() => null);
if (answer?.ok) {
  pairs = (await answer.json()).languages;
  const targets = [...new Set(pairs.flatMap(({ targets }) => targets))];
  const sources = pairs.map(({ tag }) => tag);
  offerLanguages([...sources.filter((tag) => targets.includes(tag)),
                  ...targets.filter((tag) => !sources.includes(tag))], sources);
}
await connect();
if (settings.demo) demo.playDemo(settings.demo);
