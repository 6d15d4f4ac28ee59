// What the tests of the page share: a gateway of their own, a browser, and pictures of what it shows.
// Environment: GATEWAY_PYTHON has the gateway, CHROMIUM is the browser, PICTURES where pictures go.

import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createServer } from "node:net";
import { after, before } from "node:test";

import { chromium } from "playwright-core";

const PICTURES = process.env.PICTURES ?? "build/browser";
const STARTING_MS = 20_000;
const TELEPHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
const DESK = { viewport: { width: 1440, height: 900 } };

mkdirSync(PICTURES, { recursive: true });

/** A gateway on a scripted engine: { address, port, said, stop, kill }. `said(pattern)` waits for what it prints. */
export async function gateway({ port, options = [] } = {}) {
  port ??= await freePort();
  const address = `http://127.0.0.1:${port}`;
  const command = ["-m", "gateway", "serve", "--engine", "scripted", "--scripted-pace", "0.01", "--port", port, ...options];
  const running = spawn(process.env.GATEWAY_PYTHON ?? "python3", command.map(String), { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  running.stderr.on("data", (text) => (said += text));
  const ended = new Promise((resolve) => running.once("exit", resolve));
  const deadline = Date.now() + STARTING_MS;
  while (!(await fetch(`${address}/readyz`).catch(() => null))?.ok) {
    if (Date.now() > deadline || running.exitCode !== null) throw new Error(`no gateway: ${said}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const end = (signal) => {
    running.kill(signal);
    return ended;
  };
  const found = async (pattern) => {
    while (!pattern.test(said) && running.exitCode === null) await new Promise((resolve) => setTimeout(resolve, 20));
    return pattern.exec(said);
  };
  return { address, port, said: found, stop: () => end("SIGTERM"), kill: () => end("SIGKILL") };
}

/** A browser and a gateway for all tests of a file: { browser, address } once they have begun. */
export function stage() {
  const there = {};
  before(async () => {
    there.gateway = await gateway();
    there.address = there.gateway.address;
    there.browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  });
  after(async () => {
    await there.browser?.close();
    await there.gateway?.stop();
  });
  return there;
}

/** A page at `path`, which fails the test with whatever goes wrong in it. */
export async function open({ browser, address }, path, { phone = false, dark = false, at = address, prepare, ...more } = {}) {
  const context = await browser.newContext({
    ...(phone ? TELEPHONE : DESK), colorScheme: dark ? "dark" : "light", reducedMotion: "reduce", ...more,
  });
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(error.stack));
  page.on("console", (message) => {
    if (/Content Security Policy/.test(message.text())) page.faults.push(message.text());
  });
  await prepare?.(page);
  await page.goto(at + path);
  return page;
}

export async function connected(page) {
  await page.locator('#state[data-state="open"]').waitFor();
  return page;
}

/** Type a line and send it. */
export async function type(page, text) {
  await page.fill("#line", text);
  await page.press("#line", "Enter");
}

/** The captions of a page, each as [language, text]. */
export function captions(page) {
  return page.locator(".caption").evaluateAll((nodes) => nodes.map((node) => [
    node.dataset.lang, ["stable", "draft"].map((name) => node.querySelector(`.${name}`).textContent).join(""),
  ]));
}

/** Wait until the page has this caption. */
export async function reads(page, lang, text) {
  await page.locator(`.caption[data-lang="${lang}"][data-status="final"]`, { hasText: text }).first().waitFor();
}

/** Keep a picture, for people to look at. */
export function picture(page, name) {
  return page.screenshot({ path: `${PICTURES}/${name}.png` });
}

let rooms = 0;

/** A room that no other test is in. */
export function room() {
  return `room-${process.pid}-${++rooms}`;
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
