// A meeting in six browsers: people speak German and Japanese, others read French, Spanish, English and Chinese. The
// gateway is restarted in the middle. At the end every row on every screen is compared with the transcript.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
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

const PEOPLE = [
  { name: "Jürgen", lang: "de", says: GERMAN, open: inChromium(DESK) },
  { name: "由美子", lang: "ja", says: JAPANESE, open: inFirefox(SMALL) },
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
    return { page, close: () => browser.close(), type: (text) => page.locator("#line").pressSequentially(text) };
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
    return { page, close: () => browser.close(), type: (text) => page.type("#line", text) };
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

async function say(person, text) {
  await person.type(text);
  await person.page.keyboard.press("Enter");
}

/** Wait until a screen has as many rows, and all its captions have ended. */
function shows(person, count) {
  return until(person, (count) => {
    const waiting = document.querySelector('.caption:is([data-status="waiting"], [data-status="growing"])');
    return document.querySelectorAll(".row").length >= count && !waiting;
  }, count);
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

test("in a meeting of six browsers with a restart no row is missing, doubled, unnamed or unfinished", async () => {
  await all(connected);
  for (const person of speakers) person.spoken = (async () => {
    for (const line of person.says.slice(0, DURING_RESTART[0])) await say(person, line);
  })();
  await Promise.all(speakers.map(({ spoken }) => spoken));
  // One speaker is in the middle of a line when the gateway goes.
  const [half, rest] = [GERMAN[4].slice(0, 13), GERMAN[4].slice(13)];
  await speakers[0].type(half);
  await gateway.stop();
  await all(disconnected);
  await speakers[0].type(rest);
  await speakers[0].page.keyboard.press("Enter");
  await Promise.all([say(speakers[0], GERMAN[5]), say(speakers[1], JAPANESE[4]).then(() => say(speakers[1], JAPANESE[5]))]);
  gateway = await startGateway({ port: gateway.port, options });
  await all(connected);
  await Promise.all(speakers.map(async (person) => {
    for (const line of person.says.slice(DURING_RESTART.at(-1) + 1)) await say(person, line);
  }));
  const count = GERMAN.length + JAPANESE.length;
  await all((person) => shows(person, count));
  await all(({ page, lang }) => page.screenshot({ path: `${PICTURES}/six-${lang}.png` }));
  for (const person of PEOPLE) {
    const answer = await fetch(`${gateway.address}/v1/rooms/${room}/transcript.json?lang=${person.lang}`);
    const { utterances } = await answer.json();
    const expected = utterances.map(({ speaker, lang, text }) => [
      speaker, lang === person.lang ? text : `[${person.lang}] ${text}`,
    ]);
    assert.equal(expected.length, count);
    assert.deepEqual(await rows(person), expected, person.lang);
  }
  assert.deepEqual(faults, []);
});
