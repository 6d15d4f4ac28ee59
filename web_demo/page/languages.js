// Languages on a page: their names, directions of writing and menus.
//
// Owns: what a browser knows about a language tag.
// Must not know: sockets, captions.

import { direction } from "../../clients/js/direction.js";
import { element } from "./dom.js";

/** Return the name of a language in that language; the tag if the browser does not know it. */
export function nameOf(tag) {
  try {
    const name = new Intl.DisplayNames(tag, { type: "language" }).of(tag);
    return name.charAt(0).toLocaleUpperCase(tag) + name.slice(1);
  } catch {
    return tag;
  }
}

/** Mark a node as written in a language, for fonts, line breaks and screen readers. Return the node. */
export function inLanguage(node, tag) {
  if (node.lang !== tag) {
    node.lang = tag;
    node.dir = direction(tag);
  }
  return node;
}

/**
 * Fill a menu with languages and select one.
 * @param {HTMLSelectElement} select
 * @param {{tag: string, endonym: string, reason?: string}[]} languages `reason`: why it cannot be selected
 * @param {string} chosen tag to select; the first language if it is not among them
 */
export function fillMenu(select, languages, chosen) {
  const options = languages.map(({ tag, endonym, reason }) => {
    const option = inLanguage(element("option", "", reason ? `${endonym} (${reason})` : endonym), tag);
    option.value = tag;
    option.disabled = Boolean(reason);
    return option;
  });
  select.replaceChildren(...options);
  select.value = languages.some(({ tag }) => tag === chosen) ? chosen : languages[0]?.tag ?? "";
}
