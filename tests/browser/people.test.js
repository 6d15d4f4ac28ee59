// What people do in a meeting: they begin in their own language, join by a code, leave with the text.

import assert from "node:assert/strict";
import { test } from "node:test";

import { captions, connected, hasCaption, newRoom, open, openSimulated, picture, startGateway, type, useBrowser } from "./fixtures.js";

const environment = useBrowser();
const MS = { queue: 1, first: 20, total: 90 };

async function saved(page, button) {
  const [download] = await Promise.all([page.waitForEvent("download"), button.click()]);
  const parts = [];
  for await (const part of await download.createReadStream()) parts.push(part);
  return Buffer.concat(parts).toString();
}

test("a German begins in German, and the choice of another language is kept over a reload", async () => {
  const page = await connected(await open(environment, "/", { locale: "de-AT" }));
  const languages = () => page.evaluate(() => [document.querySelector("#start-from").value, ...[...document.querySelectorAll("#start-reads select")].map(({ value }) => value)]);
  assert.deepEqual(await languages(), ["de", "de", "en"]);
  await type(page, "Guten Morgen zusammen, wir fangen an");
  await hasCaption(page, "de", "Guten Morgen zusammen, wir fangen an");
  await hasCaption(page, "en", "[en] Guten Morgen zusammen, wir fangen an");
  await page.selectOption("#from", "fr");
  await page.reload();
  await connected(page);
  assert.equal(await page.inputValue("#from"), "fr");
  const guest = await connected(await open(environment, new URL(page.url()).search.replace("to=", "unused="), { locale: "ja-JP", at: `${environment.address}/` }));
  assert.deepEqual(await guest.evaluate(() => [document.querySelector("#from").value, document.body.dataset.columns]), ["ja", "1"]);
  await hasCaption(guest, "ja", "[ja] Guten Morgen zusammen");
  assert.deepEqual([...page.faults, ...guest.faults], []);
});

test("a first line in another language is not sent before somebody has said which one it is", async () => {
  const room = newRoom();
  const page = await connected(await open(environment, `/?room=${room}&to=en`));
  const reader = await connected(await open(environment, `/?room=${room}&role=view&to=fr`));
  await page.locator("#line").pressSequentially("Guten Morgen zusammen, wir fangen an");
  await page.press("#line", "Enter");
  await page.getByText("This looks like another language (German).").waitFor();
  await picture(page, "which-language");
  await page.getByRole("button", { name: "I speak German" }).click();
  await page.press("#line", "Enter");
  await hasCaption(page, "en", "[en] Guten Morgen zusammen, wir fangen an");
  assert.equal(await page.inputValue("#from"), "de");
  assert.equal(await page.locator(".source").first().getAttribute("lang"), "de");
  await hasCaption(reader, "fr", "[fr] Guten Morgen zusammen, wir fangen an");
  assert.equal((await captions(reader)).length, 1);
  assert.deepEqual(page.faults, []);
});

test("a code that was heard leads into the meeting, and one that does not exist says so", async () => {
  const host = await connected(await open(environment, "/"));
  const code = await host.locator("#code").innerText();
  await host.fill("#meeting-name", "Weekly sync");
  assert.equal(await host.locator("#room").innerText(), "Weekly sync");
  const page = await connected(await open(environment, "/", { locale: "de-DE" }));
  await page.fill("#join-code", "nono-nono-10");
  await page.press("#join-code", "Enter");
  await page.locator("#join-problem").getByText("nono-nono-10").waitFor();
  await page.fill("#join-code", code.toUpperCase().replaceAll("-", " "));
  await page.press("#join-code", "Enter");
  await page.waitForURL((url) => url.searchParams.get("room") === code);
  await connected(page);
  assert.equal(await page.getAttribute("body", "data-role"), "speak");
  await type(page, "Hallo zusammen");
  await hasCaption(host, "de", "Hallo zusammen");
  await host.locator("#people").getByText("2 people").waitFor();
  await host.locator("#people").click();
  await host.locator("#people-dialog").getByText("German: 2").waitFor();
  assert.deepEqual([...host.faults, ...page.faults], []);
});

test("names of rooms that the gateway would not take work, and an empty meeting does not look as if it went on", async () => {
  for (const name of ["weekly%20sync", "a".repeat(200), "%E4%BC%9A%E8%AD%B0"]) {
    const page = await connected(await open(environment, `/?room=${name}&role=view`));
    await page.getByText("Nobody else is here yet.").waitFor();
    await page.context().close();
  }
});

test("the person who opened a meeting moderates it in a new window too, and the demo asks before it speaks to others", async () => {
  const page = await connected(await open(environment, "/"));
  const second = await page.context().newPage();
  await second.goto(page.url());
  await connected(second);
  assert.equal(await second.getAttribute("body", "data-role"), "moderate");
  await page.locator("#people").getByText("2 people").waitFor();
  await page.getByRole("button", { name: "Play demo" }).click();
  await page.getByRole("heading", { name: "Play the demo for everybody here?" }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await type(page, "a real line");
  await hasCaption(second, "en", "a real line");
  await page.getByRole("button", { name: "Play demo" }).waitFor({ state: "hidden" }); // nothing in a running meeting plays it
  assert.equal((await captions(second)).every(([, text]) => /a real line/.test(text)), true);
});

test("readers save what they read when the meeting has ended, also after a reload", async () => {
  const room = newRoom();
  const page = await connected(await open(environment, `/?room=${room}&role=moderate&to=de`));
  const reader = await connected(await open(environment, `/?room=${room}&role=view&to=fr`));
  await type(page, "good morning");
  await hasCaption(reader, "fr", "[fr] good morning");
  assert.equal((await fetch(`${environment.address}/v1/rooms/${room}`, { method: "DELETE" })).ok, true);
  const text = reader.getByRole("button", { name: "Français: Text" });
  assert.match(await saved(reader, text), /\[fr\] good morning/);
  await reader.reload();
  await reader.getByRole("heading", { name: "The meeting has ended" }).waitFor();
  assert.match(await saved(reader, text), /\[fr\] good morning/);
  await picture(reader, "ended-reader");
  await reader.getByRole("button", { name: "Open it again" }).click();
  await connected(reader);
  assert.deepEqual([...page.faults, ...reader.faults], []);
});

test("after a restart without a store everything on the screen can be found and saved", async () => {
  let gateway = await startGateway();
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de`, { at: gateway.address }));
  await type(page, "before the restart");
  await hasCaption(page, "de", "[de] before the restart");
  await gateway.kill();
  await page.locator("#banner").getByText("No connection").waitFor();
  await picture(page, "banner");
  gateway = await startGateway({ port: gateway.port });
  try {
    await connected(page);
    await type(page, "after it");
    await hasCaption(page, "de", "[de] after it");
    assert.equal(await page.locator("#banner").innerText(), "");
    await page.getByRole("button", { name: "Transcript", exact: true }).click();
    assert.match(await saved(page, page.getByRole("button", { name: "TXT" })), /\[de\] before the restart.*\[de\] after it/s);
    await page.getByLabel("Search in everything that was said").fill("before");
    await page.getByText("1 line found").waitFor();
    await page.locator("#found button").click();
    await page.waitForFunction(() => document.activeElement.textContent.includes("before the restart"));
  } finally {
    await gateway.stop();
  }
});

test("Escape in the key dialog leaves a way back to it", async () => {
  const page = await open(environment, `/?room=${newRoom()}`, {
    prepare: (fresh) => fresh.routeWebSocket(/\/v1\/ws/, (socket) => socket.close({ code: 4401 })),
  });
  await page.getByLabel("Key", { exact: true }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator('#state[data-state="closed"]').waitFor();
  await page.locator("#banner").getByRole("button", { name: "Enter your access key" }).click();
  await page.getByLabel("Key", { exact: true }).waitFor();
});

test("screen readers are told who speaks and what was corrected, and a deleted line is gone for them", async () => {
  const { page, tell } = await openSimulated(environment, "role=view&to=de");
  const source = (id, ord) => ({ type: "source", seq: 3 * ord, id, rev: 1, ord, lang: "en", text: `line ${id}`, speaker: "Nora" });
  const final = (id, ord, text) => ({ type: "final", seq: 3 * ord + 1, id, rev: 1, ord, lang: "de", text, by: "mt", ms: MS, flags: ["pivot:en"] });
  await tell(source("a", 1), final("a", 1, "eins"), source("b", 2), final("b", 2, "zwei"),
    { type: "edited", seq: 9, id: "a", rev: 1, ord: 1, lang: "de", text: "Eins!", by: "human" });
  const texts = () => page.locator("#announcements p").allTextContents();
  assert.deepEqual(await texts(), ["Nora: eins", "zwei", "Corrected Nora: Eins!"]);
  await tell({ type: "retracted", seq: 10, id: "a", ord: 1 }, { type: "edited", seq: 11, id: "b", rev: 1, ord: 2, lang: "en", text: "line B", by: "human" });
  assert.deepEqual(await texts(), ["zwei"]);
  await page.locator(".source", { hasText: "line B" }).getByText("Edited").waitFor({ state: "attached" }); // readers see originals on request
  assert.equal(await page.locator(".column-head").getByText("via English").count(), 1);
  assert.equal(await page.locator(".row").getByText("via English").count(), 0, "it stands once, above the lines");
  const head = page.locator(".column-head .via");
  await tell(source("c", 4), { ...final("c", 4, "drei"), flags: ["pivot:en", "engine:ctranslate2:embedded"] });
  assert.equal(await head.textContent(), "via English · model: embedded");
  await page.locator('.caption[title="model: embedded"]', { hasText: "drei" }).waitFor();
  await tell(source("d", 5), { ...final("d", 5, "D"), by: "same", flags: [] });
  assert.equal(await head.textContent(), "via English · model: embedded", "no model has made this one");
  await tell(source("e", 6), final("e", 6, "vier"));
  assert.equal(await head.textContent(), "via English");
  await tell(final("z", 0, "an old caption whose line is not here"));
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))); // rows are drawn once a frame
  assert.equal(await page.locator(".row").count(), 4);
});

test("three columns beside a panel have words side by side, and the bar of a presented line is at its beginning", async () => {
  const { page, tell } = await openSimulated(environment, "role=moderate&to=de,en,fr", { viewport: { width: 1024, height: 768 } });
  const text = "Wir treffen uns am Donnerstag um neun wieder";
  await tell(...["de", "en", "fr"].map((lang) => ({ type: "delta", id: "a", rev: 1, lang, add: text, n: 1, speaker: "Nora" })));
  await page.locator(".caption").nth(2).waitFor();
  await page.click("#transcript");
  await page.locator("#side-panel").waitFor();
  const widths = await page.locator(".caption").evaluateAll((nodes) => nodes.map((node) => node.clientWidth));
  assert.ok(Math.min(...widths) > 190, widths.join());
  await picture(page, "three-columns-panel");
  await page.keyboard.press("Escape");
  await page.click("#present");
  // The page changes to its presentation in a moment.
  await page.locator(".row").evaluate((row) => new Promise((resolve) => {
    (function look() {
      if (row.querySelector(".caption").getBoundingClientRect().left - row.getBoundingClientRect().left < 40) resolve();
      else requestAnimationFrame(look);
    })();
  }));
  await picture(page, "present-spoken");
});

test("a toolbar is one stop of the Tab key, at the button that had the focus last, and arrow keys move in it", async () => {
  const { page } = await openSimulated(environment, "role=moderate&to=de");
  const focused = () => page.evaluate(() => document.activeElement.id);
  const stops = () => page.locator('.tools button[tabindex="0"]').evaluateAll((nodes) => nodes.map(({ id }) => id));
  await page.focus("#share");
  assert.deepEqual(await stops(), ["share"]);
  await page.keyboard.press("ArrowRight");
  assert.equal(await focused(), "display");
  await page.keyboard.press("End");
  assert.equal(await focused(), "present");
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "reader");
  await page.keyboard.press("Shift+Tab");
  assert.equal(await focused(), "present");
  await page.setViewportSize({ width: 390, height: 844 }); // telephones cannot present
  await page.focus("#reader");
  await page.keyboard.press("Shift+Tab");
  assert.equal(await focused(), "share");
  assert.deepEqual(await stops(), ["share"]);
});
