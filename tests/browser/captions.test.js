// The rows of captions on the page, for events that a simulated socket sends.

import assert from "node:assert/strict";
import { test } from "node:test";

import { openSimulated, useBrowser } from "./fixtures.js";

const environment = useBrowser();

const MS = { queue: 1, first: 20, total: 90 };
let seq = 0;
const source = (id, ord, speaker, text = `line ${id}`) => ({ type: "source", seq: ++seq, id, rev: 1, ord, lang: "en", text, speaker });

test("a row shows its speaker when a row of another one comes before it afterwards", async () => {
  const { page, tell } = await openSimulated(environment, "role=view&to=de");
  tell(source("a", 1, "Yumiko"), source("c", 3, "Yumiko"));
  await page.locator(".row").nth(1).waitFor();
  const named = () => page.locator(".speaker span").evaluateAll((names) => names.map((name) => name.offsetWidth > 1));
  assert.deepEqual(await named(), [true, false]);
  tell(source("b", 2, "Jürgen"));
  await page.locator(".row").nth(2).waitFor();
  assert.deepEqual(await named(), [true, true, true]);
});

const WORDS = ("Wir treffen uns am Donnerstag um neun wieder, wenn alle die Zahlen gelesen haben, und dann sprechen wir "
  + "ausführlich über die Übersetzung der Untertitel").split(" ");
const SCREENS = [
  { name: "desk", to: "de,fr", viewport: { width: 1440, height: 900 } },
  { name: "small window", to: "de,fr", viewport: { width: 800, height: 600 } },
  { name: "telephone on its side", to: "de,fr", viewport: { width: 844, height: 390 }, isMobile: true, hasTouch: true },
  { name: "telephone", to: "de", viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
  { name: "telephone, two languages below each other", to: "de,fr", viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
];
const LINES = 16;
const MAX_SHIFT = 0.01; // "cumulative layout shift", here over the whole stream: a tenth of what counts as good for a visit

/** Return the events of `lines` utterances, in frames. Two people speak at once, and captions grow word by word. */
function stream(lines) {
  const frames = [];
  for (let n = 1; n <= lines; n++) {
    const [id, speaker, length] = [`u${n}`, "ABC"[(n * n) % 3], 4 + ((n * 7) % 13)];
    const text = WORDS.slice(0, length);
    const begin = n * 9;
    for (let words = 1; words <= length; words++) {
      const stable = Math.max(0, words - 2);
      const grown = { add: words > 2 ? `${text[stable - 1]} ` : "", draft: text.slice(stable, words).join(" "), ...(words < 3 && { speaker }) };
      (frames[begin + words] ??= []).push(...["de", "fr"].map((lang) => ({ type: "delta", id, rev: words, lang, n: 1, ...grown })));
    }
    const finals = ["de", "fr"].map((lang) => ({ type: "final", id, rev: 99, ord: n, lang, text: text.join(" "), by: "mt", ms: MS }));
    (frames[begin + length + 1] ??= []).push({ type: "source", id, rev: 99, ord: n, lang: "en", text: text.join(" ").slice(0, 40), speaker }, ...finals);
  }
  return [...frames].map((events) => events?.map((event) => ("ord" in event ? { ...event, seq: ++seq } : event)));
}

for (const { name, to, ...screen } of SCREENS) {
  test(`captions that stream move nothing that is on the screen: ${name}`, async () => {
    for (const role of ["view", "speak"]) {
      const { page, tell } = await openSimulated(environment, `role=${role}&to=${to}&ui=en`, { ...screen, reducedMotion: "no-preference" });
      await page.evaluate(() => {
        window.shifts = [];
        new PerformanceObserver((list) => window.shifts.push(...list.getEntries())).observe({ type: "layout-shift" });
      });
      const frame = () => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      for (const events of stream(LINES)) {
        tell(...(events ?? []));
        await frame();
      }
      await page.locator(".row").nth(LINES - 1).waitFor();
      await frame();
      const shifts = await page.evaluate(() => window.shifts.map(({ value, sources }) => [
        value, sources.map(({ node, previousRect, currentRect }) => `${node?.className} ${previousRect.y} -> ${currentRect.y}`),
      ]));
      const sum = shifts.reduce((total, [value]) => total + value, 0);
      assert.deepEqual(page.faults, []);
      assert.ok(sum <= MAX_SHIFT, `${role}: ${sum} ${JSON.stringify(shifts)}`);
      await page.context().close();
    }
  });
}
