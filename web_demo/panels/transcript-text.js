// Transcripts of the lines that a page holds, in the formats of the gateway. Pure.
//
// The gateway writes them (gateway/transcripts) while it has all lines. After a restart without a store, and after the
// end of a meeting, this page has more of them.

const LINE_MS = 400; // shortest time that a line is shown as a subtitle
const CHARACTER_MS = 60; // for each of its characters

/**
 * Return what a transcript says of the utterances of clients/js/captions.js.
 * @param {object[]} utterances in the order of the room
 * @returns {object[]} the finished ones, with `captions` as { [lang]: { text } }
 */
export function linesOf(utterances) {
  return utterances.filter(({ final, text }) => final && text).map(({ captions, ...line }) => ({
    ...line,
    captions: Object.fromEntries(Object.entries(captions)
      .filter(([, { status, stable }]) => status === "final" && stable)
      .map(([lang, { stable }]) => [lang, { text: stable }])),
  }));
}

/**
 * Return a file with lines in a language; a line without a caption is shown as its original, marked.
 * @param {string} format vtt, srt, txt or json
 * @param {string} lang tag of the language; "" is the original
 * @param {object[]} lines of `linesOf`
 * @param {{room: string, name?: string}} settings
 */
export function writeTranscript(format, lang, lines, { room, name = "" }) {
  if (format === "json") return JSON.stringify({ room, name, languages: lang ? [lang] : [], utterances: lines });
  const began = Math.min(...lines.map(({ at }) => at ?? Infinity));
  let last = 0;
  const cues = lines.map((line) => {
    const end = line.at ? Math.max(line.at - began, last) : last; // a line from before this page joined has no time
    last = end;
    return { speaker: line.speaker ?? "", text: textOf(line, lang), end, begin: Math.max(0, end - durationOf(line)) };
  });
  return WRITERS[format](cues);
}

function textOf({ lang: original, text, captions }, lang) {
  if (!lang || lang === original) return plain(text);
  return captions[lang] ? plain(captions[lang].text) : `[${original}] ${plain(text)}`;
}

/** Return a text on one line, without the arrow that separates times. */
function plain(text) {
  return text.replace(/\s+/g, " ").replaceAll("-->", "→").trim();
}

function durationOf({ text }) {
  return LINE_MS + CHARACTER_MS * [...text].length;
}

const WRITERS = {
  txt: (cues) => cues.map(({ begin, speaker, text }) =>
    `[${clock(begin).slice(0, 8)}] ${speaker ? `${plain(speaker)}: ` : ""}${text}\n`).join(""),
  vtt: (cues) => `WEBVTT\n\n${cues.map(({ begin, end, speaker, text }, i) =>
    `${i + 1}\n${clock(begin)} --> ${clock(end + LINE_MS)}\n${speaker ? `<v ${escaped(plain(speaker))}>` : ""}${escaped(text)}\n\n`).join("")}`,
  srt: (cues) => cues.map(({ begin, end, speaker, text }, i) =>
    `${i + 1}\n${clock(begin, ",")} --> ${clock(end + LINE_MS, ",")}\n${speaker ? `${plain(speaker)}: ` : ""}${text}\n\n`).join(""),
};

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** Write milliseconds as 01:02:03.004. */
function clock(ms, point = ".") {
  return new Date(Math.round(ms)).toISOString().slice(11, 23).replace(".", point);
}
