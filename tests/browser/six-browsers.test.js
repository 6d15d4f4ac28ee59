// A meeting in six browsers: people speak German and Japanese, others read French, Spanish, English and Chinese. The
// gateway is restarted in the middle. At the end every row on every screen is compared with the transcript.
// With MINUTES in the environment the speakers talk that long, at the speed of people; else they say a few lines.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { chromium } from "playwright-core";
import puppeteer from "puppeteer-core";

import { CHROMIUM, PICTURES, newRoom, startGateway } from "./fixtures.js";

const LANDSCAPE = { viewport: { width: 844, height: 390 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
const DESK = { viewport: { width: 1440, height: 900 } };
const SMALL = { viewport: { width: 800, height: 600 } };

const GERMAN = [
  "Guten Morgen zusammen.", "Hat jemand die Zahlen vom letzten Monat?", "Wir haben 12,5 % mehr verkauft als im März.",
  "Das liegt vor allem an Japan.", "Könnt ihr mich noch hören?", "Die Verbindung ist weg – ich rede trotzdem weiter.",
  "Jetzt sollte sie wieder da sein.", "Dann machen wir mit Punkt 3 weiter: „Übersetzung“.", "Vielen Dank, bis Donnerstag!",
];
const JAPANESE = [
  "おはようございます。", "数字は昨日送りました。", "はい、とても良い結果です。", "ありがとうございます。", "少し待ってください。",
  "接続が切れたようですね。", "もう大丈夫です。", "翻訳の質について話しましょう。", "お疲れさまでした。",
];
const DURING_RESTART = [4, 5]; // lines that are said while there is no gateway

const MINUTES = Number(process.env.MINUTES ?? 0);
const KEY_MS = 60; // from one key to the next
const BREATH_MS = 3_000; // from one line to the next

const PEOPLE = [
  { name: "Jürgen", lang: "de", says: GERMAN, said: [], open: inChromium(DESK) },
  { name: "由美子", lang: "ja", says: JAPANESE, said: [], open: inFirefox(SMALL) },
  { lang: "fr", open: inChromium(LANDSCAPE) },
  { lang: "es", open: inFirefox(DESK) },
  { lang: "en", open: inChromium(SMALL) },
  { lang: "zh", open: inChromium(DESK) },
];

const folder = mkdtempSync(join(tmpdir(), "meeting-"));
const options = ["--scripted-pace", "0.03", "--store", `sqlite:${join(folder, "rooms.db")}`];
const room = newRoom();
const faults = [];
let gateway;

before(async () => {
  gateway = await startGateway({ options });
  await Promise.all(PEOPLE.map(async (person) => {
    const who = person.says ? { role: "speak", speaker: person.name, from: person.lang } : { role: "view" };
    Object.assign(person, await person.open(`${gateway.address}/?${new URLSearchParams({ ...who, room, to: person.lang, ui: "en" })}`));
  }));
});
after(async () => {
  await Promise.all(PEOPLE.map(({ close }) => close?.()));
  await gateway?.stop();
  rmSync(folder, { recursive: true });
});

function inChromium(screen) {
  return async (address) => {
    const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
    const page = await (await browser.newContext({ ...screen, reducedMotion: "reduce" })).newPage();
    page.on("pageerror", (error) => faults.push(error.stack));
    await page.goto(address);
    return { page, close: () => browser.close(), type: (text, delay) => page.locator("#line").pressSequentially(text, { delay }) };
  };
}

function inFirefox({ viewport }) {
  return async (address) => {
    const browser = await puppeteer.launch({ browser: "firefox", executablePath: process.env.FIREFOX, headless: true });
    const page = await browser.newPage();
    // Firefox reports a socket that fails as an error of the page.
    page.on("pageerror", ({ message }) => /^Firefox can’t establish|was interrupted while/.test(message) || faults.push(message));
    await page.setViewport(viewport);
    await page.goto(address);
    return { page, close: () => browser.close(), type: (text, delay) => page.type("#line", text, { delay }) };
  };
}

/** Wait until a function of the page returns true; both drivers can evaluate one under the page's security policy. */
async function until({ page }, condition, value) {
  while (!(await page.evaluate(condition, value))) await new Promise((resolve) => setTimeout(resolve, 50));
}

const all = (work) => Promise.all(PEOPLE.map(work));
const speakers = PEOPLE.filter(({ says }) => says);
const connected = (person) => until(person, () => document.querySelector("#state").dataset.state === "open");
const disconnected = (person) => until(person, () => document.querySelector("#state").dataset.state !== "open");

/** Type a line and send it; `typed` of it stand in the field already. */
async function say(person, text, { typed = 0, delay = 0 } = {}) {
  await person.type(text.slice(typed), delay);
  await person.page.keyboard.press("Enter");
  person.said.push(text);
}

/** Say lines of the demo meeting for some minutes. They are numbered, so that none is said twice. */
async function talk(person, minutes) {
  const file = readFileSync(new URL(`../../web_demo/meeting/${person.lang}.txt`, import.meta.url), "utf8");
  const lines = file.trim().split("\n");
  for (const end = Date.now() + 60_000 * minutes; Date.now() < end;) {
    const number = person.said.length;
    await say(person, `${number} ${lines[number % lines.length]}`, { delay: KEY_MS });
    await new Promise((resolve) => setTimeout(resolve, BREATH_MS));
  }
}

/** Wait until a screen shows the last line of each speaker, and all its captions have ended. */
function showsTheEnd(person) {
  return until(person, (lines) => {
    const shown = [...document.querySelectorAll(".caption")].map((caption) => caption.textContent);
    const waiting = document.querySelector('.caption:is([data-status="waiting"], [data-status="growing"])');
    return lines.every((line) => shown.some((text) => text.endsWith(line))) && !waiting;
  }, speakers.map(({ said }) => said.at(-1)));
}

/** Return the rows of a screen, each as [name, text]. A name that is not visible is that of the row before it. */
function rows({ page }) {
  return page.evaluate(() => {
    let last = "";
    return [...document.querySelectorAll(".row")].map((row) => {
      const name = row.querySelector(".speaker span");
      if (name.getClientRects()[0]?.width > 1) last = name.textContent;
      return [last, row.querySelector(".caption").textContent];
    });
  });
}

async function transcript(lang) {
  const answer = await fetch(`${gateway.address}/v1/rooms/${room}/transcript.json?lang=${lang}`);
  return (await answer.json()).utterances;
}

test("in a meeting of six browsers with a restart no row is missing, doubled, unnamed or unfinished", async (t) => {
  await all(connected);
  await Promise.all(speakers.map(async (person) => {
    for (const line of person.says.slice(0, DURING_RESTART[0])) await say(person, line);
    await talk(person, MINUTES / 2);
  }));
  // One speaker is in the middle of a line when the gateway goes.
  await speakers[0].type(GERMAN[4].slice(0, 13));
  await gateway.stop();
  await all(disconnected);
  await say(speakers[0], GERMAN[4], { typed: 13 });
  await Promise.all([say(speakers[0], GERMAN[5]), say(speakers[1], JAPANESE[4]).then(() => say(speakers[1], JAPANESE[5]))]);
  gateway = await startGateway({ port: gateway.port, options });
  await all(connected);
  await Promise.all(speakers.map(async (person) => {
    await talk(person, MINUTES / 2);
    for (const line of person.says.slice(DURING_RESTART.at(-1) + 1)) await say(person, line);
  }));
  await all(showsTheEnd);
  await all(({ page, lang }) => page.screenshot({ path: `${PICTURES}/six-${lang}.png` }));
  for (const { name, said } of speakers) {
    // A line of several sentences is divided into rows.
    const spoken = (await transcript("en")).filter(({ speaker }) => speaker === name).map(({ text }) => text).join("");
    assert.equal(spoken.replaceAll(" ", ""), said.join("").replaceAll(" ", ""));
  }
  for (const person of PEOPLE) {
    const expected = (await transcript(person.lang)).map(({ speaker, lang, text }) => [
      speaker, lang === person.lang ? text : `[${person.lang}] ${text}`,
    ]);
    assert.deepEqual(await rows(person), expected, person.lang);
    t.diagnostic(`${person.lang}: ${expected.length} rows, all as in the transcript`);
  }
  assert.deepEqual(faults, []);
});
