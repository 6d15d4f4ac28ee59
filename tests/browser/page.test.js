// The page in a browser: accessibility in every screen, size and theme, the keyboard, the bytes of a visit.

import assert from "node:assert/strict";
import { test } from "node:test";

import { connected, open, picture, hasCaption, newRoom, useBrowser, type, violations } from "./fixtures.js";
import { visitScreens } from "./screens.js";

const COLD_BYTES = 120_000;
const COLD_REQUESTS = 50;

const environment = useBrowser();

for (const dark of [false, true]) {
  for (const phone of [false, true]) {
    const look = `${phone ? "telephone" : "desk"}-${dark ? "dark" : "light"}`;

    test(`axe finds no problem on any screen, ${look}`, async () => {
      const room = newRoom();
      const page = await connected(await open(environment, `/?room=${room}&role=moderate&to=de,ja`, { phone, dark }));
      await visitScreens(environment, page, { room, phone }, async (screen) => {
        await picture(page, `${look}-${screen}`);
        assert.deepEqual(await violations(page), [], screen);
      });
      assert.deepEqual(page.faults, []);
    });
  }
}

test("everything can be done with the keyboard alone", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&role=moderate&to=de,fr`));
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.ariaLabel || document.activeElement.className);
  await page.getByRole("button", { name: "Live stats" }).waitFor();
  const reached = [];
  for (let n = 0; n < 30; n++) {
    await page.keyboard.press("Tab");
    reached.push(await focused());
  }
  for (const id of ["share", "reader", "start-from", "start-mic", "demo", "demo-lang", "line", "dock-toggle"]) {
    assert.ok(reached.includes(id), `${id} is not among ${reached}`);
  }
  await page.focus("#share");
  for (const id of ["display", "transcript", "moderation", "statistics", "present", "share"]) {
    await page.keyboard.press("ArrowRight");
    assert.equal(await focused(), id);
  }
  await page.focus("#line");
  await page.keyboard.type("good morning");
  await page.keyboard.press("Enter");
  await hasCaption(page, "de", "[de] good morning");
  await page.focus(".row");
  await page.locator(".caption-actions").waitFor(); // it and the keys of the rows are loaded after the first row
  await page.focus("#reader");
  await page.keyboard.press("Enter");
  assert.equal(await focused(), "row");
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "Correct");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("Guten Morgen");
  await page.keyboard.press("Enter");
  await hasCaption(page, "de", "Guten Morgen");
  await page.keyboard.press("Escape");
  assert.equal(await focused(), "reader");
});

test("screen readers announce whole finished captions of the first language", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de,fr`));
  await type(page, "good morning everybody");
  await hasCaption(page, "fr", "[fr] good morning everybody");
  assert.deepEqual(await page.locator("#announcements p").allTextContents(), ["[de] good morning everybody"]);
  assert.equal(await page.getAttribute("#announcements", "aria-live"), "polite");
});

test("the first visit loads at most 120 KB in 50 requests, and nothing from other hosts", async () => {
  const measured = [];
  const page = await open(environment, `/?room=${newRoom()}`, {
    prepare: (fresh) => fresh.on("requestfinished", (request) => measured.push(request.sizes().then(
      ({ responseBodySize, responseHeadersSize }) => [request.url(), responseBodySize + responseHeadersSize],
      () => null, // the page has been closed since
    ))),
  });
  await connected(page);
  await page.waitForLoadState("networkidle");
  const sizes = (await Promise.all(measured)).filter(Boolean);
  const bytes = sizes.reduce((sum, [, size]) => sum + size, 0);
  console.log(`# ${sizes.length} files, ${bytes} bytes`);
  assert.ok(bytes <= COLD_BYTES, `${bytes} bytes`);
  assert.ok(sizes.length <= COLD_REQUESTS, `${sizes.length} requests`);
  assert.deepEqual(sizes.filter(([url]) => !url.startsWith(environment.address)), []);
  // On a slow network each answer that the socket waits for takes half a second: the languages come with the files.
  const asked = sizes.map(([url]) => new URL(url).pathname).filter((path) => path.startsWith("/v1/"));
  assert.deepEqual(asked, ["/v1/languages"]);
});

test("columns can change places and be added, and the address stores them", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de,fr`));
  await type(page, "good morning");
  await hasCaption(page, "fr", "[fr] good morning");
  await page.getByLabel("Language of column 1").selectOption("fr");
  assert.equal(new URL(page.url()).searchParams.get("to"), "fr,de");
  await page.getByRole("button", { name: "Add a language" }).click();
  await page.getByLabel("Language of column 3").selectOption("ja");
  await hasCaption(page, "ja", "[ja] good morning");
  assert.equal(await page.getByRole("button", { name: "Add a language" }).count(), 0);
});

test("the overlay shows captions on a transparent background", async () => {
  const name = newRoom();
  const speaker = await connected(await open(environment, `/?room=${name}&to=de`));
  const page = await open(environment, `/overlay.html?room=${name}&to=de&lines=2`);
  await type(speaker, "good morning everybody");
  await page.locator(".window", { hasText: "[de] good morning everybody" }).waitFor();
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgba(0, 0, 0, 0)");
  await picture(page, "overlay");
});

test("a second visit asks the gateway for the page alone", async () => {
  const page = await connected(await open(environment, "/?room=visits"));
  const tools = await page.context().newCDPSession(page);
  const kept = new Set();
  tools.on("Network.requestServedFromCache", ({ requestId }) => kept.add(requestId));
  const loaded = [];
  tools.on("Network.responseReceived", ({ requestId, response }) => loaded.push([requestId, new URL(response.url).pathname, response.fromDiskCache]));
  await tools.send("Network.enable");
  await page.goto("about:blank");
  await page.goto(`${environment.address}/?room=visits`);
  await connected(page);
  // The browser asks for the icon some time after it has loaded a page, perhaps not within the first visit.
  const fetched = loaded.filter(([id, path, fromDisk]) => /^\/static\/.*(?<!icon\.svg)$/.test(path) && !fromDisk && !kept.has(id));
  assert.deepEqual(fetched, []);
  assert.ok(loaded.some(([, path]) => path === "/"));
  assert.ok(loaded.filter(([, path]) => path.startsWith("/static/")).length > 30);
});
