// The record of a meeting in a browser: earlier lines, clock times, search and transcripts, also for readers.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { connected, hasCaption, newRoom, open, picture, startGateway, type, useBrowser } from "./fixtures.js";

const environment = useBrowser();
const LINES = 450; // more than the gateway shows to people who join late, and more than the page asks for at once
const POLLED = { polling: 500 }; // longer than the page takes scrolling for a new layout
let gateway;
before(async () => {
  gateway = await startGateway({ options: ["--scripted-pace", "0", "--limit-rate", "5000", "--limit-burst", "5000", "--limit-inflight", "1000", "--limit-queue", "5000"] });
});
after(() => gateway?.stop());

/** Say lines in a room over a socket of its own, and wait until all are translated. */
function sayLines(page, room, count) {
  return page.evaluate(([name, lines]) => new Promise((resolve) => {
    const socket = new WebSocket(`${location.origin.replace("http", "ws")}/v1/ws?room=${name}&from=en&to=de`);
    let finals = 0;
    socket.onopen = () => {
      for (let n = 1; n <= lines; n++) {
        const speaker = n % 40 < 20 ? "Nora" : "Jonas";
        socket.send(JSON.stringify({ type: "say", id: `x${n}`, text: `this is line ${n}`, final: true, speaker }));
      }
    };
    socket.onmessage = ({ data }) => {
      const event = JSON.parse(data);
      if (event.type === "final" && event.lang === "de" && ++finals === lines) resolve(socket.close());
    };
  }), [room, count]);
}

/** Return the numbers of the lines on the page. */
function numbers(page) {
  return page.locator(".caption").evaluateAll((nodes) => nodes.map((node) => Number(/line (\d+)/.exec(node.textContent)?.[1])));
}

/** Scroll to the top, also while the page is laid out, until it shows more than `count` rows. */
function scrollBack(page, count) {
  return page.waitForFunction((before) => {
    const more = document.querySelectorAll(".row").length > before;
    if (!more) document.querySelector("#reader").scrollTop = 0;
    return more;
  }, count, POLLED);
}

for (const phone of [false, true]) {
  const look = phone ? "telephone" : "desk";

  test(`a reader who joins late reads back to the first line, finds a line and saves the transcript, ${look}`, async () => {
    const room = newRoom();
    const speaker = await connected(await open(environment, `/?room=${room}&to=de`, { at: gateway.address }));
    await sayLines(speaker, room, LINES);
    const page = await connected(await open(environment, `/?room=${room}&role=view&to=de`, { at: gateway.address, phone }));
    await hasCaption(page, "de", `line ${LINES}`);
    const late = await numbers(page);
    assert.ok(late.length < LINES, `${late.length} lines`);
    // Scrolling to the top loads earlier lines, and the line at the top stays where it is.
    await scrollBack(page, late.length);
    await page.waitForFunction((first) => {
      const node = [...document.querySelectorAll(".caption")].find(({ textContent }) => textContent.endsWith(`line ${first}`));
      const top = node.getBoundingClientRect().top;
      return top > 0 && top < innerHeight;
    }, late[0]);
    await picture(page, `earlier-${look}`);
    await page.waitForFunction(() => {
      document.querySelector("#reader").scrollTop = 0;
      return document.querySelector("#earlier p").textContent === "The meeting begins here.";
    }, null, POLLED);
    assert.deepEqual(await numbers(page), Array.from({ length: LINES }, (_, n) => n + 1));
    await page.getByRole("button", { name: "Display" }).click();
    await page.getByLabel("Shown").check();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => [...document.querySelectorAll(".row time")].every(({ textContent }) => /^\d\d:\d\d/.test(textContent)));
    await page.getByRole("button", { name: "Transcript", exact: true }).click();
    await page.getByLabel("Search in everything that was said").fill("LINE 137");
    await page.getByText("1 line found").waitFor();
    await picture(page, `search-${look}`);
    await page.locator("#found button").click();
    await page.waitForFunction(() => document.activeElement.matches(".row") && document.activeElement.textContent.includes("line 137"));
    await picture(page, `found-${look}`);
    if (phone) await page.getByRole("button", { name: "Transcript", exact: true }).click();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "TXT" }).click()]);
    assert.match(download.suggestedFilename(), /\.de\.txt$/);
    assert.deepEqual([...page.faults, ...speaker.faults], []);
  });
}

test("a line of the search that the page does not show yet is loaded, and leads back to the newest captions", async () => {
  const room = newRoom();
  const speaker = await connected(await open(environment, `/?room=${room}&to=de`, { at: gateway.address }));
  await sayLines(speaker, room, LINES);
  const page = await connected(await open(environment, `/?room=${room}&role=view&to=de`, { at: gateway.address }));
  await hasCaption(page, "de", `line ${LINES}`);
  await page.getByRole("button", { name: "Transcript", exact: true }).click();
  await page.getByLabel("Search in everything that was said").fill("line 7");
  await page.getByText(/\d+ lines found/).waitFor();
  await page.locator("#found button").last().click();
  await page.waitForFunction(() => document.activeElement.textContent.endsWith("line 7"));
  await page.getByRole("button", { name: "Newest captions" }).waitFor(); // the page knows that it is not at the end
  await type(speaker, "and now");
  await page.getByRole("button", { name: "Newest captions (1 new)" }).click();
  await hasCaption(page, "de", "[de] and now");
  assert.deepEqual([...page.faults, ...speaker.faults], []);
});

test("a line in a language that nobody read then says so, and shows the original", async () => {
  const room = newRoom();
  const speaker = await connected(await open(environment, `/?room=${room}&to=de`, { at: gateway.address }));
  await sayLines(speaker, room, 150);
  const page = await connected(await open(environment, `/?room=${room}&role=view&to=fr`, { at: gateway.address }));
  await hasCaption(page, "fr", "[fr] this is line 150");
  await scrollBack(page, await page.locator(".row").count());
  const row = page.locator(".row").first();
  assert.match(await row.textContent(), /this is line 1this/);
  await row.getByText("Not translated: nobody read this language then").waitFor();
  await picture(page, "not-translated");
  assert.deepEqual(page.faults, []);
});
