// Sharing a meeting: the code for telephones, the overlay and its editor; screens that stay on; what is typed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { connected, hasCaption, newRoom, open, picture, type, useBrowser } from "./fixtures.js";

const environment = useBrowser();

test("a local address shows no code that telephones cannot open, but names --lan; a reachable one shows the code", async () => {
  const room = newRoom();
  const page = await connected(await open(environment, `/?room=${room}`));
  await page.getByRole("button", { name: "Share" }).click();
  await page.locator("#local-note").getByText("--lan").waitFor();
  assert.equal(await page.locator("#qr").isVisible(), false);
  await picture(page, "share-local");
  await page.keyboard.press("Escape");
  await page.route("**/qr.svg", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, headers: { ...answer.headers(), link: `<http://192.0.2.7:8000/join.html?room=${room}>; rel="describes"` } });
  });
  await page.getByRole("button", { name: "Share" }).click();
  await page.locator("#qr path").first().waitFor();
  assert.equal(await page.locator("#local-note").isVisible(), false);
  assert.match(await page.inputValue("#link-read"), /^http:\/\/192\.0\.2\.7:8000\/join\.html/);
  await picture(page, "share-reachable");
  assert.deepEqual(page.faults, []);
});

test("the look of the overlay is chosen with a preview, and its address has the choices", async () => {
  const room = newRoom();
  const page = await connected(await open(environment, `/?room=${room}&to=de,fr`));
  await type(page, "good morning everybody");
  await hasCaption(page, "fr", "[fr] good morning everybody");
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByText("Change how they look").click();
  const preview = page.locator(".overlay-preview");
  await preview.getByText("[de] good morning everybody").waitFor();
  await page.locator(".overlay-editor").getByLabel("Français").check();
  await page.getByLabel("Lines", { exact: true }).selectOption("3");
  await page.getByLabel("Place").selectOption("Top");
  await page.getByLabel("Size").selectOption("Large");
  await page.getByLabel("Style").selectOption("Outline");
  await preview.getByText("[fr] good morning everybody").waitFor();
  await picture(page, "overlay-editor");
  const address = new URL(await page.inputValue("#link-overlay"));
  assert.deepEqual(Object.fromEntries(address.searchParams), { room, to: "de,fr", lines: "3", place: "top", size: "7", plain: "" });
  const overlay = await open({ ...environment, address: "" }, address.href);
  for (const text of ["[de] good morning everybody", "[fr] good morning everybody"]) await overlay.getByText(text).waitFor();
  assert.equal(await overlay.locator(".overlay").evaluate((node) => Math.round(node.getBoundingClientRect().top / innerHeight * 100)), 5);
  await picture(overlay, "overlay-chosen");
  assert.deepEqual([...page.faults, ...overlay.faults], []);
});

test("growing text of the overlay never moves sideways", async () => {
  const room = newRoom();
  const speaker = await connected(await open(environment, `/?room=${room}&to=de`));
  const page = await open(environment, `/overlay.html?room=${room}&to=de`);
  await type(speaker, "good morning");
  await page.locator(".window", { hasText: "[de] good morning" }).waitFor();
  await page.evaluate(() => {
    window.lefts = new Set();
    const look = () => {
      const node = [...document.querySelectorAll(".window p:not([hidden]) .text")].at(-1);
      if (node?.textContent) window.lefts.add(`${Math.round(node.getClientRects()[0].left)}`);
      requestAnimationFrame(look);
    };
    look();
  });
  await type(speaker, "we meet again on Thursday at nine in the large room on the second floor");
  await page.locator(".window", { hasText: "second floor" }).waitFor();
  await picture(page, "overlay-growing");
  assert.equal((await page.evaluate(() => [...window.lefts])).length, 1);
});

test("without a wake lock a video keeps the screen on, and a telephone is told that nothing promises it", async () => {
  const prepare = (page) => page.addInitScript(() => {
    Object.defineProperty(Navigator.prototype, "wakeLock", { value: undefined }); // as over http
  });
  const page = await connected(await open(environment, `/?room=${newRoom()}&role=view&to=de`, { phone: true, prepare }));
  await page.getByText("This telephone may turn its screen off while you read.").waitFor();
  await page.waitForFunction(() => document.querySelector("#wake-video")?.currentTime > 0);
  await picture(page, "screen-may-darken");
  assert.equal(await page.locator("#wake-video").evaluate((node) => node.paused || !node.muted), false);
  assert.deepEqual(page.faults, []);
});

test("typing in another script than the named language is met with a hint", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&from=en&to=de`));
  await page.fill("#line", "会議を始めましょう");
  await page.getByText("This looks like another language (Japanese).").waitFor();
  await picture(page, "other-script");
  await page.fill("#line", "let us begin");
  assert.equal(await page.locator("#input-note").innerText(), "");
  await type(page, "let us begin");
  await page.fill("#line", "会議を始めましょう");
  await page.getByText("This does not look like English.").waitFor(); // a later line may quote another language
});

test("an emoji alone, right-to-left text, brackets and 2,000 characters are sent as they are", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&from=ar&to=de`));
  const long = "abcd ".repeat(400).trim().padEnd(2000, "x");
  for (const text of ["🎉", "صباح الخير للجميع", "If a < b and c > d", long]) {
    await type(page, text);
    await hasCaption(page, "de", text.slice(-20));
    assert.equal(await page.locator(".source").last().textContent(), text);
  }
  assert.equal(await page.locator(".source").first().getAttribute("dir"), "rtl");
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
  await picture(page, "inputs");
  assert.deepEqual(page.faults, []);
});
