// Connections of the page in a browser: breaks, restarts, HTTP instead of WebSocket, keys.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { captions, connected, hasCaption, newRoom, open, picture, startGateway, type, useBrowser } from "./fixtures.js";

const environment = useBrowser();

test("the page reads over HTTP if WebSockets are blocked", async () => {
  const name = newRoom();
  const speaker = await connected(await open(environment, `/?room=${name}&to=de`));
  const page = await connected(await open(environment, `/?room=${name}&to=fr`, {
    prepare: (fresh) => fresh.routeWebSocket(/\/v1\/ws/, (socket) => socket.close({ code: 1011 })),
  }));
  await page.getByText("you can read but not speak").waitFor();
  await type(speaker, "good morning");
  await hasCaption(page, "fr", "[fr] good morning");
  assert.equal(await page.getAttribute("body", "data-role"), "view");
  assert.deepEqual(page.faults, []);
});

test("a broken connection is restored, and no caption is shown twice", async () => {
  let cut;
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de`, {
    prepare: (fresh) => fresh.routeWebSocket(/\/v1\/ws/, (socket) => {
      socket.connectToServer();
      cut = () => socket.close({ code: 1012 });
    }),
  }));
  await type(page, "before");
  await hasCaption(page, "de", "[de] before");
  await cut();
  await page.locator('#state:not([data-state="open"])').waitFor();
  await connected(page);
  await type(page, "after");
  await hasCaption(page, "de", "[de] after");
  assert.deepEqual((await captions(page)).map(([, text]) => text), ["[de] before", "[de] after"]);
});

for (const store of [false, true]) {
  test(`after a restart ${store ? "with" : "without"} a store every line is shown once`, async () => {
    const file = join(mkdtempSync(join(tmpdir(), "store-")), "rooms.db");
    const options = ["--scripted-pace", "0.2", ...(store ? ["--store", `sqlite:${file}`] : [])];
    let killed = await startGateway({ options });
    const name = newRoom();
    const opened = (query, more) => open(environment, `${query}room=${name}&to=de`, { at: killed.address, ...more });
    const page = await connected(await opened("/?"));
    const reader = await connected(await opened("/?role=view&", { phone: true }));
    const overHttp = await connected(await opened("/?role=view&", {
      prepare: (fresh) => fresh.routeWebSocket(/\/v1\/ws/, (socket) => socket.close({ code: 1011 })),
    }));
    const overlay = await opened("/overlay.html?");
    await type(page, "before the restart");
    for (const one of [page, reader, overHttp]) await hasCaption(one, "de", "[de] before the restart");
    await type(page, "a line whose caption is still being made when the gateway is killed");
    for (const one of [page, reader, overHttp]) await one.locator(".row").nth(1).waitFor();
    await killed.kill();
    await page.locator('#state:not([data-state="open"])').waitFor();
    await type(page, "said meanwhile");
    await type(page, "and said after it");
    killed = await startGateway({ port: killed.port, options });
    try {
      for (const one of [page, reader, overHttp]) {
        await hasCaption(one, "de", "[de] and said after it");
        await one.waitForFunction(() => !document.querySelector('.caption:is([data-status="waiting"], [data-status="growing"])'));
        const texts = await one.locator(".source").allTextContents();
        assert.deepEqual(texts, ["before the restart",
          "a line whose caption is still being made when the gateway is killed", "said meanwhile", "and said after it"]);
        assert.deepEqual(one.faults, []);
      }
      await overlay.locator(".window", { hasText: "[de] said meanwhile" }).waitFor();
      assert.equal(await overlay.locator(".window p", { hasText: "said meanwhile" }).count(), 1);
      await picture(page, `restarted-${store ? "stored" : "empty"}`);
      await picture(reader, `restarted-telephone-${store ? "stored" : "empty"}`);
    } finally {
      await killed.stop();
    }
  });
}

test("a page that was offline reconnects and shows what it missed", async () => {
  const name = newRoom();
  let cut;
  const reader = await connected(await open(environment, `/?room=${name}&role=view&to=de`, {
    prepare: (fresh) => fresh.routeWebSocket(/\/v1\/ws/, (socket) => {
      socket.connectToServer();
      cut = () => socket.close({ code: 1012 });
    }),
  }));
  const speaker = await connected(await open(environment, `/?room=${name}&to=de`));
  await type(speaker, "before");
  await hasCaption(reader, "de", "[de] before");
  await reader.context().setOffline(true);
  await cut();
  await reader.locator('#state:not([data-state="open"])').waitFor();
  await type(speaker, "meanwhile");
  await hasCaption(speaker, "de", "[de] meanwhile");
  await reader.context().setOffline(false);
  await hasCaption(reader, "de", "[de] meanwhile");
  assert.deepEqual((await captions(reader)).map(([, text]) => text), ["[de] before", "[de] meanwhile"]);
});

test("a gateway with keys asks for one and grants the role that the key permits", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "keys-")), "keys.toml");
  const made = execFileSync(process.env.GATEWAY_PYTHON ?? "python3", ["-m", "gateway", "key", "ann", "--keys", file, "--role", "speak"]);
  const [key] = /gwk_\S+/.exec(made.toString());
  const closed = await startGateway({ options: ["--keys", file] });
  try {
    const page = await open(environment, `/?room=${newRoom()}&role=moderate&to=de`, { at: closed.address });
    await page.getByLabel("Key", { exact: true }).fill("gwk_0_wrong");
    await page.keyboard.press("Enter");
    await page.getByText("This key was not accepted.").waitFor();
    await picture(page, "key");
    await page.getByLabel("Key", { exact: true }).fill(key);
    await page.keyboard.press("Enter");
    await connected(page);
    assert.equal(await page.getAttribute("body", "data-role"), "speak");
    await type(page, "good morning");
    await hasCaption(page, "de", "[de] good morning");
    await page.getByRole("button", { name: "Share" }).click();
    await page.getByLabel("Key for readers").fill(key);
    await page.keyboard.press("Tab");
    await page.locator("#qr path").first().waitFor({ state: "attached" }); // hidden, since its address is local
    const phone = await open({ ...environment, address: "" }, await page.inputValue("#link-read"), { phone: true });
    await phone.locator("#languages a").first().click();
    await connected(phone);
    assert.deepEqual(phone.faults, []);
    await page.goto(`${closed.address}/?room=other&to=fr#key=${key}`);
    await connected(page);
    assert.equal(new URL(page.url()).hash, "");
    assert.deepEqual(page.faults, []);
  } finally {
    await closed.stop();
  }
});

test("with --lan the share dialog has working links without asking for a key", async () => {
  const local = await startGateway({ options: ["--lan"] });
  try {
    const [, speak] = await local.printed(/Speak +(\S+)/);
    const [, here] = await local.printed(/this machine: (\S+)/);
    const [, read] = await local.printed(/Read +(\S+)/);
    const network = new URL(read).origin;
    for (const [link, name] of [[speak, "lan"], [here, "lan-here"]]) {
      const page = await connected(await open({ ...environment, address: "" }, link));
      assert.equal(await page.getAttribute("body", "data-role"), "moderate");
      assert.equal(new URL(page.url()).hash, "");
      await page.getByRole("button", { name: "Share" }).click();
      await page.locator("#qr path").first().waitFor();
      assert.equal(await page.inputValue("#link-read"), read);
      assert.equal(new URL(await page.inputValue("#link-overlay")).origin, network);
      assert.equal(await page.getByLabel("Key for readers").isVisible(), false);
      assert.equal(await page.locator("#local-note").isVisible(), false);
      await picture(page, name);
      await page.click("#qr");
      await picture(page, `${name}-large`);
      const guest = await connected(await open({ ...environment, address: "" }, await page.inputValue("#link-speak")));
      assert.equal(await guest.getAttribute("body", "data-role"), "speak");
      await page.keyboard.press("Escape");
      await page.click("#present");
      await page.locator("#present-code svg").waitFor();
      await picture(page, `${name}-present`);
      await page.keyboard.press("Escape");
      await page.locator("#line").waitFor();
      const phone = await open({ ...environment, address: "" }, read, { phone: true });
      await phone.locator('#languages a:has([lang="de"])').click();
      await connected(phone);
      assert.equal(await phone.getAttribute("body", "data-role"), "view");
      await phone.getByRole("button", { name: "Share" }).click();
      await phone.locator("#qr path").first().waitFor();
      assert.equal(await phone.inputValue("#link-read"), read, "readers pass their link on");
      assert.equal(await phone.locator("#link-speak").isVisible(), false);
      await phone.keyboard.press("Escape");
      await type(page, `good morning ${name}`);
      await hasCaption(phone, "de", `[de] good morning ${name}`);
      assert.deepEqual([...page.faults, ...phone.faults], []);
    }
  } finally {
    await local.stop();
  }
});

test("the page works below a path of another application", async () => {
  const path = "/meetings/captions";
  const mounted = await startGateway({ module: ["-m", "uvicorn", "tests.browser.mounted:app"], path });
  try {
    const name = newRoom();
    const page = await connected(await open(environment, `/?room=${name}&role=moderate&to=de`, { at: mounted.address }));
    await type(page, "good morning");
    await hasCaption(page, "de", "[de] good morning");
    await page.click("#share");
    await page.locator("#share-dialog svg, dialog[open] svg").first().waitFor();
    const reader = await connected(await open(environment, `/?room=${name}&role=view&to=fr`, { at: mounted.address }));
    await hasCaption(reader, "fr", "[fr] good morning");
    const join = await open(environment, `/join.html?room=${name}`, { at: mounted.address });
    await join.locator("#languages a").getByText("Deutsch").waitFor();
    for (const one of [page, reader, join]) assert.deepEqual(one.faults, []);
  } finally {
    await mounted.stop();
  }
});
