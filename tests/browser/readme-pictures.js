// The pictures of the README. Run by hand: `node readme-pictures.js http://127.0.0.1:8000 FOLDER`, with a
// gateway that runs the embedded model. It saves demo-light.png, demo-dark.png, telephone.png and the frames
// of a short film, which `ffmpeg -framerate 6 -i FOLDER/frame-%03d.png` puts together.

import { chromium } from "playwright-core";

import { connected, open, hasCaption } from "./fixtures.js";

const [address, folder] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const environment = { browser, address };
const SIZE = { viewport: { width: 1200, height: 720 }, reducedMotion: "no-preference" };
const FRAMES = 96;
const FRAME_MS = 1000 / 6;

async function demo(name, more) {
  const page = await connected(await open(environment, `/?room=${name}&role=moderate&to=de,fr,ja`, { ...SIZE, ...more }));
  await page.getByRole("button", { name: "Play demo", exact: true }).click();
  await page.mouse.move(600, 20);
  return page;
}

const film = await demo("weekly-sync", {});
const begin = performance.now();
for (let n = 0; n < FRAMES; n++) {
  await film.screenshot({ path: `${folder}/frame-${String(n).padStart(3, "0")}.png` });
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, begin + (n + 1) * FRAME_MS - performance.now())));
}
console.log(`${FRAMES} frames in ${((performance.now() - begin) / 1000).toFixed(1)} s`);
const phone = await connected(await open(environment, "/?room=weekly-sync&role=view&to=es", { phone: true, dark: true }));
await hasCaption(film, "de", "Wir haben heute viel Arbeit.");
await film.waitForTimeout(700);
await film.screenshot({ path: `${folder}/demo-light.png` });
await phone.screenshot({ path: `${folder}/telephone.png` });
const context = await film.context();
await film.emulateMedia({ colorScheme: "dark" });
await film.locator("#statistics").click();
await film.waitForTimeout(9000);
await film.screenshot({ path: `${folder}/demo-dark.png` });
await context.close();
await browser.close();
