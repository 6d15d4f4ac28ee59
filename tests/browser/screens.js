// The screens of the page, one after the other, for tests that look at all of them in any language.

import { hasCaption, type } from "./fixtures.js";

/**
 * Go through all screens of a meeting and of the pages beside it.
 * @param environment as of `useBrowser`
 * @param page connected as a moderator who reads German and Japanese
 * @param {{room: string, phone?: boolean, ui?: string}} options `ui` is the language of the interface
 * @param {(screen: string) => Promise} seen called on each screen
 */
export async function visitScreens(environment, page, { room, phone = false, ui = "en" }, seen) {
  await seen("start");
  await type(page, "good morning everybody");
  await hasCaption(page, "ja", "[ja] good morning everybody");
  await page.locator(".row").first().hover();
  await seen("meeting");
  for (const panel of ["moderation", "transcript", "statistics"]) {
    await page.click(`#${panel}`);
    await page.locator(`#${panel}-panel`).waitFor();
    await seen(panel);
    await page.keyboard.press("Escape");
  }
  await page.click("#dock-toggle");
  await seen("more");
  for (const dialog of ["share", "display", "paste"]) {
    await page.click(`#${dialog}`);
    await page.locator(`#${dialog}-dialog`).waitFor();
    if (dialog === "share") await page.locator(".overlay-editor > summary").click();
    await seen(dialog);
    if (dialog === "share" && (await page.locator("#qr").isVisible())) {
      await page.click("#qr");
      await seen("code");
    }
    await page.keyboard.press("Escape");
  }
  await page.click("#dock-toggle");
  await page.click("#people");
  await seen("people");
  await page.keyboard.press("Escape");
  await page.click(".brand");
  await seen("leaving");
  await page.keyboard.press("Escape");
  if (!phone) {
    await page.click("#present");
    await page.locator("body[data-presenting]").waitFor();
    await seen("present");
  }
  for (const path of [`/join.html?room=${room}&ui=${ui}`, `/overlay.html?room=${room}&to=de&ui=${ui}`]) {
    await page.goto(environment.address + path);
    await page.locator("#languages a, .window").first().waitFor();
    await seen(path.slice(1, 5));
  }
  await page.goto(`${environment.address}/?room=${room}&role=moderate&from=en&to=de,ja&ui=${ui}`);
  await hasCaption(page, "ja", "[ja] good morning everybody");
  await page.locator(".row").first().focus();
  await page.locator(".caption-actions button").last().click();
  await seen("deleting");
  await page.click("#moderation");
  await page.click("#end");
  await page.locator("#end-dialog").waitFor();
  await seen("ending");
  await page.click("#end-dialog .danger");
  await page.locator("#ended").waitFor();
  await seen("ended");
}
