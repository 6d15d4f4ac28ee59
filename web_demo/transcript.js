// A transcript that somebody pasted: lines of text, of WebVTT or of SubRip, with or without names. Pure.

import { pieces } from "./pieces.js";

const TIMES = /^\d*:?\d{1,2}:\d{2}[.,]\d{3}\s*-->/;
const NUMBER = /^\d+$/;
const VOICE = /^<v(?:\.\S+)?\s+([^>]+)>/;
const NAME = /^([\p{Lu}\p{Lo}][\p{L}.'’-]*(?: [\p{Lu}\p{Lo}][\p{L}.'’-]*){0,3})\s?[:：](?:\s+|(?<=：))/u;
const MARKUP = /<\/?(?:[cbiuv]|ruby|rt|lang|font)(?:[.\s][^>]*)?>|<\d[\d:.]*>|\{\\an?\d+\}/gi; // of WebVTT and SubRip; all else was said
const ESCAPED = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&nbsp;": " ", "&lrm;": "\u200e", "&rlm;": "\u200f" };
const LINE_S = 2.2; // between two lines, and longer for long ones
const SIGN_S = 0.045;

/** [{ speaker, text }] of what was pasted. A cue of several lines is one line. */
export function parse(pasted) {
  const rows = pasted.replace(/\r\n?/g, "\n").split("\n").map((row) => row.trim());
  const said = rows.some((row) => TIMES.test(row)) ? cues(rows).map(cue) : rows.map((row) => named(row));
  return said.filter(({ text }) => text);
}

/** The text of each cue: what stands between its times and an empty line, or the number of the next cue. */
function cues(rows) {
  const found = [];
  let open = null;
  rows.forEach((row, i) => {
    if (TIMES.test(row)) found.push((open = []));
    else if (!row || (NUMBER.test(row) && TIMES.test(rows[i + 1] ?? ""))) open = null;
    else open?.push(row);
  });
  return found.map((lines) => lines.join(" "));
}

function cue(text) {
  const voice = VOICE.exec(text)?.[1];
  const bare = text.replace(MARKUP, "").replace(/&\w+;/g, (escaped) => ESCAPED[escaped] ?? escaped).trim();
  return voice ? { speaker: voice.trim(), text: bare } : named(bare);
}

function named(row) {
  return { speaker: NAME.exec(row)?.[1] ?? null, text: row.replace(NAME, "") };
}

/** `lines`, each with at most `limit` characters: a longer one becomes several. */
export function fitted(lines, limit) {
  return lines.flatMap(({ speaker, text }) => pieces(text, limit).map((piece) => ({ speaker, text: piece })));
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
