// Meetings as people have them: typing, speaking, the demo, telephones, broken lines.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { captions, connected, gateway, open, picture, reads, room, stage, type } from "./fixtures.js";

const there = stage();

test("a line that is typed is read in two languages, and what it contains stays text", async () => {
  const page = await connected(await open(there, `/?room=${room()}&to=de,ar`));
  const text = 'good <b>morning</b> <img src=x onerror="throw 1">';
  await type(page, text);
  await reads(page, "de", `[de] ${text}`);
  await reads(page, "ar", `[ar] ${text}`);
  assert.equal(await page.locator(".caption img, .caption b").count(), 0);
  const arabic = page.locator('.caption[data-lang="ar"]');
  assert.deepEqual([await arabic.getAttribute("lang"), await arabic.getAttribute("dir")], ["ar", "rtl"]);
  await picture(page, "typed");
  assert.deepEqual(page.faults, []);
});

test("the demo is two clicks away, and read in three languages on three pages at once", async () => {
  const name = room();
  const page = await connected(await open(there, `/?room=${name}&to=de`));
  const readers = await Promise.all(["fr", "ja", "en"].map(async (lang) =>
    [lang, await connected(await open(there, `/?room=${name}&role=view&to=${lang}`))]));
  await page.getByRole("button", { name: "Play demo", exact: true }).click();
  await page.click("#speed");
  await page.click("#speed");
  await page.click("#speed");
  await reads(page, "de", "Can everyone see my screen?");
  for (const [lang, reader] of readers) {
    const text = `${lang === "en" ? "" : `[${lang}] `}Can everyone see my screen?`;
    await reads(reader, lang, text);
    assert.equal(await reader.locator(`.caption:not([data-lang="${lang}"])`).count(), 0);
    assert.match(await reader.locator(".speaker").allInnerTexts().then((names) => names.join()), /Nora.*Jonas.*Peter/s);
    assert.deepEqual(reader.faults, []);
  }
  await picture(page, "demo");
  await picture(readers[1][1], "demo-japanese");
  assert.deepEqual(page.faults, []);
});

test("a row that grows never gets lower, and what stands above it never moves", async () => {
  const page = await connected(await open(there, `/?room=${room()}&to=de,fr`));
  await page.evaluate(() => {
    window.jumps = [];
    const last = new Map();
    const look = () => {
      for (const row of document.querySelectorAll(".row")) {
        const [top, height] = [row.offsetTop, row.offsetHeight];
        const before = last.get(row);
        if (before && (before[0] !== top || before[1] > height)) window.jumps.push([row.textContent, before, [top, height]]);
        last.set(row, [top, height]);
      }
      requestAnimationFrame(look);
    };
    look();
  });
  await page.getByRole("button", { name: "Play demo", exact: true }).click();
  for (let n = 0; n < 3; n++) await page.click("#speed");
  await reads(page, "fr", "Who is taking notes today?");
  assert.deepEqual(await page.evaluate(() => window.jumps), []);
});

test("whoever scrolls back stays there, and is offered the way to what is new", async () => {
  const page = await connected(await open(there, `/?room=${room()}&to=de`));
  for (let n = 0; n < 30; n++) {
    await type(page, `line ${n}`);
    await reads(page, "de", `[de] line ${n}`);
  }
  const reader = page.locator("#reader");
  await reader.hover();
  await page.mouse.wheel(0, -2000);
  await page.locator("#newest").waitFor();
  const top = await reader.evaluate((node) => node.scrollTop);
  await type(page, "one more");
  await page.getByRole("button", { name: "Newest captions (1 new)" }).waitFor();
  assert.equal(await reader.evaluate((node) => node.scrollTop), top);
  await picture(page, "scrolled-back");
  await page.click("#newest");
  await page.locator("#newest").waitFor({ state: "hidden" });
});

test("a page at the newest caption stays there when a language is added", async () => {
  const page = await connected(await open(there, `/?room=${room()}&to=de,fr`));
  const long = Array(200).fill("no").join(" ");
  for (const text of [..."abcdefghij", long, "the last one"]) {
    await type(page, text);
    await reads(page, "fr", `[fr] ${text}`);
  }
  await page.getByRole("button", { name: "Add a language" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".row:last-child .caption").length === 3);
  await page.waitForFunction(() => {
    const { scrollHeight, scrollTop, clientHeight } = document.querySelector("#reader");
    return scrollHeight > clientHeight && scrollHeight - scrollTop - clientHeight < 32;
  });
  assert.equal(await page.locator("#newest").isVisible(), false);
});

test("a telephone joins by the code's page, chooses a language, and only reads", async () => {
  const name = room();
  const page = await connected(await open(there, `/?room=${name}`));
  await page.getByRole("button", { name: "Share" }).click();
  await page.locator("#qr path").first().waitFor();
  const address = await page.inputValue("#link-read");
  await picture(page, "share");
  const phone = await open({ ...there, address: "" }, address, { phone: true, dark: true, locale: "fr-FR" });
  const first = phone.locator("#languages a").first();
  assert.match(await first.innerText(), /Français/);
  await picture(phone, "join");
  await first.click();
  await connected(phone);
  await page.keyboard.press("Escape");
  await type(page, "can everybody read this");
  await reads(phone, "fr", "[fr] can everybody read this");
  assert.equal(await phone.locator("#line").isVisible(), false);
  assert.equal(await phone.evaluate(() => document.documentElement.scrollWidth), 390);
  await picture(phone, "telephone");
  assert.deepEqual([...page.faults, ...phone.faults], []);
});

test("what is spoken is read while it is spoken, and to its end", async () => {
  const page = await connected(await open(there, `/?room=${room()}&to=de`, {
    prepare: (fresh) => fresh.addInitScript(() => {
      const recorded = ["we", "we meet", "we meet again", "we meet again on", "we meet again on Thursday"];
      window.SpeechRecognition = class {
        start() {
          this.onstart();
          recorded.forEach((text, i) => setTimeout(() => this.hear(text, false), 150 * i));
          setTimeout(() => this.hear("We meet again on Thursday.", true), 900);
        }
        hear(transcript, isFinal) {
          this.onresult({ results: [Object.assign([{ transcript }], { isFinal })] });
        }
        stop() { this.onend(); }
      };
    }),
  }));
  await page.getByRole("button", { name: "Speak" }).click();
  await page.getByText("Listening (English)").waitFor();
  await picture(page, "speaking");
  await reads(page, "de", "[de] We meet again on Thursday.");
  await page.getByRole("button", { name: "Mute the microphone" }).click();
  await page.getByText("Microphone muted").waitFor();
  assert.deepEqual(page.faults, []);
});

test("a browser that cannot recognise speech says what to do instead", async () => {
  const page = await connected(await open(there, `/?room=${room()}`, {
    prepare: (fresh) => fresh.addInitScript(() => {
      delete window.SpeechRecognition;
      delete window.webkitSpeechRecognition;
    }),
  }));
  await page.getByRole("button", { name: "Speak" }).click();
  await page.getByText("This browser cannot recognise speech").waitFor();
});

test("a transcript that is pasted is said line by line, with its names", async () => {
  const page = await connected(await open(there, `/?room=${room()}&to=de`));
  await page.getByRole("button", { name: "Paste a transcript" }).click();
  await page.fill("#pasted", "Ann: good morning\nBen: hello");
  await page.getByRole("button", { name: "Play", exact: true }).click();
  await reads(page, "de", "[de] hello");
  assert.deepEqual(await page.locator(".speaker").allInnerTexts(), ["Ann", "Ben"]);
});

test("text in angle brackets is pasted as it stands", async () => {
  const page = await connected(await open(there, `/?room=${room()}&to=de`));
  await page.getByRole("button", { name: "Paste a transcript" }).click();
  await page.fill("#pasted", "Ann: use List<T> if a < b\n<b>42</b>");
  await page.getByText("2 lines, 1 speaker").waitFor();
  await page.getByRole("button", { name: "Play", exact: true }).click();
  await reads(page, "de", "[de] <b>42</b>");
  assert.deepEqual(await page.locator(".source").allInnerTexts(), ["use List<T> if a < b", "<b>42</b>"]);
});

for (const [phone, dark] of [[false, false], [true, true]]) {
  test(`text over the limit is announced and sent in pieces, ${phone ? "telephone" : "desk"}`, async () => {
    const page = await connected(await open(there, `/?room=${room()}&to=de`, { phone, dark }));
    const sentence = (n) => `This is sentence number ${n} of a speech that somebody pastes into the line.`;
    const speech = Array.from({ length: 40 }, (_, n) => sentence(n)).join(" ");
    await page.fill("#line", speech);
    await page.getByText("Longer than 2,000 characters: it will be sent as 2 lines.").waitFor();
    await picture(page, `long-${phone ? "telephone" : "desk"}`);
    await page.press("#line", "Enter");
    await reads(page, "de", sentence(39));
    assert.equal((await page.locator(".source").allInnerTexts()).join(" "), speech);
    assert.equal(await page.inputValue("#line"), "");
    assert.equal(await page.locator("#length-note").innerText(), "");
    await page.getByRole("button", { name: "Paste a transcript" }).click();
    await page.fill("#pasted", `Ann: ${speech}`);
    await page.getByText("2 lines, 1 speaker. Lines over 2,000 characters are divided into several.").waitFor();
    await picture(page, `long-pasted-${phone ? "telephone" : "desk"}`);
    await page.getByRole("button", { name: "Play", exact: true }).click();
    await page.waitForFunction(() => document.querySelectorAll('.caption[data-status="final"]').length === 3);
    assert.deepEqual(page.faults, []);
  });
}

test("a moderator is told what a glossary does, where it did not, and what cannot be saved", async () => {
  const name = room();
  const page = await connected(await open(there, `/?room=${name}&role=moderate&to=de`));
  const reader = await connected(await open(there, `/?room=${name}&role=view&to=de`));
  await page.getByRole("button", { name: "Moderate" }).click();
  const save = () => page.getByRole("button", { name: "Save" }).click();
  await page.getByLabel("Term", { exact: true }).fill("standup");
  await save();
  await page.getByText("Each term needs a translation.").waitFor();
  await page.getByLabel("Translation", { exact: true }).fill("ß".repeat(201));
  await save();
  await page.getByText("A term may have 200 characters").waitFor();
  await page.getByLabel("Translation", { exact: true }).fill("Stehung");
  await page.getByLabel("Topic of the meeting").fill("x".repeat(4001));
  await save();
  await page.getByText("The topic has 4001 characters. At most 4000 are allowed.").waitFor();
  await page.getByLabel("Topic of the meeting").fill("Plans");
  await save();
  await page.getByText("Saved for all captions from now on. The translator may not use every term; captions without one are marked.").waitFor();
  await type(page, "the standup is at nine");
  await reads(page, "de", "[de] the standup is at nine");
  await page.getByText("A glossary term was not used").waitFor();
  await picture(page, "glossary");
  await reads(reader, "de", "[de] the standup is at nine");
  assert.equal(await reader.getByText("A glossary term was not used").isVisible(), false);
  await type(page, "nothing special");
  await reads(page, "de", "[de] nothing special");
  assert.equal(await page.getByText("A glossary term was not used").count(), 1);
  assert.deepEqual([...page.faults, ...reader.faults], []);
});

test("the audience's view hides its bar when nobody is at the machine, wherever the pointer was left", async () => {
  const page = await connected(await open(there, `/?room=${room()}&to=de`));
  await type(page, "good morning");
  await reads(page, "de", "[de] good morning");
  const bar = (opacity) => page.waitForFunction((wanted) => getComputedStyle(document.querySelector(".bar")).opacity === wanted, opacity);
  await page.click("#present");
  await bar("0");
  await picture(page, "audience-alone");
  await page.mouse.move(600, 400);
  await bar("1");
  await bar("0");
  await page.keyboard.press("Tab");
  await bar("1");
});

test("a moderator corrects, takes back, sets terms and downloads", async () => {
  const page = await connected(await open(there, `/?room=${room()}&role=moderate&to=de`));
  await type(page, "first");
  await reads(page, "de", "[de] first");
  await type(page, "second");
  await reads(page, "de", "[de] second");
  await page.locator(".row").first().hover();
  await page.getByRole("button", { name: "Correct" }).click();
  await page.getByLabel("Deutsch", { exact: true }).fill("Erstens");
  await page.keyboard.press("Enter");
  await page.locator(".caption", { hasText: "Erstens" }).getByText("Edited").waitFor();
  await page.locator(".row").last().hover();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".row").length === 1);
  await page.getByRole("button", { name: "Moderate" }).click();
  await page.getByLabel("Term", { exact: true }).fill("standup");
  await page.getByLabel("Translation", { exact: true }).fill("Stehung");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved for all captions from now on.").waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "VTT" }).click()]);
  assert.match(download.suggestedFilename(), /\.de\.vtt$/);
  await picture(page, "moderation");
  await page.getByRole("button", { name: "End the meeting" }).click();
  await page.getByRole("button", { name: /Press again/ }).click();
  await page.locator('#state[data-state="closed"]').waitFor();
  assert.deepEqual(page.faults, []);
});

test("on a telephone a tap shows what can be done with a caption, and its original", async () => {
  const page = await connected(await open(there, `/?room=${room()}&role=moderate&to=de`, { phone: true }));
  await type(page, "first");
  await reads(page, "de", "[de] first");
  await page.getByRole("button", { name: "Display" }).tap();
  await page.getByLabel("On request").tap();
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".source").isVisible(), false);
  await page.locator(".row").tap();
  await page.getByRole("button", { name: "Original" }).tap();
  await page.locator(".source").waitFor();
  await page.getByRole("button", { name: "Correct" }).tap();
  await page.getByLabel("Deutsch", { exact: true }).fill("Erstens");
  await page.locator(".editor").getByRole("button", { name: "Save" }).tap();
  await reads(page, "de", "Erstens");
  assert.deepEqual(page.faults, []);
});

test("where no WebSocket comes through, the page reads over HTTP", async () => {
  const name = room();
  const speaker = await connected(await open(there, `/?room=${name}&to=de`));
  const page = await connected(await open(there, `/?room=${name}&to=fr`, {
    prepare: (fresh) => fresh.routeWebSocket(/\/v1\/ws/, (socket) => socket.close({ code: 1011 })),
  }));
  await page.getByText("you can read but not speak").waitFor();
  await type(speaker, "good morning");
  await reads(page, "fr", "[fr] good morning");
  assert.equal(await page.getAttribute("body", "data-role"), "view");
  assert.deepEqual(page.faults, []);
});

test("a line that breaks comes back by itself, and nothing is read twice", async () => {
  let cut;
  const page = await connected(await open(there, `/?room=${room()}&to=de`, {
    prepare: (fresh) => fresh.routeWebSocket(/\/v1\/ws/, (socket) => {
      socket.connectToServer();
      cut = () => socket.close({ code: 1012 });
    }),
  }));
  await type(page, "before");
  await reads(page, "de", "[de] before");
  await cut();
  await page.locator('#state:not([data-state="open"])').waitFor();
  await connected(page);
  await type(page, "after");
  await reads(page, "de", "[de] after");
  assert.deepEqual((await captions(page)).map(([, text]) => text), ["[de] before", "[de] after"]);
});

for (const store of [false, true]) {
  test(`a killed gateway comes back ${store ? "with" : "without"} a store, and every line stands once`, async () => {
    const file = join(mkdtempSync(join(tmpdir(), "store-")), "rooms.db");
    const options = ["--scripted-pace", "0.2", ...(store ? ["--store", `sqlite:${file}`] : [])];
    let killed = await gateway({ options });
    const name = room();
    const opened = (query, more) => open(there, `${query}room=${name}&to=de`, { at: killed.address, ...more });
    const page = await connected(await opened("/?"));
    const reader = await connected(await opened("/?role=view&", { phone: true }));
    const overHttp = await connected(await opened("/?role=view&", {
      prepare: (fresh) => fresh.routeWebSocket(/\/v1\/ws/, (socket) => socket.close({ code: 1011 })),
    }));
    const overlay = await opened("/overlay.html?");
    await type(page, "before the restart");
    for (const one of [page, reader, overHttp]) await reads(one, "de", "[de] before the restart");
    await type(page, "a line whose caption is still being made when the gateway is killed");
    for (const one of [page, reader, overHttp]) await one.locator(".row").nth(1).waitFor();
    await killed.kill();
    await page.locator('#state:not([data-state="open"])').waitFor();
    await type(page, "said meanwhile");
    killed = await gateway({ port: killed.port, options });
    try {
      for (const one of [page, reader, overHttp]) {
        await reads(one, "de", "[de] said meanwhile");
        await one.waitForFunction(() => !document.querySelector('.caption:is([data-status="waiting"], [data-status="growing"])'));
        const texts = await one.locator(".source").allTextContents();
        assert.deepEqual(texts, ["before the restart",
          "a line whose caption is still being made when the gateway is killed", "said meanwhile"]);
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

test("a page that was offline comes back at once, and reads what it missed", async () => {
  const name = room();
  let cut;
  const reader = await connected(await open(there, `/?room=${name}&role=view&to=de`, {
    prepare: (fresh) => fresh.routeWebSocket(/\/v1\/ws/, (socket) => {
      socket.connectToServer();
      cut = () => socket.close({ code: 1012 });
    }),
  }));
  const speaker = await connected(await open(there, `/?room=${name}&to=de`));
  await type(speaker, "before");
  await reads(reader, "de", "[de] before");
  await reader.context().setOffline(true);
  await cut();
  await reader.locator('#state:not([data-state="open"])').waitFor();
  await type(speaker, "meanwhile");
  await reads(speaker, "de", "[de] meanwhile");
  await reader.context().setOffline(false);
  await reads(reader, "de", "[de] meanwhile");
  assert.deepEqual((await captions(reader)).map(([, text]) => text), ["[de] before", "[de] meanwhile"]);
});

test("a gateway that asks for a key is given one, and lets in as far as it reaches", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "keys-")), "keys.toml");
  const made = execFileSync(process.env.GATEWAY_PYTHON ?? "python3", ["-m", "gateway", "key", "ann", "--keys", file, "--role", "speak"]);
  const [key] = /gwk_\S+/.exec(made.toString());
  const closed = await gateway({ options: ["--keys", file] });
  try {
    const page = await open(there, `/?room=${room()}&role=moderate&to=de`, { at: closed.address });
    await page.getByLabel("Key", { exact: true }).fill("gwk_0_wrong");
    await page.keyboard.press("Enter");
    await page.getByText("This key was not accepted.").waitFor();
    await picture(page, "key");
    await page.getByLabel("Key", { exact: true }).fill(key);
    await page.keyboard.press("Enter");
    await connected(page);
    assert.equal(await page.getAttribute("body", "data-role"), "speak");
    await type(page, "good morning");
    await reads(page, "de", "[de] good morning");
    await page.getByRole("button", { name: "Share" }).click();
    await page.getByLabel("Key for readers").fill(key);
    await page.keyboard.press("Tab");
    await page.locator("#qr path").first().waitFor();
    const phone = await open({ ...there, address: "" }, await page.inputValue("#link-read"), { phone: true });
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

test("a meeting on the local network: who runs it has links for readers without a word about keys", async () => {
  const local = await gateway({ options: ["--lan"] });
  try {
    const [, speak] = await local.said(/Speak +(\S+)/);
    const [, here] = await local.said(/this machine: (\S+)/);
    const [, read] = await local.said(/Read +(\S+)/);
    const network = new URL(read).origin;
    for (const [link, name] of [[speak, "lan"], [here, "lan-here"]]) {
      const page = await connected(await open({ ...there, address: "" }, link));
      assert.equal(await page.getAttribute("body", "data-role"), "moderate");
      assert.equal(new URL(page.url()).hash, "");
      await page.getByRole("button", { name: "Share" }).click();
      await page.locator("#qr path").first().waitFor();
      assert.equal(await page.inputValue("#link-read"), read);
      assert.equal(new URL(await page.inputValue("#link-overlay")).origin, network);
      assert.equal(await page.getByLabel("Key for readers").isVisible(), false);
      assert.equal(await page.locator("#local-note").isVisible(), false);
      await picture(page, name);
      await page.keyboard.press("Escape");
      const phone = await open({ ...there, address: "" }, read, { phone: true });
      await phone.locator('#languages a[lang="de"]').click();
      await connected(phone);
      assert.equal(await phone.getAttribute("body", "data-role"), "view");
      await type(page, `good morning ${name}`);
      await reads(phone, "de", `[de] good morning ${name}`);
      assert.deepEqual([...page.faults, ...phone.faults], []);
    }
  } finally {
    await local.stop();
  }
});

test("a gateway that is killed in mid-meeting and started again loses nothing that was finished", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "meeting-")), "rooms.db");
  const options = ["--store", `sqlite:${file}`];
  const first = await gateway({ options });
  const page = await connected(await open(there, `/?room=${room()}&to=de`, { at: first.address }));
  for (const text of ["one", "two", "three"]) {
    await type(page, text);
    await reads(page, "de", `[de] ${text}`);
  }
  await page.waitForTimeout(1500); // the store writes once a second
  await first.kill();
  await page.locator('#state:not([data-state="open"])').waitFor();
  await picture(page, "no-connection");
  const second = await gateway({ port: first.port, options });
  try {
    await connected(page);
    await type(page, "four");
    await reads(page, "de", "[de] four");
    const texts = (await captions(page)).map(([, text]) => text);
    for (const text of ["one", "two", "three", "four"]) assert.ok(texts.includes(`[de] ${text}`), texts.join());
  } finally {
    await second.stop();
  }
});
