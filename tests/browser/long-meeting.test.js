// A long meeting on one page: memory, elements and work of the browser stay as they are after the first thousand lines.
// MEETING_LINES in the environment is the length; eight hours have 9,600 lines at 20 a minute.

import assert from "node:assert/strict";
import { test } from "node:test";

import { MAX_UTTERANCES } from "../../clients/js/captions.js";
import { openSimulated, useBrowser } from "./fixtures.js";

const LINES = Number(process.env.MEETING_LINES ?? 2 * MAX_UTTERANCES);
const AT_ONCE = 10; // lines that arrive together
const FINALS = {
  de: "Wir treffen uns am Donnerstag um neun wieder, wenn alle die Zahlen gelesen haben.",
  ja: "全員が数字を読み終えたら、木曜日の九時にまた集まりましょう。",
};

const environment = useBrowser();
let seq = 0;

/** Return the events of one line. It is 30 to 80 characters long, and its second half is rewritten once. */
function line(n) {
  const base = { id: `u${n}`, rev: 1, ord: n };
  const text = `${n} we meet again on Thursday at nine, when everybody has read the numbers.`.slice(0, 30 + ((n * 7) % 50));
  const speaker = ["Ann", "Jürgen", "由美子"][n % 3];
  return [
    ...Object.entries(FINALS).flatMap(([lang, final]) => [
      { type: "delta", ...base, lang, add: final.slice(0, 8), draft: final.slice(8, 16), n: 1, speaker },
      { type: "delta", ...base, lang, add: final.slice(8, 12), draft: "", n: 2 },
    ]),
    { type: "source", seq: ++seq, ...base, lang: "en", text, speaker },
    ...Object.entries(FINALS).map(([lang, final]) => ({
      type: "final", seq: ++seq, ...base, lang, text: `${n} ${final}`, by: "mt", ms: { queue: 1, first: 20, total: 90 },
    })),
  ];
}

test("the heap, the elements and the work for each line stay the same through a long meeting", async (t) => {
  const { page, tell } = await openSimulated(environment, "to=de,ja", { languages: ["de", "en", "ja"] });
  const tools = await page.context().newCDPSession(page);
  await tools.send("Performance.enable");
  await page.evaluate(() => {
    window.changes = 0;
    new MutationObserver((records) => { window.changes += records.length; }).observe(document, {
      subtree: true, childList: true, characterData: true, attributes: true,
    });
    window.frames = [];
    let last = performance.now();
    requestAnimationFrame(function next(now) {
      window.frames.push(now - last);
      last = now;
      requestAnimationFrame(next);
    });
  });
  const measure = async () => {
    await tools.send("HeapProfiler.collectGarbage");
    const { metrics } = await tools.send("Performance.getMetrics");
    const found = await page.evaluate(() => ({ changes: window.changes, frames: window.frames.splice(0).sort((a, b) => a - b) }));
    return { ...found, ...Object.fromEntries(metrics.map(({ name, value }) => [name, value])) };
  };
  const quarters = [await measure()];
  for (let n = 0; n < LINES;) {
    await tell(...Array.from({ length: AT_ONCE }, () => line(++n)).flat());
    await page.waitForFunction((last) => document.querySelector("#utterances").lastElementChild?.textContent.includes(`${last} 全`), n);
    if (n % (LINES / 4) === 0) quarters.push(await measure());
  }
  const work = quarters.slice(1).map((now, i) => {
    const of = (name) => now[name] - quarters[i][name];
    const frame = (share) => Math.round(now.frames[Math.floor(share * (now.frames.length - 1))]);
    t.diagnostic(`quarter ${i + 1}: heap ${(now.JSHeapUsedSize / 1e6).toFixed(2)} MB, ${now.Nodes} nodes, ${now.JSEventListeners} listeners, `
      + `${of("changes")} changes, ${of("LayoutCount")} layouts, ${of("RecalcStyleCount")} styles, `
      + `frames p50 ${frame(0.5)} p99 ${frame(0.99)} ms, layout ${(1000 * of("LayoutDuration") / LINES * 4).toFixed(2)} ms a line, `
      + `script ${(1000 * of("ScriptDuration") / LINES * 4).toFixed(2)} ms a line`);
    return { changes: of("changes"), layouts: of("LayoutCount"), nodes: now.Nodes, listeners: now.JSEventListeners, heap: now.JSHeapUsedSize };
  });
  const [first, full, , last] = work; // with the second quarter the page has all rows that it keeps
  assert.equal(await page.locator(".row").count(), MAX_UTTERANCES);
  assert.ok(last.heap < 1.05 * full.heap, "the heap grows");
  assert.ok(last.nodes < 1.02 * full.nodes, "elements are left behind");
  assert.equal(last.listeners, full.listeners);
  assert.ok(last.changes < 1.1 * first.changes + LINES / 4, "more changes for each line, and the removal of one row");
  assert.ok(last.layouts < 1.1 * first.layouts, "more layouts for each line");
  assert.deepEqual(page.faults, []);
});
