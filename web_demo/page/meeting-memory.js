// What this browser remembers of meetings: those that it has opened, and the one that ended in this tab.
//
// Owns: their places in the storage of the browser. The address of a meeting is the same for everybody, so it cannot say
// who opened it. A meeting that has ended is kept until its tab is closed: a reload shows it again, and everybody can
// still save what they read.
// Must not know: the document.

const OPENED = "moderated rooms";
const MAX_ROOMS = 20; // newest ones
const ENDED = "ended meeting";
const MAX_CHARACTERS = 2_000_000; // browsers allow about five million in all

function openedRooms(storage) {
  return JSON.parse(storage.getItem(OPENED) ?? "[]");
}

/** Tell whether this browser has opened a meeting, so that it moderates it. */
export function isModerator(room, storage = localStorage) {
  return openedRooms(storage).includes(room);
}

/** Remember that this browser has opened a meeting. */
export function setModerator(room, storage = localStorage) {
  const others = openedRooms(storage).filter((other) => other !== room);
  storage.setItem(OPENED, JSON.stringify([room, ...others].slice(0, MAX_ROOMS)));
}

/** Keep the captions of a meeting; the oldest are left out if there are too many. */
export function keepMeeting(room, languages, utterances, storage = sessionStorage) {
  let kept = utterances;
  let text = JSON.stringify({ room, languages, utterances: kept });
  while (text.length > MAX_CHARACTERS) {
    kept = kept.slice(Math.ceil(kept.length / 2));
    text = JSON.stringify({ room, languages, utterances: kept });
  }
  try {
    storage.setItem(ENDED, text);
  } catch {
    // The storage is full or forbidden: then a reload shows nothing.
  }
}

/** Return { languages, utterances } of a meeting that ended in this tab; null if it did not. */
export function keptMeeting(room, storage = sessionStorage) {
  const kept = JSON.parse(storage.getItem(ENDED) ?? "null");
  return kept?.room === room ? kept : null;
}

/** Forget the meeting, because somebody opens it again. */
export function forgetMeeting(storage = sessionStorage) {
  storage.removeItem(ENDED);
}
