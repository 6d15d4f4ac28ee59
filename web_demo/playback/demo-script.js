// The script of the demo meeting, and when a speech recogniser would give each part of it. Pure.

const WORD_S = 0.36; // 165 words a minute
const CHARACTER_S = 0.15; // the same speed in scripts without spaces
const PAUSE_S = 0.55; // between two lines of one speaker
const TURN_S = 1; // before another speaker
const UNSPACED = /^(ja|zh|th)\b/;
const PUNCTUATION = /[\s.,;:!?…。、，！？：；]+$/u; // recognisers add it last

const NAMES = { N: "Nora", J: "Jonas", P: "Peter", A: "Anna", S: "Sofia" };
/** Speakers of the lines, by the first letters of their names. */
const SPEAKERS = [
  "NNJNPJNJNN", "PPJPJNSPPJ", "NSPSPNPSSP", "PSNJAANAAS", "JNNSSJSSJN",
  "ANJNNPAAPS", "APPPPNPNSS", "JNPPNANNAJ", "ANJJPJNSJP", "NJJJJJANNN",
].join("");

/**
 * Read a script.
 * @param {string} file content of meeting/<lang>.txt, one line of speech in each
 * @returns {{speaker: string, text: string}[]}
 */
export function readScript(file) {
  const lines = file.split("\n").filter(Boolean);
  return lines.map((text, i) => ({ speaker: NAMES[SPEAKERS[i % SPEAKERS.length]], text }));
}

/**
 * Return when each text is said. A line is said word by word, each time with the whole text so far, and
 * once more when it is finished.
 * @param {{speaker: string, text: string}[]} lines
 * @param {string} lang tag of their language
 * @returns {{at: number, line: number, speaker: string, text: string, final: boolean}[]} `at` in seconds
 *   from the beginning
 */
export function timeline(lines, lang) {
  const entries = [];
  let now = 0;
  lines.forEach(({ speaker, text }, line) => {
    if (line) now += speaker === lines[line - 1].speaker ? PAUSE_S : TURN_S;
    const [words, seconds] = splitWords(text, lang);
    for (let n = 1; n < words.length; n++) {
      now += seconds;
      const partial = words.slice(0, n).join("").replace(PUNCTUATION, "");
      entries.push({ at: now, line, speaker, text: partial, final: false });
    }
    now += seconds;
    entries.push({ at: now, line, speaker, text, final: true });
  });
  return entries;
}

/** Return the index of the first entry, from index `start`, that is later than `seconds`. */
export function dueBefore(entries, start, seconds) {
  let next = start;
  while (next < entries.length && entries[next].at <= seconds) next++;
  return next;
}

/** Return what a recogniser adds at a time, and the seconds that each takes. */
function splitWords(text, lang) {
  return UNSPACED.test(lang)
    ? [text.match(/.{1,2}/gsu) ?? [], 2 * CHARACTER_S]
    : [text.match(/\s*\S+/gu) ?? [], WORD_S];
}
