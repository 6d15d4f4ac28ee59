// The page on which one joins a meeting to read it: choose a language. Query: room, gateway.

import { link, read } from "./address.js";
import { element, inLanguage, nameOf } from "./languages.js";

const COMMON = ["en", "de", "fr", "es", "ja", "zh"]; // where the gateway's HTTP cannot be asked

const $ = (selector) => document.querySelector(selector);
const here = read(location.search, location.origin);

async function languages() {
  const answer = await fetch(new URL("/v1/languages", here.http)).catch(() => null);
  if (!answer?.ok) return COMMON;
  const rows = (await answer.json()).languages;
  return [...new Set(rows.flatMap(({ tag, targets }) => [tag, ...targets]))];
}

/** Those of this browser's user first, in the user's order. */
function sorted(tags) {
  const base = (tag) => tag.split("-")[0];
  const wished = navigator.languages.map(base);
  const place = (tag) => (wished.includes(base(tag)) ? wished.indexOf(base(tag)) : Infinity);
  return [...tags].sort((a, b) => place(a) - place(b) || nameOf(a).localeCompare(nameOf(b)));
}

function choice(tag, i) {
  const anchor = element("a", i ? "button" : "button primary", nameOf(tag));
  inLanguage(anchor, tag);
  anchor.href = link(location.href, "./", here, { role: "view", to: tag }) + location.hash; // it may have a key
  const known = new Intl.DisplayNames("en", { type: "language" }).of(tag);
  if (known !== nameOf(tag)) anchor.append(inLanguage(element("small", "", known), "en"));
  const item = element("li");
  item.append(anchor);
  return item;
}

$("#room").textContent = here.room ?? "";
if (here.room) $("#languages").append(...sorted(await languages()).map(choice));
else $("#message").textContent = "This address names no meeting. Scan the code again, or ask for the link.";
