// The meeting page: it puts together what people do on it, and tells each part what the others did.

import { Reading } from "./captions/reading.js";
import { AccessKey } from "./connection/access-key.js";
import { MeetingConnection } from "./connection/meeting-connection.js";
import { inventRoomName, readSettings } from "./connection/meeting-url.js";
import { loadStyle, onFirstClick } from "./page/dom.js";
import { showPage } from "./page/interface-language.js";
import { isModerator, keepMeeting, keptMeeting, setModerator } from "./page/meeting-memory.js";
import { firstLanguages, pairsOf } from "./page/pairs.js";
import { ROOM_ENDED, Status } from "./page/status.js";
import { STRINGS, UI_LANGUAGE, errorText, wantedLanguages } from "./page/strings.js";
import { makeToolbar } from "./page/toolbar.js";
import { DisplaySettings } from "./panels/display-settings.js";
import { People } from "./panels/people.js";
import { SidePanel } from "./panels/side-panel.js";
import { TranscriptFiles } from "./panels/transcript-files.js";
import { Speaking } from "./speech/speaking.js";
import { StartScreen } from "./start/start-screen.js";

const TOUCH = matchMedia("(pointer: coarse)");
const $ = (selector) => document.querySelector(selector);

const settings = readSettings(location.search, location.href, { role: "speak" });
const opens = !settings.room;
if (opens) {
  settings.room = inventRoomName();
  setModerator(settings.room); // others who get the address may speak
}
const url = new URL(location);
if (url.searchParams.get("room") !== settings.room) {
  url.searchParams.set("room", settings.room); // a new one, or a name that the gateway would not take
  history.replaceState(null, "", url);
}
if (settings.role === "speak" && isModerator(settings.room)) settings.role = "moderate";

let pairs = []; // what the gateway translates into what: [{ tag, targets }]
let welcome = null; // the last one
let listener = null; // promise of the voice, after it was wanted first
let screenTold = false;

const key = new AccessKey(settings);
const status = new Status(() => connection.askForKey());
const people = new People(() => reading.draw());
const connection = new MeetingConnection(settings, key, {
  query: () => ({ ...speaking.query, to: reading.columns.languages.join() }), onEvent, onState, onRole,
});
const send = (message) => connection.send(message);
const files = new TranscriptFiles(settings, key, () => reading.state);
const reading = new Reading(settings, {
  files, send, onLanguages, onListen, onRender,
  pairs: () => pairs,
  spoken: () => (role() === "view" ? "" : speaking.language.value),
  role,
});
const onDisplay = () => welcome && reading.onDisplay();
new DisplaySettings(onDisplay, { original: settings.role === "view" ? "hidden" : "shown" });
const speaking = new Speaking(settings, {
  send, sendAudio: (pcm) => connection.sendAudio(pcm),
  show: (say) => reading.dispatch(say),
  onLanguage: () => reading.columns.refresh(),
  onPlayback,
  onMicrophone: async (open) => (await listener)?.hold(open),
  onProblem: (text) => status.notice(text),
});
const start = new StartScreen(settings, key, { onName: showName, onDemo });
const sidePanel = new SidePanel();
let moderation; // promise of the panels of moderators
let share; // these parts are loaded when they are first wanted, so that the first visit is small
let transcript;
let end; // promise of the end screen
onFirstClick("#moderation", async () => {
  await loadModeration();
  sidePanel.add($("#moderation"), $("#moderation-panel"));
});
onFirstClick("#statistics", async () => {
  const { statistics } = await loadModeration();
  sidePanel.add($("#statistics"), statistics.section, { onOpen: () => statistics.open(), onClose: () => statistics.close() });
});
onFirstClick("#end", loadEnd);
onFirstClick("#present", async () => {
  const [{ Presentation }] = await Promise.all([import("./panels/presentation.js"), loadStyle("presentation")]);
  new Presentation(settings, key, { onChange: onDisplay, onBegin: () => reading.jumpToNewest() });
});
onFirstClick("#share", async () => {
  const { ShareDialog } = await styled(import("./panels/share-dialog.js"));
  const { columns } = reading;
  share = new ShareDialog(settings, key, {
    languages: () => columns.languages, offered: () => columns.offered, lines: (lang) => reading.newestLines(lang),
  });
});
onFirstClick("#transcript", async () => {
  const { TranscriptPanel } = await styled(import("./panels/transcript.js"));
  const goTo = (line) => reading.goTo(line, () => sidePanel.close());
  transcript = new TranscriptPanel({ files, languages: () => reading.columns.languages, goTo });
  sidePanel.add($("#transcript"), transcript.section, { onOpen: () => transcript.offer(reading.columns.languages) });
});
onFirstClick("#paste", async () => {
  const { PasteDialog } = await import("./playback/paste-dialog.js");
  const player = await speaking.player;
  new PasteDialog((entries, lang) => player.play(entries, lang, STRINGS.page.pastedTitle), () => speaking.limits);
});

/** Return a module of the panels, after their style. */
async function styled(loading) {
  const [module] = await Promise.all([loading, loadStyle("panels")]);
  return module;
}

/** Load the End dialog and the end screen, once. */
function loadEnd() {
  end ??= styled(import("./panels/meeting-end.js")).then(({ MeetingEnd }) => new MeetingEnd(settings, { key, files, languages: allLanguages }));
  return end;
}

/** Load the panels of moderators, once: when one of them is wanted, or with the first caption that they measure. */
function loadModeration() {
  moderation ??= styled(import("./panels/moderator-panels.js")).then(({ ModeratorPanels }) =>
    new ModeratorPanels(settings, { key, send, languages: allLanguages, welcome }));
  return moderation;
}

function onEvent(event) {
  if (event.type === "welcome") onWelcome(event);
  else if (event.type === "degraded") status.showLimits(event);
  else if (event.type === "presence") people.show(event);
  else if (event.type === "error") onError(event);
  else if (["delta", "settings"].includes(event.type) && role() === "moderate") loadModeration();
  speaking.onEvent(event);
  reading.onEvent(event);
  const original = reading.originalOf(event.id);
  moderation?.then((panels) => panels.onEvent(event, original));
  listener?.then((voice) => voice?.onEvent(event));
}

function onWelcome(event) {
  welcome = event;
  if (!reading.columns.offered.length) {
    pairs = pairsOf(event);
    offerLanguages(event.languages);
  }
  status.notice("");
  if (connection.isReadOnly && settings.role !== "view") status.notice(STRINGS.page.readOnlyNetwork, { permanent: true });
  if (event.resumed?.ok === false) showGap();
}

function onError(event) {
  if (event.code !== "stale" && (event.code !== "busy" || !event.id)) status.notice(errorText(event));
}

function onState(name, detail, code) {
  status.show(name, detail, code);
  speaking.onState(name);
  if (name === "open") people.onConnected();
  else people.show(null);
  if (name === "waiting" || name === "closed") reading.dispatch({ type: "broken" });
  if (code === ROOM_ENDED) endMeeting();
}

function onRole(role) {
  document.body.dataset.role = role;
  if (role === "view") keepScreenOn();
  reading.draw();
}

function role() {
  return document.body.dataset.role;
}

/** Keep the screen of a reader on, or tell once that it may turn off. */
async function keepScreenOn() {
  const lock = await import("./page/wake-lock.js");
  if ((await lock.keepScreenOn(true)) || !TOUCH.matches || screenTold) return;
  screenTold = true;
  status.notice(STRINGS.page.screenMayDarken, { calm: true });
}

/** Show that the meeting is over, end everything that would speak in it, and keep what was read. */
async function endMeeting() {
  const { columns, state } = reading;
  files.hasEnded = true;
  if (!reading.isEmpty) keepMeeting(settings.room, columns.languages, [...state.utterances.values()]);
  speaking.stop();
  (await listener)?.stop();
  reading.end();
  sidePanel.close();
  status.notice("");
  (await loadEnd()).show(columns.languages);
}

function onLanguages(languages) {
  send({ type: "want", langs: languages });
  const address = new URL(location);
  address.searchParams.set("to", languages.join());
  history.replaceState(null, "", address);
  transcript?.offer(languages);
}

/** Read the captions of a language aloud, or none. */
async function onListen(lang) {
  if (!listener) speechSynthesis.speak(new SpeechSynthesisUtterance("")); // telephones allow speech from a touch on
  listener ??= import("./listening/listener.js").then(({ Listener }) => new Listener({
    onChange: (heard) => reading.columns.showHeard(heard),
    onNotice: (text) => status.notice(text, { calm: true }),
  }));
  const voice = await listener;
  if (lang) voice.start(lang, reading.state);
  else voice.stop();
}

/** Play the demo meeting, after a question if others are here: they would read invented people. */
async function onDemo(lang) {
  if ((await people.known()) > 1 && !(await ask("#demo-dialog"))) return;
  (await speaking.player).playDemo(lang);
}

/** Show languages that `lang` can be translated into, because a text in it is about to be played. */
function onPlayback(lang) {
  const { columns } = reading;
  const targets = pairs.find(({ tag }) => tag === lang)?.targets ?? [];
  const languages = columns.languages.filter((tag) => tag === lang || targets.includes(tag));
  if (languages.length < columns.languages.length) {
    const others = targets.filter((tag) => !languages.includes(tag));
    columns.choose([...languages, ...others].slice(0, columns.languages.length));
  }
}

function onRender() {
  const [empty, readOnly] = [reading.isEmpty, role() === "view"];
  share?.showPreview();
  start.show({ empty, readOnly, alone: people.count === 1 });
  $("#column-heads").hidden = empty && !readOnly;
}

/** Return the languages that anybody has read in this meeting, while this page was open. */
function allLanguages() {
  return [...new Set([...reading.columns.languages, ...people.languages])];
}

/** Tell that captions may be missing, with the way to all lines that are known. */
function showGap() {
  const button = document.createElement("button");
  button.className = "link";
  button.textContent = STRINGS.page.readTranscript;
  button.addEventListener("click", () => $("#transcript").click());
  status.notice(STRINGS.page.gap).append(" ", button);
}

/** Fill the menus with the languages of the gateway. */
function offerLanguages(targets, sources = targets) {
  speaking.language.offer(sources);
  const own = [speaking.language.value, ...wantedLanguages()];
  reading.columns.offer(targets, firstLanguages(role() === "view" ? wantedLanguages() : own, targets, opens));
  start.offer(sources, speaking.language.value);
  if (welcome) {
    send({ type: "set", from: speaking.language.value });
    send({ type: "want", langs: reading.columns.languages });
  }
  reading.draw();
}

function showName(name) {
  $("#room").textContent = name || settings.room;
  document.title = STRINGS.page.meetingTitle({ room: name || settings.room });
}

/** Ask a question in a dialog; return whether it was answered with yes. */
function ask(selector) {
  const dialog = $(selector);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

$("#dock-toggle").addEventListener("click", ({ currentTarget }) => {
  currentTarget.setAttribute("aria-expanded", currentTarget.getAttribute("aria-expanded") !== "true");
});
$(".brand").addEventListener("click", async (event) => {
  if (reading.isEmpty || "ended" in document.body.dataset) return; // nothing is left behind
  event.preventDefault();
  $("#leave-dialog").showModal();
});
makeToolbar($(".tools"));
addEventListener("beforeprint", () => {
  const day = new Intl.DateTimeFormat(UI_LANGUAGE, { dateStyle: "full", timeStyle: "short" }).format(new Date());
  $("#print-head").textContent = `${settings.name || settings.room} · ${day}`;
});

document.body.dataset.role = settings.role;
showName(settings.name);
const kept = keptMeeting(settings.room);
if (kept) {
  reading.restore(kept.utterances, kept.languages);
  status.show("closed", "", ROOM_ENDED);
  await endMeeting();
  showPage();
} else {
  onRole(settings.role);
  const answer = await fetch(new URL("v1/languages", settings.http), { headers: key.headers }).catch(() => null);
  if (answer?.ok) {
    pairs = (await answer.json()).languages;
    const targets = [...new Set(pairs.flatMap((pair) => pair.targets))];
    const sources = pairs.map(({ tag }) => tag);
    offerLanguages([...sources.filter((tag) => targets.includes(tag)), ...targets.filter((tag) => !sources.includes(tag))], sources);
  }
  showPage();
  await connection.open();
  if (settings.demo) (await speaking.player).playDemo(start.demoLanguage(settings.demo));
}
