// The pairs of languages that a gateway translates. Pure.
//
// Owns: which targets a source has, and why a target is not offered.
// Must not know: sockets, menus.

import { STRINGS, uiNameOf } from "./strings.js";

/**
 * Return the targets of each language from a `welcome`, for pages that cannot ask `/v1/languages`.
 * @param {{languages: string[], impossible?: Object<string, string[]>}} welcome
 * @returns {{tag: string, targets: string[]}[]}
 */
export function pairsOf({ languages, impossible = {} }) {
  const sources = [...new Set([...languages, ...Object.keys(impossible)])];
  return sources.map((tag) => ({
    tag, targets: languages.filter((other) => other !== tag && !impossible[tag]?.includes(other)),
  }));
}

/**
 * Return the languages of a list that somebody wants, most wanted first.
 * @param {string[]} wanted tags such as "de-AT"
 * @param {string[]} offered tags such as "de"
 */
export function preferredOf(wanted, offered) {
  const base = (tag) => tag.toLowerCase().split("-")[0];
  const find = (tag) => offered.find((other) => other.toLowerCase() === tag.toLowerCase())
    ?? offered.find((other) => base(other) === base(tag));
  return [...new Set(wanted.map(find).filter(Boolean))];
}

/**
 * Return the languages that a page reads until somebody chooses: the own one, and for the person who opens a meeting
 * another one, in which the own lines are translated.
 * @param {string[]} wanted tags, most wanted first
 * @param {string[]} offered tags of the languages that can be read
 * @param {boolean} opens whether this page opens the meeting
 */
export function firstLanguages(wanted, offered, opens) {
  const preferred = preferredOf([...wanted, "en"], offered);
  const own = preferred[0] ?? offered[0];
  const another = [...preferred, ...preferredOf(["de"], offered), ...offered].find((tag) => tag !== own);
  return [own, opens && another].filter(Boolean);
}

/**
 * Return why nothing that is said in `sources` can be read in `target`; "" if something can.
 * @param {{tag: string, targets: string[]}[]} pairs
 * @param {string[]} sources languages that are spoken
 * @param {string} target
 */
export function reasonAgainst(pairs, sources, target) {
  const known = pairs.filter(({ tag }) => sources.includes(tag));
  if (!known.length || known.some(({ tag, targets }) => tag === target || targets.includes(target))) return "";
  return known.length > 1 ? STRINGS.languages.notFromOthers : STRINGS.languages.notFrom({ language: uiNameOf(known[0].tag) });
}
