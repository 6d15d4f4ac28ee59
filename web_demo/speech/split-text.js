// Division of a text that is longer than one utterance may be. Pure.

/** Return the number of characters as the gateway counts them: code points. */
export function lengthOf(text) {
  return [...text].length;
}

/**
 * Split a text after sentences, else between words, else between characters.
 * @param {string} text
 * @param {number} limit largest number of characters of a part
 * @returns {string[]} trimmed parts; empty if there is no text
 */
export function splitText(text, limit) {
  const parts = [""];
  for (const segment of segmentsOf(text, limit)) {
    if (lengthOf(parts.at(-1) + segment) > limit) parts.push("");
    parts[parts.length - 1] += segment;
  }
  return parts.map((part) => part.trim()).filter(Boolean);
}

function segmentsOf(text, limit, [granularity, ...finer] = ["sentence", "word", "grapheme"]) {
  if (lengthOf(text) <= limit) return [text];
  if (!granularity) return [...text]; // one grapheme over the limit
  const segments = [...new Intl.Segmenter(undefined, { granularity }).segment(text)];
  return segments.flatMap(({ segment }) => segmentsOf(segment, limit, finer));
}
