// A text that is longer than one line may be, in pieces. Pure.

/** Number of characters as the gateway counts them: code points. */
export function lengthOf(text) {
  return [...text].length;
}

/**
 * Cut `text` into pieces of at most `limit` characters: behind a sentence where it can be, else between
 * words, else anywhere.
 */
export function pieces(text, limit) {
  const found = [""];
  for (const part of parts(text, limit)) {
    if (lengthOf(found.at(-1) + part) > limit) found.push("");
    found[found.length - 1] += part;
  }
  return found.map((piece) => piece.trim()).filter(Boolean);
}

function parts(text, limit, [granularity, ...finer] = ["sentence", "word", "grapheme"]) {
  if (lengthOf(text) <= limit) return [text];
  if (!granularity) return [...text];
  const segments = [...new Intl.Segmenter(undefined, { granularity }).segment(text)];
  return segments.flatMap(({ segment }) => parts(segment, limit, finer));
}
