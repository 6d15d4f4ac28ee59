// The page in every language of its interface: its words, its direction, and room for all of its texts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { UI_LANGUAGES } from "../../web_demo/page/strings.js";
import { connected, hasCaption, newRoom, open, picture, type, useBrowser, violations } from "./fixtures.js";
import { visitScreens } from "./screens.js";

const NARROW = { width: 320, height: 640 }; // the smallest telephones
const ZOOMED = { width: 720, height: 450 }; // 1440 px and 200 %
const SCREEN = { viewport: NARROW, deviceScaleFactor: 2 };

const environment = useBrowser();

/** Return the texts that are cut, overlap the edge of the page, or do not fit their field. Runs in the page. */
function cutTexts() {
  const ARROW = 14; // px at the end of a menu
  const found = [];
  const { clientWidth } = document.documentElement;
  if (document.documentElement.scrollWidth > clientWidth) found.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  const ink = document.createElement("canvas").getContext("2d");
  for (const node of document.querySelectorAll("body *")) {
    if (!node.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const text = [...node.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE).map(({ data }) => data).join("").trim();
    const style = getComputedStyle(node);
    const { left, right, width } = node.getBoundingClientRect();
    const hidden = node.closest(".visually-hidden, option, #room") || style.clipPath !== "none" || width <= 1;
    if (hidden) continue;
    const name = `${node.tagName} ${node.id || node.className}: ${text || node.placeholder || ""}`;
    if (text && (left < -1 || right > clientWidth + 1)) found.push(`${name} leaves the page`);
    if (text && style.overflowX !== "visible" && node.scrollWidth > node.clientWidth + 1) found.push(`${name} is cut`);
    if (text && node.parentElement.matches(".button, .choices label") && width > node.parentElement.clientWidth + 1) found.push(`${name} is wider than its button`);
    const box = node.closest("dialog, #side-panel, .bar")?.getBoundingClientRect();
    if (text && box && (left < box.left - 1 || right > box.right + 1)) found.push(`${name} leaves its box`);
    if (node.matches("select")) {
      ink.font = style.font;
      const chosen = node.selectedOptions[0]?.text ?? "";
      const room = node.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - (style.appearance === "none" ? 0 : ARROW);
      if (ink.measureText(chosen).width > room + 1) found.push(`${name}${chosen} does not fit its menu`);
    }
    if (node.matches("input") && node.placeholder) {
      ink.font = getComputedStyle(node, "::placeholder").font;
      const room = node.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      if (ink.measureText(node.placeholder).width > room + 1) found.push(`${name} does not fit its field`);
    }
  }
  return found;
}

for (const ui of UI_LANGUAGES) {
  test(`axe finds no problem in ${ui}, and no text is cut on a telephone or with a zoom of 200 %`, async () => {
    const room = newRoom();
    const page = await connected(await open(environment, `/?room=${room}&role=moderate&from=en&to=de,ja&ui=${ui}`, SCREEN));
    await visitScreens(environment, page, { room, phone: true, ui }, async (screen) => {
      for (const [look, size] of Object.entries({ zoomed: ZOOMED, narrow: NARROW })) {
        await page.setViewportSize(size);
        await picture(page, `${ui}-${look}-${screen}`);
        assert.deepEqual(await page.evaluate(cutTexts), [], `${screen}, ${look}`);
      }
      assert.deepEqual(await violations(page, { contrast: false }), [], screen);
    });
    assert.deepEqual(page.faults, []);
  });
}

const language = (page) => page.evaluate(() => [document.documentElement.lang, document.documentElement.dir]);

test("the page is in the browser's language, and another one can be chosen and is kept", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&from=en&to=de`, { locale: "de-AT" }));
  assert.deepEqual(await language(page), ["de", "ltr"]);
  await page.getByRole("button", { name: "Demo abspielen" }).waitFor();
  await type(page, "good morning");
  await hasCaption(page, "de", "[de] good morning");
  await page.click("#display");
  await page.getByLabel("Sprache dieser Seite").selectOption("ar");
  await connected(page);
  await page.getByRole("button", { name: "مشاركة" }).waitFor();
  await hasCaption(page, "de", "[de] good morning"); // the meeting goes on
  assert.deepEqual(await language(page), ["ar", "rtl"]);
  const logo = await page.locator(".brand").boundingBox();
  assert.ok(logo.x > 700, "the bar begins on the right");
  await page.goto(`${environment.address}/join.html?room=${newRoom()}`);
  await page.getByText("الانضمام إلى الاجتماع").first().waitFor();
  await page.goto(`${environment.address}/join.html?room=${newRoom()}&ui=fr`);
  await page.getByText("Rejoindre la réunion").waitFor();
  await page.getByLabel("Langue de cette page").selectOption("en");
  await page.getByText("Join the meeting").waitFor();
  assert.equal(new URL(page.url()).searchParams.has("ui"), false);
  assert.deepEqual(page.faults, []);
});

test("no text is visible before it is in the reader's language", async () => {
  let answer;
  const asked = new Promise((resolve) => (answer = resolve));
  const page = await open(environment, "/join.html?room=a&ui=de", {
    prepare: (fresh) => fresh.route("**/strings/de.js", (route) => answer(route)),
  });
  const route = await asked;
  const visibility = () => page.evaluate(() => {
    for (const animation of document.getAnimations()) Object.assign(animation, { currentTime: 0 }).pause();
    return getComputedStyle(document.body).visibility;
  });
  assert.equal(await visibility(), "hidden");
  await route.continue();
  await page.getByText("An der Besprechung teilnehmen").waitFor();
  assert.equal(await visibility(), "visible");
});

for (const [place, path] of Object.entries({ "of a speaker": "/?to=de,ja", "of a reader": "/?role=view&to=de", "to join": "/join.html?x" })) {
  test(`nothing moves while the page ${place} loads in another language, also where the network is slow`, async () => {
    const page = await open(environment, `${path}&room=${newRoom()}&ui=de`, {
      phone: true,
      prepare: async (fresh) => {
        await fresh.addInitScript(() => {
          window.shifts = [];
          const add = (list) => window.shifts.push(...list.getEntries().map(({ value, sources }) => [value, ...sources.map(({ node }) => node?.id || node?.nodeName)]));
          new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
        });
        // Files come one after the other, and the texts and languages last.
        for (const late of ["**/strings/de.js", "**/v1/languages"]) {
          await fresh.route(late, async (route) => {
            await fresh.waitForFunction(() => document.styleSheets.length > 1);
            await route.continue();
          });
        }
      },
    });
    await page.locator('#state[data-state="open"], #languages a').first().waitFor();
    await page.waitForLoadState("networkidle");
    const shifts = await page.evaluate(() => window.shifts);
    assert.ok(shifts.reduce((sum, [value]) => sum + value, 0) <= 0.01, JSON.stringify(shifts));
    assert.deepEqual(page.faults, []);
  });
}

test("a page whose language cannot be loaded is in English", async () => {
  const page = await open(environment, "/join.html?room=a&ui=de", {
    prepare: (fresh) => fresh.route("**/strings/de.js", (route) => route.abort()),
  });
  await page.getByText("Join the meeting").waitFor();
  assert.deepEqual(await language(page), ["en", "ltr"]);
});

test("captions keep their own direction in a page that is written from the right", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&role=moderate&from=en&to=de,ar&ui=ar`));
  await type(page, "good morning");
  await hasCaption(page, "ar", "[ar] good morning");
  const directions = await page.locator(".caption").evaluateAll((nodes) => nodes.map((node) => [node.lang, getComputedStyle(node).direction]));
  assert.deepEqual(directions, [["de", "ltr"], ["ar", "rtl"]]);
  const [first, second] = await page.locator(".caption").evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect().left));
  assert.ok(first > second, "the first column is on the right");
  await picture(page, "right-to-left");
});
