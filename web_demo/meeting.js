// The demo meeting: a hundred lines, and when a speech recogniser would have told what of each. Pure.

const WORD_S = 0.36; // of speech: 165 words a minute
const SIGN_S = 0.15; // the same in scripts that are written without spaces
const PAUSE_S = 0.55; // between two lines of one speaker
const TURN_S = 1; // before another one begins
const UNSPACED = /^(ja|zh|th)\b/;
const TAIL = /[\s.,;:!?…。、，！？：；]+$/u; // recognisers put in the punctuation last

const NAMES = { N: "Nora", J: "Jonas", P: "Peter", A: "Anna", S: "Sofia" };
const CAST = [
  "NJNJPNNNNN", "NJNNPPJPPJ", "NSPSPNPSSP", "PSNJAANAAS", "JNNSSJSSJN",
  "ANJNNPAAPS", "APPPPNPNSS", "JNPPNANNAJ", "ANJJPJNSJP", "NJJJJJANNN",
].join("");

/** The lines of meeting/<lang>.txt with those who say them. */
export function readScript(file) {
  const lines = file.split("\n").filter(Boolean);
  return lines.map((text, i) => ({ speaker: NAMES[CAST[i % CAST.length]], text }));
}

/**
 * What is said when: [{ at, line, speaker, text, final }], `at` in seconds from the beginning. A line is
 * said word by word, each time the whole text so far, and once more when it has ended.
 */
export function timeline(lines, lang) {
  const said = [];
  let now = 0;
  lines.forEach(({ speaker, text }, line) => {
    if (line) now += speaker === lines[line - 1].speaker ? PAUSE_S : TURN_S;
    const [pieces, seconds] = split(text, lang);
    for (let n = 1; n < pieces.length; n++) {
      now += seconds;
      const partial = pieces.slice(0, n).join("").replace(TAIL, "");
      said.push({ at: now, line, speaker, text: partial, final: false });
    }
    now += seconds;
    said.push({ at: now, line, speaker, text, final: true });
  });
  return said;
}

/** Index of the first entry after `seconds`; those before it are due. */
export function due(said, from, seconds) {
  let next = from;
  while (next < said.length && said[next].at <= seconds) next++;
  return next;
}

function split(text, lang) {
  return UNSPACED.test(lang)
    ? [text.match(/.{1,2}/gsu) ?? [], 2 * SIGN_S]
    : [text.match(/\s*\S+/gu) ?? [], WORD_S];
}
