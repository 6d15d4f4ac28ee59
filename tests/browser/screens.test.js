// The meeting page on small and zoomed screens, and what each row of it shows.

import assert from "node:assert/strict";
import { test } from "node:test";

import { connected, hasCaption, newRoom, open, picture, type, useBrowser } from "./fixtures.js";

const environment = useBrowser();

/** Low screens: telephones on their side, and 1440 x 900 at 200 % and 400 % zoom. */
const LOW = { "telephone-844": [844, 390], "telephone-667": [667, 375], "zoom-200": [720, 450], "zoom-400": [360, 225] };


for (const [name, [width, height]] of Object.entries(LOW)) {
  test(`the start screen opens at its top and a caption is in sight while the demo plays, ${name}`, async () => {
    const page = await connected(await open(environment, `/?room=${newRoom()}&to=de,fr`, { viewport: { width, height } }));
    await page.locator("#start-reads select").first().waitFor();
    assert.equal(await page.locator("#reader").evaluate((node) => node.scrollTop), 0);
    await picture(page, `${name}-start`);
    await page.getByRole("button", { name: "Play demo", exact: true }).click();
    await hasCaption(page, "fr", "[fr] ");
    for (const lang of ["de", "fr"]) {
      await page.waitForFunction((tag) => {
        const node = [...document.querySelectorAll(`.caption[data-lang="${tag}"]`)].at(-1).getBoundingClientRect();
        const reader = document.querySelector("#reader").getBoundingClientRect();
        return node.top >= reader.top && node.bottom <= reader.bottom + 1;
      }, lang);
    }
    await picture(page, `${name}-playing`);
    assert.equal(await page.locator("#line").isVisible(), false, "the dock is one line");
    await page.getByRole("button", { name: "More" }).click();
    await page.locator("#name").waitFor();
    assert.equal(await page.locator("#line").isVisible(), true);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
    assert.deepEqual(page.faults, []);
  });
}

test("no row grows under a mouse on a narrow screen, and the actions cover no text", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&role=moderate&to=de`, { viewport: { width: 360, height: 640 } }));
  for (const text of ["first", Array(20).fill("meeting").join(" ")]) {
    await type(page, text);
    await hasCaption(page, "de", `[de] ${text}`);
    const row = page.locator(".row").last();
    await (await row.elementHandle()).waitForElementState("stable"); // the page may still scroll to it
    const before = await row.boundingBox();
    await row.hover();
    const box = await page.locator(".caption-actions").boundingBox();
    assert.deepEqual(await row.boundingBox(), before);
    const rights = await page.locator(".source:visible, .caption").evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect().right));
    for (const right of rights) assert.ok(right <= box.x, `${right} > ${box.x}`);
  }
  await picture(page, "actions-narrow");
});

test("the presentation view hides its toolbar after a click on it with the mouse", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de`));
  await type(page, "good morning");
  await hasCaption(page, "de", "[de] good morning");
  await page.click("#present");
  await page.mouse.move(600, 400);
  await page.getByRole("button", { name: "Display" }).click();
  await page.getByLabel("Large").check();
  await page.locator("#display-dialog").getByRole("button", { name: "Close" }).click();
  await page.waitForFunction(() => getComputedStyle(document.querySelector(".bar")).opacity === "0");
  await picture(page, "audience-after-click");
});

for (const phone of [false, true]) {
  const look = phone ? "telephone" : "desk";

  test(`the name of a long turn stays at the top when its first line has left the screen, ${look}`, async () => {
    const page = await connected(await open(environment, `/?room=${newRoom()}&to=de&speaker=Nora`, { phone }));
    for (let n = 0; n < 25; n++) {
      await type(page, `line ${n}`);
      await hasCaption(page, "de", `[de] line ${n}`);
    }
    const name = page.locator("#column-heads .turn");
    await page.waitForFunction(() => document.querySelector("#column-heads .turn").textContent === "Nora");
    await picture(page, `long-turn-${look}`);
    assert.equal(await page.locator(".row[data-new-speaker]").count(), 1);
    await page.locator("#reader").evaluate((node) => { node.scrollTop = 0; });
    await page.waitForFunction(() => !document.querySelector("#column-heads .turn").textContent);
    assert.equal(await name.getAttribute("aria-hidden"), "true", "each row names its speaker to screen readers");
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
    if (phone) return;
    await page.click("#present");
    await page.waitForFunction(() => document.querySelector("#column-heads .turn").textContent === "Nora");
    await page.waitForFunction(() => getComputedStyle(document.querySelector(".bar")).opacity === "0");
    await picture(page, "long-turn-presented");
    const [box, heads] = [await name.boundingBox(), await page.locator("#column-heads").boundingBox()];
    assert.ok(box.y >= 0 && box.height > 20 && heads.height < 80, JSON.stringify([box, heads]));
    // Just after a new layout the page still follows the newest caption.
    await page.waitForFunction(() => {
      document.querySelector("#reader").scrollTop = 0;
      return !document.querySelector("#column-heads .turn").textContent;
    });
    assert.equal(await page.locator("#column-heads").isVisible(), false);
  });

  test(`the line that is being spoken has a marker, and clock times are shown on demand, ${look}`, async () => {
    const room = newRoom();
    const page = await connected(await open(environment, `/?room=${room}&to=de&speaker=Nora`, { phone: false }));
    const reader = await connected(await open(environment, `/?room=${room}&role=view&to=de`, { phone }));
    await type(page, "finished");
    await hasCaption(reader, "de", "[de] finished");
    await page.locator("#line").pressSequentially("we meet again on ");
    await reader.locator(".row[data-spoken]").waitFor();
    assert.equal(await reader.locator(".row[data-spoken]").count(), 1);
    assert.equal(await reader.locator(".row time").first().isVisible(), false);
    await reader.getByRole("button", { name: "Display" }).click();
    await reader.getByLabel("Shown").check();
    await reader.keyboard.press("Escape");
    const time = reader.locator(".row time").first();
    assert.match(await time.innerText(), /^\d\d:\d\d/);
    assert.ok(Math.abs(new Date(await time.getAttribute("datetime")) - Date.now()) < 3_600_000);
    await picture(reader, `marker-and-times-${look}`);
    await page.press("#line", "Enter");
    await reader.locator(".row[data-spoken]").waitFor({ state: "detached" });
    assert.deepEqual([...page.faults, ...reader.faults], []);
  });
}
