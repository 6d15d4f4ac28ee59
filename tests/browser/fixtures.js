// Support for the tests of the page: a gateway, a browser, pages and pictures.
// Environment: GATEWAY_PYTHON is a Python with the gateway, CHROMIUM the browser, PICTURES a folder for pictures.

import { spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { after, afterEach, before } from "node:test";

import { chromium } from "playwright-core";
import puppeteer from "puppeteer-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WITHIN = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
export const PICTURES = process.env.PICTURES ?? "build/browser";
export const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const STARTING_MS = 60_000;
const TELEPHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
const DESK = { viewport: { width: 1440, height: 900 } };

mkdirSync(PICTURES, { recursive: true });

// The rooms of the tests before count for half a minute, and on a busy machine captions take longer than alone. The
// gateway would be overloaded then: it makes no partial texts, and tells a new room to try again in five seconds.
const CALM = ["--limit-soon-s", "60"];
const SERVE = ["-m", "gateway", "serve", "--engine", "scripted", "--scripted-pace", "0.01", ...CALM];

/**
 * Start a gateway, by default with the scripted engine, or another application that `module` names.
 * @param options `module` are arguments of Python, `path` is where the gateway is mounted
 * @returns { address, port, printed, stop, kill }; `printed(pattern)` waits for a match in what it prints
 */
export async function startGateway({ port, options = [], module = SERVE, path = "" } = {}) {
  port ??= await freePort();
  const address = `http://127.0.0.1:${port}${path}`;
  const command = [...module, "--port", port, ...options];
  const running = spawn(process.env.GATEWAY_PYTHON ?? "python3", command.map(String), { stdio: ["ignore", "ignore", "pipe"] });
  let output = "";
  running.stderr.on("data", (text) => (output += text));
  const ended = new Promise((resolve) => running.once("exit", resolve));
  const deadline = Date.now() + STARTING_MS;
  while (!(await fetch(`${address}/readyz`).catch(() => null))?.ok) {
    if (Date.now() > deadline || running.exitCode !== null) {
      running.kill("SIGKILL"); // while it runs, the file of tests does not end
      throw new Error(`The gateway did not start: ${output}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const end = (signal) => {
    running.kill(signal);
    return ended;
  };
  const printed = async (pattern) => {
    while (!pattern.test(output) && running.exitCode === null) await new Promise((resolve) => setTimeout(resolve, 20));
    return pattern.exec(output);
  };
  return { address, port, printed, stop: () => end("SIGTERM"), kill: () => end("SIGKILL") };
}

/** Return { browser, address } for all tests of a file; both are there when the first test begins. Pages end with their test. */
export function useBrowser() {
  const environment = {};
  before(async () => {
    environment.gateway = await startGateway();
    environment.address = environment.gateway.address;
    environment.browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  });
  // A page that is left open goes on working, and each test of the file would be slower than the one before.
  afterEach(() => Promise.all((environment.browser?.contexts() ?? []).map((context) => context.close())));
  after(async () => {
    await environment.browser?.close();
    await environment.gateway?.stop();
  });
  return environment;
}

/**
 * Open a page.
 * @param {string} path path and query
 * @param options `phone` and `dark` select the screen; `at` is another gateway; `prepare(page)` runs before loading
 * @returns the page; its list `faults` collects errors of scripts and of the content security policy
 */
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

/**
 * Open a page in a Firefox of its own, which the test closes.
 * @param options `lang` is the language of the browser, `viewport` the size of its window; `prepare(page)` runs before loading
 * @returns a page of Puppeteer; its list `faults` collects errors of scripts
 */
export async function inFirefox(address, { lang = "en", viewport = DESK.viewport, prepare } = {}) {
  const browser = await puppeteer.launch({
    browser: "firefox", executablePath: process.env.FIREFOX, headless: true, extraPrefsFirefox: { "intl.accept_languages": lang },
  });
  const page = await browser.newPage();
  page.faults = [];
  // Firefox reports a socket that fails as an error of the page.
  page.on("pageerror", ({ message }) => /^Firefox can’t establish|was interrupted while/.test(message) || page.faults.push(message));
  await page.setViewport(viewport);
  await prepare?.(page);
  await page.goto(address);
  return page;
}

/** Wait until a function of the page returns true; both drivers can evaluate one under the page's security policy. */
export async function until(page, condition, value) {
  while (!(await page.evaluate(condition, value))) await new Promise((resolve) => setTimeout(resolve, 50));
}

/**
 * Open a page whose socket the test simulates. `languages` are those of the simulated gateway.
 * @returns { page, tell }; `tell` sends events
 */
export async function openSimulated(environment, query, { languages = ["de", "en", "fr"], ...options } = {}) {
  const page = await open(environment, `/?room=simulated&${query}`, {
    prepare: async (fresh) => {
      await fresh.routeWebSocket(/\/v1\/ws/, (opened) => {
        opened.send(JSON.stringify({
          type: "welcome", v: 1, session: "s", room: "simulated", epoch: "e", seq: 0, resume: null, engine: "none",
          languages, limits: { frame: 65536, text: 2000, inflight: 16, targets: 16, rate: 50 },
        }));
      });
      await fresh.addInitScript(() => {
        window.WebSocket = class extends window.WebSocket {
          constructor(...address) {
            super(...address);
            window.simulated = this;
          }
        };
      });
    },
    ...options,
  });
  await connected(page);
  // All at once, and without a message of the driver for each of them.
  const tell = (...events) => page.evaluate((frames) => {
    for (const data of frames) window.simulated.onmessage(new MessageEvent("message", { data }));
  }, events.map((event) => JSON.stringify(event)));
  return { page, tell };
}

/** Wait until the page is connected, and return it. */
export async function connected(page) {
  await page.locator('#state[data-state="open"]').waitFor();
  return page;
}

/** Type a line on the page and send it. */
export async function type(page, text) {
  await page.fill("#line", text);
  await page.press("#line", "Enter");
}

/** Return the captions of a page, each as [language, text]. */
export function captions(page) {
  return page.locator(".caption").evaluateAll((nodes) => nodes.map((node) => [
    node.dataset.lang, ["stable", "draft"].map((name) => node.querySelector(`.${name}`).textContent).join(""),
  ]));
}

/** Wait until the page shows a finished caption with this text. */
export async function hasCaption(page, lang, text) {
  await page.locator(`.caption[data-lang="${lang}"][data-status="final"]`, { hasText: text }).first().waitFor();
}

/** Wait until the page is scrolled to its newest caption. */
export function isAtNewest(page) {
  return page.waitForFunction(() => {
    const { scrollHeight, scrollTop, clientHeight } = document.querySelector("#reader");
    return scrollHeight > clientHeight && scrollHeight - scrollTop - clientHeight < 32;
  });
}

/** Save a picture of the page, for people to look at. */
export function picture(page, name) {
  return page.screenshot({ path: `${PICTURES}/${name}.png` });
}

/**
 * Return what axe-core finds wrong with the page as it is now.
 * @param {{contrast?: boolean}} options `contrast` also measures colours, which takes most of the time
 */
export async function violations(page, { contrast = true } = {}) {
  await page.evaluate(AXE); // the debugger may add a script although the page's policy forbids it
  const rules = { "color-contrast": { enabled: contrast } };
  const found = await page.evaluate((options) => axe.run(options), { runOnly: { type: "tag", values: WITHIN }, rules });
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join(" | ")}`);
}

let rooms = 0;

/** Return the name of a new room. */
export function newRoom() {
  return `room-${process.pid}-${++rooms}`;
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
