// The page talks to the gateway that served it and to no other, in Chromium and in Firefox.

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, test } from "node:test";

import { chromium } from "playwright-core";
import puppeteer from "puppeteer-core";

import { CHROMIUM, newRoom, startGateway, until } from "./fixtures.js";

const BROWSERS = {
  Chromium: () => chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] }),
  Firefox: () => puppeteer.launch({ browser: "firefox", executablePath: process.env.FIREFOX, headless: true }),
};

let visits = 0; // connections to another host
const elsewhere = createServer((socket) => {
  visits += 1;
  socket.on("error", () => {});
  socket.end();
});
let root;
let mounted;

before(async () => {
  await new Promise((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
  root = await startGateway();
  mounted = await startGateway({ module: ["-m", "uvicorn", "tests.browser.mounted:app"], path: "/meetings/captions" });
});
after(async () => {
  elsewhere.close();
  await root?.stop();
  await mounted?.stop();
});

for (const [name, launch] of Object.entries(BROWSERS)) {
  test(`in ${name} the page connects by a socket to its own gateway, and to no other host that a link names`, async () => {
    const other = `ws://127.0.0.1:${elsewhere.address().port}/`;
    const browser = await launch();
    try {
      for (const address of [root.address, root.address.replace("127.0.0.1", "localhost"), mounted.address]) {
        const page = await browser.newPage();
        await page.goto(`${address}/?${new URLSearchParams({ room: newRoom(), to: "de", gateway: other })}`);
        await until(page, () => document.querySelector("#state").dataset.state === "open");
        await page.type("#line", "good morning");
        await page.keyboard.press("Enter");
        await until(page, () => [...document.querySelectorAll(".caption")].some(({ textContent }) => textContent === "[de] good morning"));
        // An event stream can read, but only a socket can send a line.
        const blocked = await page.evaluate((url) => new Promise((resolve) => {
          document.addEventListener("securitypolicyviolation", ({ violatedDirective }) => resolve(violatedDirective));
          try {
            new WebSocket(url).onopen = () => resolve("connected");
          } catch {
            resolve("connect-src");
          }
        }), other);
        assert.equal(blocked, "connect-src");
        await page.close();
      }
      assert.equal(visits, 0);
    } finally {
      await browser.close();
    }
  });
}
