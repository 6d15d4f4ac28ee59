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
