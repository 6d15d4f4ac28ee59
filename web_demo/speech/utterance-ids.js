// Ids of the utterances that this page says. Owns: the prefix that keeps ids of two pages in a room apart.

const prefix = Math.random().toString(36).slice(2, 8);
let count = 0;

/** Return an id for a new utterance. */
export function newId() {
  return `${prefix}-${++count}`;
}

/** Tell whether this page said the utterance, or the one that this id is a segment of. */
export function isOwnId(id) {
  return id.startsWith(`${prefix}-`);
}
