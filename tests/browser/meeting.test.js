// Meetings in a browser: typing, speaking, the demo, telephones.

import assert from "node:assert/strict";
import { test } from "node:test";

import { connected, hasCaption, isAtNewest, newRoom, open, picture, type, useBrowser } from "./fixtures.js";

const environment = useBrowser();

test("a typed line is read in two languages, and its markup stays text", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de,ar`));
  const text = 'good <b>morning</b> <img src=x onerror="throw 1">';
  await type(page, text);
  await hasCaption(page, "de", `[de] ${text}`);
  await hasCaption(page, "ar", `[ar] ${text}`);
  assert.equal(await page.locator(".caption img, .caption b").count(), 0);
  const arabic = page.locator('.caption[data-lang="ar"]');
  assert.deepEqual([await arabic.getAttribute("lang"), await arabic.getAttribute("dir")], ["ar", "rtl"]);
  await picture(page, "typed");
  assert.deepEqual(page.faults, []);
});

test("readers see who speaks while a line is typed, and a name is asked for once", async () => {
  const room = newRoom();
  const page = await connected(await open(environment, `/?room=${room}&to=de`));
  const reader = await connected(await open(environment, `/?room=${room}&role=view&to=de`));
  await reader.getByText("Captions will appear here when someone speaks.").waitFor();
  await page.locator("#start").getByLabel("Your name").fill("Åsa");
  await page.locator("#start").getByLabel("Your name").press("Enter");
  await page.locator("#line").pressSequentially("we meet again on Thursday ");
  const [name] = [reader.locator(".row .speaker", { hasText: "Åsa" })];
  await name.waitFor();
  assert.equal(await reader.locator(".source").count() && await reader.locator(".source").first().innerText(), "");
  await picture(reader, "speaker-of-a-draft");
  await page.press("#line", "Enter");
  await type(page, "at nine");
  await hasCaption(reader, "de", "[de] at nine");
  for (const one of [page, reader]) assert.equal(await one.locator(".row[data-new-speaker]").count(), 1);
  await picture(page, "named");
  await page.reload();
  assert.equal(await connected(page).then(() => page.inputValue("#name")), "Åsa");
  await type(page, "after the reload");
  await hasCaption(reader, "de", "[de] after the reload");
  assert.deepEqual(await reader.locator(".speaker span").allTextContents(), ["Åsa", "Åsa", "Åsa"]);
  assert.deepEqual([...page.faults, ...reader.faults], []);
});

test("what is typed before the page can tell languages apart is shown once it can", async () => {
  const room = newRoom();
  let load;
  const asked = new Promise((resolve) => (load = resolve));
  const page = await connected(await open(environment, `/?room=${room}&speaker=Ann&to=de`, {
    prepare: (fresh) => Promise.all([fresh.clock.install(), fresh.route("**/speech/writing.js", load)]),
  }));
  const reader = await connected(await open(environment, `/?room=${room}&role=view&to=de`));
  await page.press("#line", "Enter"); // nothing is typed yet, so nothing is said
  await page.locator("#line").pressSequentially("we meet again on Thursday ");
  const route = await asked;
  await page.clock.fastForward(1000); // an unfinished text would be sent by now
  assert.equal(await reader.locator(".row").count(), 0);
  await route.continue();
  await reader.locator(".row .speaker", { hasText: "Ann" }).waitFor();
  assert.equal(await reader.locator(".source").innerText(), "");
  await page.press("#line", "Enter");
  await hasCaption(reader, "de", "[de] we meet again on Thursday");
  assert.deepEqual(page.faults, []);
});

test("the demo is read in three languages on three pages at once", async () => {
  const name = newRoom();
  const page = await connected(await open(environment, `/?room=${name}&to=de`));
  const readers = await Promise.all(["fr", "ja", "en"].map(async (lang) =>
    [lang, await connected(await open(environment, `/?room=${name}&role=view&to=${lang}`))]));
  await page.locator("#people").getByText("4 people").waitFor(); // else it depends on the time whether they are asked about
  await page.getByRole("button", { name: "Play demo", exact: true }).click();
  await page.locator("#demo-dialog .primary").click();
  await page.click("#speed");
  await page.click("#speed");
  await page.click("#speed");
  await hasCaption(page, "de", "The train is late.");
  for (const [lang, reader] of readers) {
    const text = `${lang === "en" ? "" : `[${lang}] `}The train is late.`;
    await hasCaption(reader, lang, text);
    assert.equal(await reader.locator(`.caption:not([data-lang="${lang}"])`).count(), 0);
    assert.match(await reader.locator(".speaker").allInnerTexts().then((names) => names.join()), /Nora.*Jonas.*Peter/s);
    assert.deepEqual(reader.faults, []);
  }
  await picture(page, "demo");
  await picture(readers[1][1], "demo-japanese");
  assert.deepEqual(page.faults, []);
});

test("a growing row never becomes lower, and rows above it never move", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de,fr`));
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
  await hasCaption(page, "fr", "The new app is almost ready.");
  assert.deepEqual(await page.evaluate(() => window.jumps), []);
});

test("a reader who scrolls back stays there and is offered a button to the newest captions", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de`));
  for (let n = 0; n < 30; n++) {
    await type(page, `line ${n}`);
    await hasCaption(page, "de", `[de] line ${n}`);
  }
  await isAtNewest(page);
  const reader = page.locator("#reader");
  await reader.hover();
  await page.mouse.wheel(0, -2000);
  await page.locator("#newest").waitFor();
  // The browser may scroll in several steps.
  await page.waitForFunction(() => document.querySelector("#reader").scrollTop === 0);
  await type(page, "one more");
  await page.getByRole("button", { name: "Newest captions (1 new)" }).waitFor();
  assert.equal(await reader.evaluate((node) => node.scrollTop), 0);
  await picture(page, "scrolled-back");
  await page.click("#newest");
  await page.locator("#newest").waitFor({ state: "hidden" });
});

test("an open editor stays in sight while new captions arrive", async () => {
  const name = newRoom();
  const page = await connected(await open(environment, `/?room=${name}&role=moderate&to=de`));
  const other = await connected(await open(environment, `/?room=${name}&to=de`));
  for (let n = 0; n < 20; n++) {
    await type(page, `line ${n}`);
    await hasCaption(page, "de", `[de] line ${n}`);
  }
  // The first row that is in sight may be partly behind the column heads.
  const first = await page.locator("#column-heads").evaluate((heads) => {
    const { bottom } = heads.getBoundingClientRect();
    return [...document.querySelectorAll(".row")].findIndex((row) => row.getBoundingClientRect().bottom > bottom + 10);
  });
  await page.locator(".row").nth(first).focus();
  await page.getByRole("button", { name: "Correct" }).click();
  const field = page.getByLabel("Deutsch", { exact: true });
  for (let n = 0; n < 5; n++) {
    await type(other, `meanwhile ${n}`);
    await hasCaption(page, "de", `[de] meanwhile ${n}`);
  }
  const [heads, box] = [await page.locator("#column-heads").boundingBox(), await field.boundingBox()];
  assert.ok(box.y >= heads.y + heads.height, JSON.stringify([box, heads]));
  await field.fill("corrected");
  await field.press("Enter");
  await hasCaption(page, "de", "corrected");
  await isAtNewest(page);
  assert.deepEqual([...page.faults, ...other.faults], []);
});

test("a page at the newest caption stays there when a language is added", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de,fr`));
  const long = Array(200).fill("no").join(" ");
  for (const text of [..."abcdefghij", long, "the last one"]) {
    await type(page, text);
    await hasCaption(page, "fr", `[fr] ${text}`);
  }
  await page.getByRole("button", { name: "Add a language" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".row:last-child .caption").length === 3);
  await isAtNewest(page);
  assert.equal(await page.locator("#newest").isVisible(), false);
});

test("a telephone joins by the link of the QR code, chooses a language and can only read", async () => {
  const name = newRoom();
  const page = await connected(await open(environment, `/?room=${name}`));
  await page.getByRole("button", { name: "Share" }).click();
  await page.locator("#local-note").waitFor();
  const address = await page.inputValue("#link-read");
  await picture(page, "share");
  const phone = await open({ ...environment, address: "" }, address, { phone: true, dark: true, locale: "fr-FR" });
  const first = phone.locator("#languages a").first();
  assert.match(await first.innerText(), /Français/);
  await picture(phone, "join");
  await first.click();
  await connected(phone);
  await page.keyboard.press("Escape");
  await type(page, "can everybody read this");
  await hasCaption(phone, "fr", "[fr] can everybody read this");
  assert.equal(await phone.locator("#line").isVisible(), false);
  assert.equal(await phone.evaluate(() => document.documentElement.scrollWidth), 390);
  await picture(phone, "telephone");
  assert.deepEqual([...page.faults, ...phone.faults], []);
});

test("speech is captioned while it is spoken and when it is finished", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de`, {
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
  await page.getByText("Listening (English). Your browser sends the sound to its own speech service.").waitFor();
  await picture(page, "speaking");
  await hasCaption(page, "de", "[de] We meet again on Thursday.");
  await page.getByRole("button", { name: "Mute the microphone" }).click();
  await page.getByText("Microphone muted").waitFor();
  assert.deepEqual(page.faults, []);
});

test("a browser without speech recognition suggests what to do instead", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}`, {
    prepare: (fresh) => fresh.addInitScript(() => {
      delete window.SpeechRecognition;
      delete window.webkitSpeechRecognition;
    }),
  }));
  await page.getByRole("button", { name: "Speak" }).click();
  await page.getByText("This browser cannot recognise speech").waitFor();
});

test("a pasted transcript is played line by line with its speakers", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de`));
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("button", { name: "Paste a transcript" }).click();
  await page.fill("#pasted", "Ann: good morning\nBen: hello");
  await page.getByRole("button", { name: "Play", exact: true }).click();
  await hasCaption(page, "de", "[de] hello");
  assert.deepEqual(await page.locator(".speaker").allInnerTexts(), ["Ann", "Ben"]);
});

test("a pasted transcript keeps its order when the gateway refuses its first line for a while", async () => {
  const refusal = { type: "error", code: "busy", fatal: false, retry: true, retry_ms: 3000, msg: "The engine has more to do than it can." };
  let refused = false;
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de`, {
    prepare: (fresh) => fresh.routeWebSocket(/\/v1\/ws/, (socket) => {
      const gateway = socket.connectToServer();
      socket.onMessage((frame) => {
        const { type, id } = JSON.parse(frame);
        if (type !== "say" || refused) return gateway.send(frame);
        refused = true;
        socket.send(JSON.stringify({ ...refusal, id }));
      });
    }),
  }));
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("button", { name: "Paste a transcript" }).click();
  await page.fill("#pasted", "one\ntwo"); // the second is due before the first is said again
  await page.getByRole("button", { name: "Play", exact: true }).click();
  await hasCaption(page, "de", "[de] two");
  assert.equal(refused, true);
  assert.deepEqual(await page.locator(".source").allInnerTexts(), ["one", "two"]);
});

test("a pasted transcript keeps text in angle brackets", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de`));
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("button", { name: "Paste a transcript" }).click();
  await page.fill("#pasted", "Ann: use List<T> if a < b\n<b>42</b>");
  await page.getByText("2 lines, 1 speaker").waitFor();
  await page.getByRole("button", { name: "Play", exact: true }).click();
  await hasCaption(page, "de", "[de] <b>42</b>");
  assert.deepEqual(await page.locator(".source").allInnerTexts(), ["use List<T> if a < b", "<b>42</b>"]);
});

for (const [phone, dark] of [[false, false], [true, true]]) {
  test(`text over the limit is announced and sent as several lines, ${phone ? "telephone" : "desk"}`, async () => {
    const page = await connected(await open(environment, `/?room=${newRoom()}&to=de`, { phone, dark }));
    const sentence = (n) => `This is sentence number ${n} of a speech that somebody pastes into the line.`;
    const speech = Array.from({ length: 40 }, (_, n) => sentence(n)).join(" ");
    await page.fill("#line", speech);
    await page.getByText("Longer than 2,000 characters: it will be sent as 2 lines.").waitFor();
    await picture(page, `long-${phone ? "telephone" : "desk"}`);
    await page.press("#line", "Enter");
    await hasCaption(page, "de", sentence(39));
    assert.equal((await page.locator(".source").allInnerTexts()).join(" "), speech);
    assert.equal(await page.inputValue("#line"), "");
    assert.equal(await page.locator("#input-note").innerText(), "");
    await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("button", { name: "Paste a transcript" }).click();
    await page.fill("#pasted", `Ann: ${speech}`);
    await page.getByText("2 lines, 1 speaker. Lines over 2,000 characters are divided into several.").waitFor();
    await picture(page, `long-pasted-${phone ? "telephone" : "desk"}`);
    await page.getByRole("button", { name: "Play", exact: true }).click();
    await page.waitForFunction(() => document.querySelectorAll('.caption[data-status="final"]').length === 3);
    assert.deepEqual(page.faults, []);
  });
}

test("the presentation view begins at the newest caption", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de`));
  for (let n = 0; n < 30; n++) {
    await type(page, `line ${n}`);
    await hasCaption(page, "de", `[de] line ${n}`);
  }
  await page.locator("#reader").hover();
  await page.mouse.wheel(0, -2000);
  await page.locator("#newest").waitFor();
  await page.click("#present");
  await isAtNewest(page);
  assert.deepEqual(page.faults, []);
});

test("the presentation view hides its toolbar when nobody uses the machine, wherever the pointer is", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&to=de`));
  await type(page, "good morning");
  await hasCaption(page, "de", "[de] good morning");
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

test("the logo asks before it leaves a meeting", async () => {
  const name = newRoom();
  const page = await connected(await open(environment, `/?room=${name}&to=de`));
  await type(page, "good morning");
  await hasCaption(page, "de", "[de] good morning");
  await page.locator(".brand").click();
  await page.getByRole("heading", { name: "Leave this meeting?" }).waitFor();
  await picture(page, "leaving");
  await page.getByRole("button", { name: "Stay" }).click();
  assert.equal(new URL(page.url()).searchParams.get("room"), name);
  await page.locator(".brand").click();
  await page.locator("#leave-dialog").getByRole("link", { name: "New meeting" }).click();
  await page.locator("#start").waitFor();
  assert.notEqual(new URL(page.url()).searchParams.get("room"), name);
});
