// A transcript that somebody pasted: lines of text, of WebVTT or of SubRip, with or without names. Pure.

const TIMES = /^\d*:?\d{1,2}:\d{2}[.,]\d{3}\s*-->/;
const NUMBER = /^\d+$/;
const HEADER = /^(WEBVTT|NOTE|STYLE|REGION)\b/;
const VOICE = /^<v(?:\.\S+)?\s+([^>]+)>/;
const NAME = /^([\p{Lu}\p{Lo}][\p{L}.'’-]*(?: [\p{Lu}\p{Lo}][\p{L}.'’-]*){0,3})\s?[:：](?:\s+|(?<=：))/u;
const MARKUP = /<[^>]*>/g;
const LINE_S = 2.2; // between two lines, and longer for long ones
const SIGN_S = 0.045;

/** [{ speaker, text }] of what was pasted. A cue of several lines is one line. */
export function parse(pasted) {
  const rows = pasted.replace(/\r\n?/g, "\n").split("\n").map((row) => row.trim());
  const timed = rows.some((row) => TIMES.test(row));
  const said = [];
  let cue = timed ? null : [];
  const end = () => {
    if (cue?.length) said.push(named(cue.join(" ")));
    cue = timed ? null : [];
  };
  for (const row of rows) {
    if (!row || (!timed && cue.length)) end();
    if (timed && TIMES.test(row)) {
      if (cue && NUMBER.test(cue.at(-1))) cue.pop(); // SubRip without an empty line before it
      end();
      cue = [];
    } else if (row && cue && !(timed && HEADER.test(row))) {
      cue.push(row);
    }
  }
  end();
  return said.filter(({ text }) => text);
}

/** When each line is said, in the form that the player takes. */
export function timed(lines) {
  let at = 0;
  return lines.map(({ speaker, text }, line) => {
    const entry = { at, line, speaker, text, final: true };
    at += LINE_S + SIGN_S * text.length;
    return entry;
  });
}

function named(row) {
  const voice = VOICE.exec(row)?.[1];
  const bare = row.replace(MARKUP, "").trim();
  const name = voice ?? NAME.exec(bare)?.[1];
  const text = voice ? bare : bare.replace(NAME, "");
  return { speaker: name?.trim() ?? null, text: NUMBER.test(text) ? "" : text };
}
