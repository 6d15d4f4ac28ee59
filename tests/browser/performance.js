// Measurements of how smooth the page is. Run by hand: `node performance.js` with the environment of fixtures.js. It prints
//   - frame times while 1,000 captions are scrolled through,
//   - the time from a delta's arrival to the frame that shows it,
//   - the time from the address to the connected page on slow 3G, and what moved on the screen meanwhile.
// Memory through a long meeting is measured by long-meeting.test.js. Without a GPU the browser draws in software, so the figures are an upper bound.

import { chromium } from "playwright-core";

import { connected, open, openSimulated, startGateway } from "./fixtures.js";

const CAPTIONS = 1000;

const environment = { ...(await startGateway()) };
environment.browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage",],
});

const quantile = (numbers, share) => [...numbers].sort((a, b) => a - b)[Math.floor(share * (numbers.length - 1))];
const round = (number) => Math.round(100 * number) / 100;

const tools = { send: null };
const metrics = async () =>
  Object.fromEntries((await tools.send("Performance.getMetrics")).metrics.map(({ name, value }) => [name, value]));

const WORDS = "Wir treffen uns am Donnerstag um neun wieder, wenn alle die Zahlen gelesen haben.";
let seq = 0;

function utterance(n) {
  const base = { id: `u${n}`, rev: 1, ord: n };
  const ms = { queue: 1, first: 20, total: 90 };
  return [
    { type: "source", seq: ++seq, ...base, lang: "en", text: `Line ${n}: we meet again on Thursday at nine.`, speaker: "ABC"[n % 3] },
    ...["de", "fr"].map((lang) => ({ type: "final", seq: ++seq, ...base, lang, text: `${n} ${WORDS.slice(0, 30 + (n * 7) % 50)}`, by: "mt", ms })),
  ];
}

const { page, tell } = await openSimulated(environment, "to=de,fr", { reducedMotion: "no-preference" });
const session = await page.context().newCDPSession(page);
tools.send = (...command) => session.send(...command);
await tools.send("Performance.enable");
for (let n = 1; n <= CAPTIONS; n++) tell(...utterance(n));
await page.waitForFunction((most) => document.querySelectorAll(".row").length === most, CAPTIONS);

const before = await metrics();
const frames = await page.evaluate(async () => {
  const reader = document.querySelector("#reader");
  const times = [];
  reader.scrollTop = reader.scrollHeight;
  for (const step of [-60, 60]) {
    let last = performance.now();
    for (let n = 0; n < 300; n++) {
      reader.scrollTop += step;
      const now = await new Promise(requestAnimationFrame);
      times.push(now - last);
      last = now;
    }
  }
  return times;
});
const after = await metrics();
const work = (name) => round((1000 * (after[name] - before[name])) / frames.length);
console.log(`work of the page for each frame: ${work("TaskDuration")} ms, of it style ${work("RecalcStyleDuration")} ms, layout ${work("LayoutDuration")} ms`);
console.log(`scroll ${CAPTIONS} captions, 600 frames: p50 ${round(quantile(frames, 0.5))} ms, p95 ${round(quantile(frames, 0.95))} ms, `
  + `p99 ${round(quantile(frames, 0.99))} ms, longer than 1.5 frames: ${frames.filter((time) => time > 25).length}`);

await page.evaluate(() => {
  window.late = [];
  const real = JSON.parse;
  JSON.parse = (text) => {
    const event = real(text);
    if (event.type === "delta") {
      const arrived = performance.now();
      requestAnimationFrame(() => setTimeout(() => {
        window.late.push([performance.now() - arrived, document.querySelector("#utterances").textContent.includes(event.add)]);
      }));
    }
    return event;
  };
});
for (let n = 0; n < 200; n++) {
  tell({ type: "delta", id: "growing", rev: 1, lang: "de", add: ` word${n}`, n: 1 });
  await page.waitForTimeout(30);
}
const late = await page.evaluate(() => window.late);
console.log(`delta to the end of the frame that shows it, beside ${CAPTIONS} captions: p50 ${round(quantile(late.map(([time]) => time), 0.5))} ms, `
  + `p95 ${round(quantile(late.map(([time]) => time), 0.95))} ms, shown in that frame: ${late.filter(([, shown]) => shown).length} of ${late.length}`);

const SLOW_3G = { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 50_000 }; // ms, bytes/s
for (const [who, query] of Object.entries({ speaker: "to=de", reader: "role=view&to=de" })) {
  for (let visit = 0; visit < 3; visit++) {
    const begin = performance.now();
    const slow = await open(environment, `/?room=slow&ui=de&${query}`, {
      phone: true,
      prepare: async (fresh) => {
        const network = await fresh.context().newCDPSession(fresh);
        await network.send("Network.enable");
        await network.send("Network.emulateNetworkConditions", SLOW_3G);
        await fresh.addInitScript(() => {
          window.shift = 0;
          const add = (list) => { for (const { value } of list.getEntries()) window.shift += value; };
          new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
        });
      },
    });
    await connected(slow);
    const seconds = round((performance.now() - begin) / 1000);
    await slow.waitForLoadState("networkidle");
    console.log(`${who} on slow 3G: connected after ${seconds} s, layout shift ${round(await slow.evaluate(() => window.shift))}`);
    await slow.context().close();
  }
}

await environment.browser.close();
await environment.stop();
