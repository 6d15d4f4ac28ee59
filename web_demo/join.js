// The page on which somebody joins a meeting as a reader and chooses a language. Query: room.

import { meetingLink, readSettings } from "./connection/meeting-url.js";
import { element } from "./page/dom.js";
import { showPage } from "./page/interface-language.js";
import { inLanguage, nameOf } from "./page/languages.js";
import { preferredOf } from "./page/pairs.js";
import { STRINGS, UI_LANGUAGE, uiNameOf, wantedLanguages } from "./page/strings.js";

const COMMON = ["en", "de", "fr", "es", "ja", "zh"]; // if the gateway does not answer

const $ = (selector) => document.querySelector(selector);
const settings = readSettings(location.search, location.href);

/** Return the tags of all languages that the gateway offers. */
async function fetchLanguages() {
  const answer = await fetch(new URL("v1/languages", settings.http)).catch(() => null);
  if (!answer?.ok) return COMMON;
  const rows = (await answer.json()).languages;
  return [...new Set(rows.flatMap(({ tag, targets }) => [tag, ...targets]))];
}

/** Sort the languages: those that the reader wants first, in that order, then English, then by name. */
function byPreference(tags) {
  const preferred = preferredOf([...wantedLanguages(), "en"], tags);
  const others = tags.filter((tag) => !preferred.includes(tag));
  return [...preferred, ...others.sort((one, other) => nameOf(one).localeCompare(nameOf(other)))];
}

function languageItem(tag, i) {
  const anchor = element("a", i ? "button" : "button primary");
  anchor.append(inLanguage(element("span", "", nameOf(tag)), tag));
  anchor.href = meetingLink(location.href, "./", settings, { role: "view", to: tag }) + location.hash; // it may hold a key
  if (!tag.startsWith(UI_LANGUAGE)) anchor.append(inLanguage(element("small", "", uiNameOf(tag)), UI_LANGUAGE));
  const item = element("li");
  item.append(anchor);
  return item;
}

$("#room").textContent = settings.name || settings.room || "";
if (settings.room) $("#languages").append(...byPreference(await fetchLanguages()).map(languageItem));
else $("#message").textContent = STRINGS.join.noMeeting;
showPage();
