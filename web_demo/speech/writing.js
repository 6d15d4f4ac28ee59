// The writing system of a typed text, and the language that its frequent words are of. Pure.

const MIN_LETTERS = 4; // fewer say nothing: "OK", a name
const SEVERAL = { Jpan: ["Han", "Hiragana", "Katakana"], Kore: ["Hangul", "Han"], Hans: ["Han"], Hant: ["Han"] };

/** Languages of a writing system that only one of the usual languages has. */
const SCRIPTS = {
  ja: /[\p{Script=Hiragana}\p{Script=Katakana}]/u, ko: /\p{Script=Hangul}/u, zh: /\p{Script=Han}/u, ar: /\p{Script=Arabic}/u,
  he: /\p{Script=Hebrew}/u, el: /\p{Script=Greek}/u, ru: /\p{Script=Cyrillic}/u, hi: /\p{Script=Devanagari}/u, th: /\p{Script=Thai}/u,
};
/** Words that are frequent in a language. A word of several languages stands in each of them. */
const WORDS = {
  en: "the and is are we you i to of it that this have not with for what do be was they can will at on good morning hello thanks please everybody",
  de: "der die das und ist sind wir ihr sie ich zu nicht mit auf ein eine es für den dem haben hat was wie auch guten morgen hallo danke bitte heute zusammen",
  fr: "le la les et est sont nous vous je il que qui pas avec pour un une des du dans ce cette avons ne sur bonjour merci salut aujourd'hui tout monde à",
  es: "el la los las y es son nosotros que no con para un una de en lo se está tenemos hay como pero por hola gracias buenos días hoy todos muy",
  it: "il lo la gli e è sono noi che non con per un una di in si abbiamo come ma anche ciao grazie buongiorno oggi tutti questo",
  pt: "o a os as e é são nós que não com para um uma de em se temos como mas por olá obrigado bom dia hoje todos muito",
  nl: "de het een en is zijn wij we jullie ik niet met op voor dat die van te hebben heeft wat hoe ook goedemorgen hallo bedankt vandaag",
};
const FREQUENT = Object.fromEntries(Object.entries(WORDS).map(([lang, words]) => [lang, new Set(words.split(" "))]));
const MIN_WORDS = 2; // frequent ones of a language that make a guess
const LEAD = 2; // as many more than of the language that was expected

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

/**
 * Return the language that a text seems to be in, if it is another one than expected; null if nothing says so.
 * @param {string} text
 * @param {string} expected tag of the language that somebody speaks
 * @param {string[]} offered tags of the languages that can be spoken
 */
export function otherLanguageOf(text, expected, offered) {
  const base = (tag) => tag.toLowerCase().split("-")[0];
  const guess = byScript(text) ?? byWords(text, base(expected));
  if (!guess || guess === base(expected)) return null;
  return offered.find((tag) => base(tag) === guess) ?? null;
}

function byScript(text) {
  const letters = text.match(/\p{L}/gu) ?? [];
  if (SCRIPTS.ja.test(text)) return letters.length > 2 ? "ja" : null;
  const [lang] = Object.entries(SCRIPTS).find(([, script]) => letters.filter((one) => script.test(one)).length > letters.length / 2) ?? [];
  return letters.length > 2 ? lang : null;
}

function byWords(text, expected) {
  const words = new Set(text.toLowerCase().match(/[\p{L}'’]+/gu) ?? []);
  const count = (lang) => [...words].filter((word) => FREQUENT[lang]?.has(word.replace("’", "'"))).length;
  const counts = Object.keys(FREQUENT).map((lang) => [count(lang), lang]).sort(([one], [other]) => other - one);
  const [[most, lang], [next]] = counts;
  const clear = most >= MIN_WORDS && most > next && most >= count(expected) + LEAD;
  return clear ? lang : null;
}
