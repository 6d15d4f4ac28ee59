// The captions of a meeting spoken aloud, in Chromium and in Firefox, by a voice that keeps what it says.
// With NORMAL in the environment the whole demo meeting is heard at the speed of people, and its lag is measured.

import assert from "node:assert/strict";
import { test } from "node:test";

import { connected, inFirefox, newRoom, open, picture, until, useBrowser } from "./fixtures.js";

const environment = useBrowser();
const SPEED = process.env.NORMAL ? 1 : 3;
const LINES = process.env.NORMAL ? 100 : 25;
const LONGEST = 200; // characters of a line that is spoken in one part

/** Replace the voices of the browser by one that needs as long as a person, `speed` times as fast. */
function fakeVoice(speed) {
  window.spoken = [];
  let queue = [];
  let timer = 0;
  const next = () => {
    const [utterance] = queue;
    if (!utterance) return;
    window.spoken.push({ text: utterance.text, rate: utterance.rate, at: performance.now() });
    timer = setTimeout(() => {
      queue.shift();
      timer = 0;
      utterance.onend?.();
      if (!timer) next();
    }, utterance.text.length / 14 / (utterance.rate ?? 1) / speed * 1000);
  };
  const synthesis = Object.assign(new EventTarget(), {
    getVoices: () => [{ lang: "de-DE", localService: true }, { lang: "en-US", localService: true }],
    speak(utterance) {
      queue.push(utterance);
      if (!timer) next();
    },
    cancel() {
      clearTimeout(timer);
      timer = 0;
      queue = [];
    },
  });
  Object.defineProperty(window, "speechSynthesis", { value: synthesis });
  window.SpeechSynthesisUtterance = class { rate = 1; constructor(text) { this.text = text; } };
}

const READERS = {
  Chromium: (path) => open(environment, path, { phone: true, prepare: (page) => page.addInitScript(fakeVoice, SPEED) }),
  Firefox: async (path, t) => {
    const page = await inFirefox(environment.address + path, { prepare: (fresh) => fresh.evaluateOnNewDocument(fakeVoice, SPEED) });
    t.after(() => page.browser().close());
    return page;
  },
};

for (const [browser, read] of Object.entries(READERS)) {
  test(`a reader hears the demo meeting in ${browser}: nothing twice, and nothing left out without a word`, async (t) => {
    const room = newRoom();
    const speaker = await connected(await open(environment, `/?room=${room}&to=de&from=de`));
    const reader = await read(`/?room=${room}&role=view&to=de&ui=en`, t);
    await until(reader, () => document.querySelector(".listen") !== null);
    await reader.evaluate(() => {
      window.finals = new Map();
      const seen = () => {
        for (const node of document.querySelectorAll('.caption[data-status="final"]')) {
          const row = node.closest(".row").dataset.key;
          if (!window.finals.has(row)) window.finals.set(row, { text: node.textContent, at: performance.now() });
        }
      };
      new MutationObserver(seen).observe(document.querySelector("#utterances"), { subtree: true, childList: true, attributes: true });
    });
    await reader.click('.listen[aria-label="Listen in German"]');
    await until(reader, () => document.querySelector('.listen[aria-pressed="true"]') !== null);
    await picture(reader, `listening-${browser}`);
    await speaker.locator("#people").getByText("2 people").waitFor();
    await speaker.locator("#demo-lang").selectOption("de");
    await speaker.getByRole("button", { name: "Play demo" }).click();
    await speaker.locator("#demo-dialog .primary").click();
    if (SPEED > 1) for (let n = 0; n < 3; n++) await speaker.click("#speed");
    await until(reader, (count) => window.finals.size >= count, LINES);
    if (SPEED > 1) await speaker.click("#stop-player");
    await until(reader, (longest) => [...window.finals.values()].every(({ text }) => text.length > longest || window.spoken.some((one) => one.text === text)), LONGEST);
    const { spoken, finals } = await reader.evaluate(() => ({ spoken: window.spoken.filter(({ text }) => !["", "Deutsch"].includes(text)), finals: [...window.finals.values()] }));
    assert.deepEqual(spoken.filter(({ text }) => /skipped/.test(text)), []);
    // The meeting says a few short lines twice: each is spoken as often as it was shown.
    const times = (list, wanted) => list.filter(({ text }) => text === wanted).length;
    for (const { text } of finals.filter((one) => one.text.length <= LONGEST)) assert.equal(times(spoken, text), times(finals, text), text);
    const lags = finals.map(({ text, at }) => (spoken.find((one) => text.startsWith(one.text) && one.at >= at).at - at) * SPEED).sort((a, b) => a - b);
    t.diagnostic(`${finals.length} lines, lag p50 ${Math.round(lags[Math.floor(lags.length / 2)])} ms, p95 ${Math.round(lags[Math.floor(lags.length * 0.95)])} ms at ${SPEED} times the speed`);
    assert.deepEqual([...speaker.faults, ...reader.faults], []);
  });
}
