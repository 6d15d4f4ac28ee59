// The captions of a room as a reader sees them. Pure.
//
// Owns: the state of the page's captions, and how each event of docs/reference/protocol/ changes it.
// Must not know: sockets, the document.
//
// An utterance: { key, id, epochIndex, ord, lang, text, speaker, final, retracted, interrupted, position,
//                 at, edited, captions: { [lang]: caption } } and what else the `source` states, such as `t0`
//   edited: optional, a person corrected the original
//   interrupted: the connection ended, so captions that had not begun are not expected any more
//   at: milliseconds since 1970 at which its original was finished; null if the page does not know
//   position: optional { epochIndex, ord }, where the utterance was shown before a restart
// A caption:    { stable, draft, status, code, edited, unsure, numbersLost, termMissing, pivot, engine }, shown as `stable` followed by `draft`
//   edited: written by a person; unsure: the model was unsure of its words;
//   numbersLost: lacks or changes a number, a time or a currency of the original;
//   termMissing: lacks a term of the glossary; pivot: language through which it was made; engine: name of the engine
//   that made it, if it is not the one in `welcome`
//
// A long utterance is divided into segments. The first keeps the id (`u1`), the next are `u1.2` and
// `u1.3`; each is an utterance here.

/** Largest number of utterances kept; the oldest go first. While somebody reads earlier ones, none goes. */
export const MAX_UTTERANCES = 1_000;

/**
 * State before the first event. `epochIndex` counts the epochs of the room: in another one, ids may be used again.
 * `readsEarlier`: whether the reader has scrolled back.
 */
export const EMPTY_STATE = { epochIndex: 0, epoch: null, utterances: new Map(), readsEarlier: false };

const GROWING = "growing";
const INTERRUPTED = "interrupted"; // by a broken connection; it continues if the room still exists
const MISSING = "missing"; // nobody read this language when it was said
const BLANK = { stable: "", draft: "", status: GROWING, code: null };
const SILENT = "silent"; // the original only fills a pause ("um")
const ENDED = ["final", "failed", "cancelled", SILENT];
const UNKNOWN_ORD = Number.MAX_VALUE; // sorts after every known one

/**
 * Return the state after an event. The given state is not changed.
 * @param {object} state
 * @param {object} event an event of the server, a `say` of this page, or one of these. Unknown types change nothing.
 *   `broken`: the connection ended
 *   `scrolled`: the reader scrolled back (`back`) or returned to the newest captions
 *   `earlier`: `utterances` of the room's transcript, oldest first, with `at`, `captions` and the fields of a `source`
 */
export function reduce(state, event) {
  switch (event.type) {
    case "welcome":
      return applyWelcome(state, event);
    case "broken":
      return interruptAll(state);
    case "scrolled":
      return dropOldest({ ...state, readsEarlier: event.back });
    case "earlier":
      return applyEarlier(state, event.utterances);
    case "say":
      return applySay(state, event);
    case "error":
      return applyError(state, event);
    case "ack":
      return applyAck(state, event);
    case "source":
      return updateUtterance(state, event, (u) => ({
        ...u,
        ...statement(event),
        ord: event.ord,
        lang: event.lang,
        text: event.text,
        final: true,
        at: u.at ?? event.at ?? null,
      }));
    case "delta":
      return updateCaption(nameSpeaker(state, event), event, (c) => ({
        ...c,
        stable: (event.reset ? "" : c.stable) + (event.add ?? ""),
        draft: event.draft ?? c.draft,
        status: GROWING,
      }));
    case "final":
      // A late reader may be sent the caption of a line before the first one: without its original it has no place.
      return isKnown(state, event) ? updateCaption(state, event, () => finishedCaption(event)) : state;
    case "failed":
      if (!isKnown(state, event)) return state;
      return updateCaption(state, event, () => ({ ...BLANK, status: "failed", code: event.code }));
    case "cancelled":
      return applyCancelled(state, event);
    case "edited":
      return applyEdited(state, event);
    case "retracted":
      // Its texts are dropped: nothing of a retracted utterance is kept.
      return updateUtterance(state, event, ({ key, id, epochIndex, ord, final }) => ({
        ...newUtterance(key, id, epochIndex), ord, final, retracted: true,
      }));
    case "snapshot":
      return applySnapshot(state, event);
    default:
      return state;
  }
}

/** Return the utterances to show in the order of the room; those without a known place come last. */
export function inRoomOrder(state) {
  const shown = [...state.utterances.values()].filter((utterance) => !utterance.retracted);
  const position = (u) => u.position ?? u;
  return shown.sort((a, b) => position(a).epochIndex - position(b).epochIndex || position(a).ord - position(b).ord);
}

/**
 * Return what a reader of a language is shown of an utterance.
 * @returns a caption with `lang`. Without a translation it has the original, and `status` says why
 */
export function captionIn(utterance, lang) {
  const caption = utterance.captions[lang] ?? { ...BLANK, status: utterance.interrupted ? INTERRUPTED : GROWING };
  const untranslated = ["failed", MISSING].includes(caption.status) || (caption.status === INTERRUPTED && !caption.stable);
  return untranslated ? { ...caption, lang: utterance.lang, stable: utterance.text, draft: "" } : { ...caption, lang };
}

/** Start with another socket. If it resumes the last one, nothing was missed. */
function applyWelcome(state, { epoch, resumed }) {
  if (resumed?.ok) return { ...updateAll(state, expectAgain), epoch };
  const before = interruptAll(state);
  return epoch === state.epoch ? before : { ...before, epoch, epochIndex: state.epochIndex + 1 };
}

/** Add utterances of the transcript that are not here, and what it knows about those that are. */
function applyEarlier(state, entries) {
  const shown = new Set([...state.utterances.values()].map(({ id, text }) => `${id} ${text}`)); // of any epoch
  const known = new Map(state.utterances);
  const added = [];
  for (const entry of entries) {
    const { id, ord, lang, text, at, captions } = entry;
    const key = `${state.epochIndex}/${id}`;
    const before = known.get(key);
    if (before) known.set(key, completed(before, at, captions));
    else if (!shown.has(`${id} ${text}`)) {
      const blank = { ...newUtterance(key, id, state.epochIndex), ...statement(entry), ord, lang, text, final: true };
      const lacking = Object.entries(captions).filter(([, caption]) => !caption.text);
      const ended = Object.fromEntries(lacking.map(([tag, caption]) => [tag, untranslated(caption)]));
      added.push([key, completed({ ...blank, captions: ended }, at, captions)]);
    }
  }
  return { ...state, utterances: new Map([...added, ...known]) };
}

/** Return an utterance with the time and the finished captions that it lacks; others may be on their way. */
function completed(utterance, at, captions) {
  const lacking = Object.entries(captions).filter(([lang, { text }]) => text && !utterance.captions[lang]);
  if (!lacking.length && (utterance.at || !at)) return utterance; // same object: its row is not drawn
  const found = lacking.map(([lang, caption]) => [lang, finishedCaption(caption)]);
  return { ...utterance, at: utterance.at ?? at, captions: { ...utterance.captions, ...Object.fromEntries(found) } };
}

/** Return a caption of the transcript without a text: it failed, or nobody read its language then. */
function untranslated({ state, code }) {
  return { ...BLANK, status: ENDED.includes(state) ? state : MISSING, code: code ?? null };
}

/** Drop the oldest utterances over the limit, unless they are being read. */
function dropOldest(state) {
  const over = state.utterances.size - MAX_UTTERANCES;
  if (over <= 0 || state.readsEarlier) return state;
  return { ...state, utterances: new Map([...state.utterances].slice(over)) };
}

/** Show what this page says at once, in the segment that it belongs to. */
function applySay(state, event) {
  const { id, text } = growingSegment(state, event.id, event.text);
  return updateUtterance(state, { id }, (u) => ({
    ...u, text, lang: event.lang, speaker: event.speaker || u.speaker,
  }));
}

/** Remove an utterance of this page that the gateway refused for good. */
function applyError(state, { id, retry }) {
  const key = `${state.epochIndex}/${id}`;
  // With a known place, a part of it was accepted: that part stays.
  if (retry || state.utterances.get(key)?.ord !== UNKNOWN_ORD) return state;
  const utterances = new Map(state.utterances);
  utterances.delete(key);
  return { ...state, utterances };
}

/** Record the place of the growing segment. */
function applyAck(state, { id, ord }) {
  const segment = growingSegment(state, id);
  // An `ack` of a message that was sent twice may come after the `source`: then all is known.
  const known = [...state.utterances.values()].some((u) => u.ord === ord && u.epochIndex === state.epochIndex && u.final);
  return known ? state : updateUtterance(state, segment, (u) => ({ ...u, ord }));
}

/** Return { id, text }: the unfinished segment of an utterance, and what of `text` it contains. */
function growingSegment(state, root, text = "") {
  for (let n = 1; ; n++) {
    const id = n === 1 ? root : `${root}.${n}`;
    const segment = state.utterances.get(`${state.epochIndex}/${id}`);
    if (!segment?.final) return { id, text };
    text = segment.text && text.startsWith(segment.text) ? text.slice(segment.text.length).trimStart() : "";
  }
}

/**
 * Return the details that a speaker stated beside a text: `speaker`, `t0`, and what a newer gateway adds.
 * @param {object} message a `source`, a `snapshot` or an utterance of the transcript
 */
function statement(message) {
  const { type, seq, id, rev, ord, lang, text, final, ref, at, begin, end, lines, captions, speaker, ...others } = message;
  return { ...others, speaker: speaker ?? null };
}

function isKnown({ epochIndex, utterances }, { id }) {
  return utterances.has(`${epochIndex}/${id}`);
}

/** Show who speaks from the first text on: a caption names its speaker before the `source` comes. */
function nameSpeaker(state, event) {
  const known = state.utterances.get(`${state.epochIndex}/${event.id}`);
  if (!event.speaker || known?.retracted || known?.speaker === event.speaker || known?.final) return state;
  return updateUtterance(state, event, (u) => ({ ...u, speaker: event.speaker }));
}

/** Replace the text of a caption or of the original by what a person wrote. */
function applyEdited(state, event) {
  if (!isKnown(state, event)) return state;
  const known = state.utterances.get(`${state.epochIndex}/${event.id}`);
  const original = known.lang === event.lang;
  return updateUtterance(state, event, (u) => {
    const captions = { ...u.captions };
    // The original is also a caption for those who read that language.
    if (!original || captions[event.lang]) captions[event.lang] = finishedCaption(event);
    return { ...u, ...(original && { text: event.text, edited: true }), captions };
  });
}

/**
 * Show an utterance as it is, in the languages that the snapshot has. Its original is left out while it
 * grows, unless this page says it: what is said next comes with the `source` at its end only.
 */
function applySnapshot(state, event) {
  const { id, ord, lang, text, final, lines } = event;
  const captions = lines.map(({ lang, state, text, draft }) => [
    lang,
    { ...BLANK, stable: text, draft: draft ?? "", status: ENDED.includes(state) ? state : GROWING },
  ]);
  return updateUtterance(state, { id }, (u) => ({
    ...u, ...statement(event), ord, lang, text: final ? text : u.text, final: final ?? false,
    captions: { ...u.captions, ...Object.fromEntries(captions) },
  }));
}

/** Return the caption of a `final`. */
export function finishedCaption({ text, by, flags }) {
  const pivot = flags?.find((flag) => flag.startsWith("pivot:"))?.slice("pivot:".length);
  const engine = flags?.find((flag) => flag.startsWith("engine:"))?.slice("engine:".length);
  const marks = {
    ...(by === "human" && { edited: true }), ...(flags?.includes("unsure") && { unsure: true }),
    ...(flags?.includes("numbers") && { numbersLost: true }),
    ...(flags?.includes("glossary") && { termMissing: true }), ...(pivot && { pivot }), ...(engine && { engine }),
  };
  return { ...BLANK, stable: text, status: "final", ...marks };
}

/** End everything that grows, because the connection is gone. */
function interruptAll(state) {
  return updateAll(state, (u) => ({ ...endGrowing(u, INTERRUPTED), interrupted: true }));
}

function expectAgain(utterance) {
  return utterance.interrupted ? { ...utterance, interrupted: false } : utterance;
}

function updateAll(state, update) {
  const changed = [...state.utterances].map(([key, utterance]) => [key, update(utterance)]);
  return { ...state, utterances: new Map(changed) };
}

function applyCancelled(state, event) {
  const key = `${state.epochIndex}/${event.id}`;
  const utterance = state.utterances.get(key);
  if (!utterance) return state;
  if (event.lang) {
    const status = event.was === "none" ? SILENT : "cancelled";
    return updateCaption(state, event, (c) => ({ ...c, draft: "", status }));
  }
  if (utterance.retracted) return state;
  const utterances = new Map(state.utterances);
  if (utterance.final) utterances.set(key, endGrowing(utterance, "cancelled"));
  else utterances.delete(key); // it was never finished, so there is nothing to read
  return { ...state, utterances };
}

function endGrowing(utterance, status) {
  const captions = Object.entries(utterance.captions);
  if (captions.every(([, c]) => c.status !== GROWING)) return utterance; // same object: its row is not drawn
  const ended = captions.map(([lang, c]) => [
    lang,
    c.status === GROWING ? { ...c, draft: "", status } : c,
  ]);
  return { ...utterance, captions: Object.fromEntries(ended) };
}

/** Change one utterance, or begin it; drop those of an earlier epoch that it replaces. */
function updateUtterance(state, { id }, update) {
  const key = `${state.epochIndex}/${id}`;
  const utterances = new Map(state.utterances);
  let changed = expectAgain(update(utterances.get(key) ?? newUtterance(key, id, state.epochIndex)));
  for (const old of state.utterances.values()) {
    if (old.epochIndex === state.epochIndex || !isRepetition(old, changed, state)) continue;
    utterances.delete(old.key);
    // It stays where it was read, although the new epoch may number it otherwise.
    if (old.ord < UNKNOWN_ORD && old.id === id) {
      changed = { ...changed, position: old.position ?? { epochIndex: old.epochIndex, ord: old.ord } };
    }
    if (!old.final && !changed.text) changed = { ...changed, text: old.text, lang: old.lang, speaker: old.speaker };
  }
  utterances.set(key, changed);
  return dropOldest({ ...state, utterances });
}

/**
 * Tell whether `current` is the utterance `old` of an earlier epoch: this page sent it again after a
 * restart, or the gateway restored it. A finished one must have the same text, because the gateway uses
 * its ids again. If the utterance is divided at other places now, all its old segments are replaced.
 */
function isRepetition(old, current, { utterances }) {
  const root = rootId(old.id);
  if (root !== rootId(current.id)) return false;
  if (!old.final) return old.id === current.id || current.final;
  if (old.id === current.id && old.text === current.text) return true;
  const divided = old.id !== root || utterances.has(`${old.epochIndex}/${root}.2`);
  const sameId = utterances.get(`${old.epochIndex}/${current.id}`);
  return divided && current.final && Boolean(sameId) && sameId.text !== current.text;
}

function rootId(id) {
  return id.replace(/\.\d+$/, "");
}

function newUtterance(key, id, epochIndex) {
  return { key, id, epochIndex, ord: UNKNOWN_ORD, lang: "", text: "", speaker: null, final: false, at: null,
           retracted: false, interrupted: false, captions: {} };
}

/** Change one caption, unless it has ended: then only an edit changes it. */
function updateCaption(state, event, update) {
  return updateUtterance(state, event, (u) => {
    const before = u.captions[event.lang] ?? BLANK;
    if (ENDED.includes(before.status) || u.retracted) return u;
    return { ...u, captions: { ...u.captions, [event.lang]: update(before) } };
  });
}
