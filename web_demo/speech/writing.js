// The writing system of a typed text. Pure.

const MIN_LETTERS = 4; // fewer say nothing: "OK", a name
const SEVERAL = { Jpan: ["Han", "Hiragana", "Katakana"], Kore: ["Hangul", "Han"], Hans: ["Han"], Hant: ["Han"] };

/**
 * Tell whether most letters of a text are of a writing system that a language is not written in.
 * @param {string} text
 * @param {string} lang tag of the language, or "auto"
 */
export function isOtherScript(text, lang) {
  let script;
  try {
    ({ script } = new Intl.Locale(lang).maximize());
  } catch {
    return false;
  }
  if (!script) return false;
  const own = new RegExp((SEVERAL[script] ?? [script]).map((name) => `\\p{Script=${name}}`).join("|"), "u");
  const letters = text.match(/\p{L}/gu) ?? [];
  const other = letters.filter((letter) => !own.test(letter));
  return letters.length >= MIN_LETTERS && other.length > letters.length / 2;
}
