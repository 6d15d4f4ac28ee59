// The element <live-captions> on pages of other people.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { connected, newRoom, open, picture, startGateway, type, useBrowser } from "./fixtures.js";

const environment = useBrowser();
let gateway;
let body = "";

/** A server of another origin. Its content security policy permits the gateway and nothing else. */
const site = createServer((request, response) => {
  const policy = `default-src 'none'; script-src ${gateway.address}; connect-src ${gateway.address.replace("http", "ws")}`;
  response.writeHead(200, { "content-type": "text/html; charset=utf-8", "content-security-policy": policy });
  const module = `${gateway.address}/static/latest/clients/js/live-captions.js`;
  response.end(`<!doctype html><title>A site</title><script type="module" src="${module}"></script>${body}`);
});

before(async () => {
  site.listen(0, "localhost");
  await once(site, "listening");
  gateway = await startGateway({ options: ["--origins", `http://localhost:${site.address().port}`] });
});
after(async () => {
  await gateway?.stop();
  site.closeAllConnections();
  site.close();
});

/** Open a page of the site with an element that reads `to` in a room. */
function openSite(room, to) {
  body = `<live-captions gateway="${gateway.address}" room="${room}" to="${to}"></live-captions>`;
  return open(environment, "/", { at: `http://localhost:${site.address().port}` });
}

/** Return what an element shows, by line: the speaker if it is visible, and [language, direction, text] of each caption. */
function shown(page) {
  return page.locator("live-captions").evaluate(({ shadowRoot }) => [...shadowRoot.querySelectorAll("[part=line]")].map((line) => [
    line.querySelector("[part=speaker]:not([hidden])")?.textContent ?? "",
    ...[...line.querySelectorAll("[part=caption]")].map(({ lang, dir, textContent }) => [lang, dir, textContent]),
  ]));
}

async function shows(page, ...texts) {
  for (const text of texts) await page.locator("live-captions").getByText(text, { exact: true }).waitFor();
}

test("an element on another site shows captions with their speakers, languages and directions", async () => {
  const room = newRoom();
  const page = await openSite(room, "de,ar");
  const speaker = await connected(await open(environment, `/?room=${room}&speaker=Ann&from=en&to=fr`, { at: gateway.address }));
  await type(speaker, "good morning");
  await shows(page, "[de] good morning", "[ar] good morning");
  await type(speaker, "see you");
  await shows(page, "[de] see you");
  assert.deepEqual(await shown(page), [
    ["Ann", ["de", "ltr", "[de] good morning"], ["ar", "rtl", "[ar] good morning"]],
    ["", ["de", "ltr", "[de] see you"], ["ar", "rtl", "[ar] see you"]],
  ]);
  assert.deepEqual(page.faults, []);
  await picture(page, "element");
});

test("an element reads another language, shows fewer lines and moves to another room when its attributes change", async () => {
  const [first, second] = [newRoom(), newRoom()];
  const page = await openSite(first, "de");
  const speaker = await connected(await open(environment, `/?room=${first}&to=de`, { at: gateway.address }));
  for (const text of ["one", "two"]) {
    await type(speaker, text);
    await shows(page, `[de] ${text}`);
  }
  const set = (name, value) => page.locator("live-captions").evaluate((node, [name, value]) => node.setAttribute(name, value), [name, value]);
  await set("to", "fr");
  await shows(page, "[fr] one", "[fr] two");
  await set("lines", "1");
  await page.waitForFunction(() => document.querySelector("live-captions").shadowRoot.querySelectorAll("[part=line]").length === 1);
  assert.equal((await shown(page))[0][1][2], "[fr] two");
  await set("room", second);
  const other = await connected(await open(environment, `/?room=${second}&to=fr`, { at: gateway.address }));
  await type(other, "elsewhere");
  await shows(page, "[fr] elsewhere");
  assert.equal((await shown(page)).length, 1);
});

test("an element that was removed leaves the room, and returns to it", async () => {
  const room = newRoom();
  const page = await openSite(room, "de");
  const speaker = await connected(await open(environment, `/?room=${room}&to=de`, { at: gateway.address }));
  await speaker.getByText("2 people").waitFor();
  const element = await page.evaluateHandle(() => document.querySelector("live-captions"));
  await element.evaluate((node) => node.remove());
  await speaker.getByText("only you").waitFor();
  await element.evaluate((node) => document.body.append(node));
  await type(speaker, "welcome back");
  await shows(page, "[de] welcome back");
});
