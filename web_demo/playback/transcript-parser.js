// Parser of transcripts: plain text, WebVTT or SubRip, with or without names of speakers. Pure.

import { splitText } from "../speech/split-text.js";

const TIMES = /^\d*:?\d{1,2}:\d{2}[.,]\d{3}\s*-->/;
const CUE_NUMBER = /^\d+$/;
const VOICE = /^<v(?:\.\S+)?\s+([^>]+)>/;
const NAME = /^([\p{Lu}\p{Lo}][\p{L}.'’-]*(?: [\p{Lu}\p{Lo}][\p{L}.'’-]*){0,3})\s?[:：](?:\s+|(?<=：))/u;
// Tags of WebVTT and SubRip only: anything else in angle brackets is text.
const TAGS = /<\/?(?:[cbiuv]|ruby|rt|lang|font)(?:[.\s][^>]*)?>|<\d[\d:.]*>|\{\\an?\d+\}/gi;
const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&nbsp;": " ", "&lrm;": "\u200e", "&rlm;": "\u200f" };
const LINE_S = 2.2; // seconds that a line takes
const CHARACTER_S = 0.045; // added for each of its characters

/**
 * Parse a transcript. A cue of several rows is one line.
 * @param {string} text what was pasted
 * @returns {{speaker: string | null, text: string}[]}
 */
export function parseTranscript(text) {
  const rows = text.replace(/\r\n?/g, "\n").split("\n").map((row) => row.trim());
  const lines = rows.some((row) => TIMES.test(row)) ? readCues(rows).map(parseCue) : rows.map((row) => parseName(row));
  return lines.filter(({ text }) => text);
}

/** Return the text of each cue: from its times to an empty row, or to the number of the next cue. */
function readCues(rows) {
  const cues = [];
  let open = null;
  rows.forEach((row, i) => {
    if (TIMES.test(row)) cues.push((open = []));
    else if (!row || (CUE_NUMBER.test(row) && TIMES.test(rows[i + 1] ?? ""))) open = null;
    else open?.push(row);
  });
  return cues.map((lines) => lines.join(" "));
}

function parseCue(text) {
  const voice = VOICE.exec(text)?.[1];
  const bare = text.replace(TAGS, "").replace(/&\w+;/g, (entity) => ENTITIES[entity] ?? entity).trim();
  return voice ? { speaker: voice.trim(), text: bare } : parseName(bare);
}

function parseName(row) {
  return { speaker: NAME.exec(row)?.[1] ?? null, text: row.replace(NAME, "") };
}

/** Return lines of at most `limit` characters: a longer line becomes several of the same speaker. */
export function splitLongLines(lines, limit) {
  return lines.flatMap(({ speaker, text }) => splitText(text, limit).map((part) => ({ speaker, text: part })));
}

/** Return the lines as timed entries for the player. */
export function scheduleLines(lines) {
  let at = 0;
  return lines.map(({ speaker, text }, line) => {
    const entry = { at, line, speaker, text, final: true };
    at += LINE_S + CHARACTER_S * text.length;
    return entry;
  });
}
