// The language of the interface on a page: it replaces the English texts of the HTML file, which are there for
// browsers without scripts. Until `showPage` theme.css hides the page.
//
// Owns: the attributes data-text, data-title, data-label and data-placeholder; the language and the direction
// of the document; the menu of languages of the interface.
// Must not know: the parts of the page.

import { direction } from "../../clients/js/direction.js";
import { element } from "./dom.js";
import { fillMenu, nameOf } from "./languages.js";
import { STRINGS, UI_LANGUAGE, UI_LANGUAGES, changeLanguage } from "./strings.js";

const ATTRIBUTES = { title: "title", label: "aria-label", placeholder: "placeholder" };

/** Return the text of a key, such as "page.title". */
function textOf(path) {
  const [part, key] = path.split(".");
  return STRINGS[part][key];
}

/** Show a text in an element; parts in backticks become code, which is written from left to right. */
function showText(node, text) {
  node.replaceChildren(...text.split("`").map((part, i) => {
    if (i % 2 === 0) return part;
    const code = element("code", "", part);
    code.dir = "ltr";
    return code;
  }));
}

/** Show the page: its texts are in the language of its reader, and its script has filled it, so that nothing moves. */
export function showPage() {
  document.documentElement.dataset.ui = "";
}

for (const node of document.querySelectorAll("[data-text]")) showText(node, textOf(node.dataset.text));
for (const [name, attribute] of Object.entries(ATTRIBUTES)) {
  for (const node of document.querySelectorAll(`[data-${name}]`)) node.setAttribute(attribute, textOf(node.dataset[name]));
}
document.documentElement.lang = UI_LANGUAGE;
document.documentElement.dir = direction(UI_LANGUAGE);
const menu = document.querySelector("#ui-language");
if (menu) {
  fillMenu(menu, UI_LANGUAGES.map((tag) => ({ tag, endonym: nameOf(tag) })), UI_LANGUAGE);
  menu.addEventListener("change", () => changeLanguage(menu.value));
}
