// Captions as a reader sees them. Pure: the page's state and one event in, the new state out.
// Knows the events of docs/reference/protocol/; knows no socket and no document.
//
// An utterance: { key, id, era, ord, lang, text, speaker, final, retracted, interrupted,
//                 captions: { [lang]: caption } }; `interrupted` by the end of a connection: captions
//                 that had not begun are not on their way any more
// A caption:    { stable, draft, status, code, edited, missed }, shown as stable text followed by its
//                 draft; `edited` where a person wrote it, `missed` where it lacks a term of the glossary
//
// A long utterance is cut: its first part keeps the id (`u1`), the next are `u1.2`, `u1.3`, and each
// is an utterance here.

export const LIMIT = 1_000; // utterances kept; the oldest go first

/** `era` counts histories of rooms, which `epoch` names: in another one, ids may come again. */
export const EMPTY = { era: 0, epoch: null, utterances: new Map() };

const GROWING = "growing";
const INTERRUPTED = "interrupted"; // by a broken connection; it goes on if the room is still there
const BLANK = { stable: "", draft: "", status: GROWING, code: null };
const ENDED = ["final", "failed", "cancelled"];

/**
 * The state after an event of the server, a `say` of this page, or `broken`, the end of a connection.
 * Unknown types change nothing.
 */
export function reduce(state, event) {
  switch (event.type) {
    case "welcome":
      return welcomed(state, event);
    case "broken":
      return interrupted(state);
    case "say":
      return said(state, event);
    case "error":
      return refused(state, event);
    case "ack":
      return acknowledged(state, event);
    case "source":
      return change(state, event, (u) => ({
        ...u,
        ord: event.ord,
        lang: event.lang,
        text: event.text,
        speaker: event.speaker ?? null,
        final: true,
      }));
    case "delta":
      return caption(state, event, (c) => ({
        ...c,
        stable: (event.reset ? "" : c.stable) + (event.add ?? ""),
        draft: event.draft ?? c.draft,
        status: GROWING,
      }));
    case "final":
      return caption(state, event, () => finished(event));
    case "failed":
      return caption(state, event, () => ({ ...BLANK, status: "failed", code: event.code }));
    case "cancelled":
      return cancelled(state, event);
    case "edited":
      return edited(state, event);
    case "retracted":
      return change(state, event, ({ key, id, era, ord, final }) => ({
        ...begin(key, id, era), ord, final, retracted: true,
      }));
    case "snapshot":
      return snapshot(state, event);
    default:
      return state;
  }
}

/** The utterances in the order of the room; those whose place is not known yet come last. */
export function inOrder(state) {
  const there = [...state.utterances.values()].filter((utterance) => !utterance.retracted);
  const place = (u) => u.place ?? u;
  return there.sort((a, b) => place(a).era - place(b).era || place(a).ord - place(b).ord);
}

/** Another socket. Where it goes on where the last one ended, nothing was missed. */
function welcomed(state, { epoch, resumed }) {
  if (resumed?.ok) return { ...each(state, awaited), epoch };
  const before = interrupted(state);
  return epoch === state.epoch ? before : { ...before, epoch, era: state.era + 1 };
}

/** What this page says is shown at once, in the part that it belongs to. */
function said(state, event) {
  const { id, text } = open(state, event.id, event.text);
  return change(state, { id }, (u) => ({
    ...u, text, lang: event.lang, speaker: event.speaker ?? u.speaker,
  }));
}

/** What this page said was not taken, and will not be: it is not shown any longer. */
function refused(state, { id, retry }) {
  const key = `${state.era}/${id}`;
  if (retry || state.utterances.get(key)?.ord !== Number.MAX_VALUE) return state; // a part of it was taken
  const utterances = new Map(state.utterances);
  utterances.delete(key);
  return { ...state, utterances };
}

/** The place of the part that grows. Where it comes late, after it was said again, all is known. */
function acknowledged(state, { id, ord }) {
  const part = open(state, id);
  const late = [...state.utterances.values()].some((u) => u.ord === ord && u.era === state.era && u.final);
  return late ? state : change(state, part, (u) => ({ ...u, ord }));
}

/** The part of an utterance that has not been said to its end, and what of `text` it has. */
function open(state, root, text = "") {
  for (let n = 1; ; n++) {
    const id = n === 1 ? root : `${root}.${n}`;
    const part = state.utterances.get(`${state.era}/${id}`);
    if (!part?.final) return { id, text };
    text = part.text && text.startsWith(part.text) ? text.slice(part.text.length).trimStart() : "";
  }
}

/** A person has put another text in the place of a caption, or of the original. */
function edited(state, event) {
  const known = state.utterances.get(`${state.era}/${event.id}`);
  const original = known?.lang === event.lang;
  return change(state, event, (u) => {
    const captions = { ...u.captions };
    if (!original || captions[event.lang]) captions[event.lang] = finished(event);
    return { ...u, text: original ? event.text : u.text, captions };
  });
}

/** One utterance as it stands, in some languages. */
function snapshot(state, { id, ord, lang, text, speaker, final, lines }) {
  const shown = lines.map(({ lang, state, text, draft }) => [
    lang,
    { ...BLANK, stable: text, draft: draft ?? "", status: ENDED.includes(state) ? state : GROWING },
  ]);
  return change(state, { id }, (u) => ({
    ...u, ord, lang, text, speaker: speaker ?? null, final: final ?? false,
    captions: { ...u.captions, ...Object.fromEntries(shown) },
  }));
}

function finished({ text, by, flags }) {
  const marks = { ...(by === "human" && { edited: true }), ...(flags?.includes("glossary") && { missed: true }) };
  return { ...BLANK, stable: text, status: "final", ...marks };
}

/** The connection is gone: what it left unfinished will not come any more. */
function interrupted(state) {
  return each(state, (u) => ({ ...endGrowing(u, INTERRUPTED), interrupted: true }));
}

function awaited(utterance) {
  return utterance.interrupted ? { ...utterance, interrupted: false } : utterance;
}

function each(state, update) {
  const changed = [...state.utterances].map(([key, utterance]) => [key, update(utterance)]);
  return { ...state, utterances: new Map(changed) };
}

function cancelled(state, event) {
  const key = `${state.era}/${event.id}`;
  const utterance = state.utterances.get(key);
  if (!utterance) return state;
  if (event.lang) {
    return caption(state, event, (c) => ({ ...c, draft: "", status: "cancelled" }));
  }
  if (utterance.retracted) return state;
  const utterances = new Map(state.utterances);
  if (utterance.final) utterances.set(key, endGrowing(utterance, "cancelled"));
  else utterances.delete(key); // begun, never said to its end, taken back
  return { ...state, utterances };
}

function endGrowing(utterance, status) {
  const captions = Object.entries(utterance.captions);
  if (captions.every(([, c]) => c.status !== GROWING)) return utterance;
  const ended = captions.map(([lang, c]) => [
    lang,
    c.status === GROWING ? { ...c, draft: "", status } : c,
  ]);
  return { ...utterance, captions: Object.fromEntries(ended) };
}

function change(state, { id }, update) {
  const key = `${state.era}/${id}`;
  const utterances = new Map(state.utterances);
  let changed = awaited(update(utterances.get(key) ?? begin(key, id, state.era)));
  for (const old of state.utterances.values()) {
    if (old.era === state.era || !isAgain(old, changed, state)) continue;
    utterances.delete(old.key);
    if (old.ord < Number.MAX_VALUE && old.id === id) {
      changed = { ...changed, place: old.place ?? { era: old.era, ord: old.ord } }; // it stays where it was read
    }
    if (!old.final && !changed.text) changed = { ...changed, text: old.text, lang: old.lang, speaker: old.speaker };
  }
  utterances.set(key, changed);
  if (utterances.size > LIMIT) utterances.delete(utterances.keys().next().value);
  return { ...state, utterances };
}

/**
 * Whether `young` is the utterance `old` of an earlier history: the speaker said it again after a
 * restart, or the gateway restored it. A finished line has to have the same text, because ids that the
 * gateway gives are used again. Where a line in parts has been cut elsewhere, all its parts go.
 */
function isAgain(old, young, { utterances }) {
  const root = rootOf(old.id);
  if (root !== rootOf(young.id)) return false;
  if (!old.final) return old.id === young.id || young.final;
  if (old.id === young.id && old.text === young.text) return true;
  const cut = old.id !== root || utterances.has(`${old.era}/${root}.2`);
  const twin = utterances.get(`${old.era}/${young.id}`);
  return cut && young.final && Boolean(twin) && twin.text !== young.text;
}

function rootOf(id) {
  return id.replace(/\.\d+$/, "");
}

function begin(key, id, era) {
  return { key, id, era, ord: Number.MAX_VALUE, lang: "", text: "", speaker: null, final: false,
           retracted: false, interrupted: false, captions: {} };
}

/** Change one caption, unless it has ended: what has ended changes only when it is edited. */
function caption(state, event, update) {
  return change(state, event, (u) => {
    const before = u.captions[event.lang] ?? BLANK;
    if (ENDED.includes(before.status) || u.retracted) return u;
    return { ...u, captions: { ...u.captions, [event.lang]: update(before) } };
  });
}
