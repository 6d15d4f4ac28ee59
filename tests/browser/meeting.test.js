// Meetings in a browser: typing, speaking, the demo, moderation, telephones.

import assert from "node:assert/strict";
import { test } from "node:test";

import { connected, hasCaption, isAtNewest, newRoom, open, picture, type, useBrowser, violations } from "./fixtures.js";

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

test("the demo is read in three languages on three pages at once", async () => {
  const name = newRoom();
  const page = await connected(await open(environment, `/?room=${name}&to=de`));
  const readers = await Promise.all(["fr", "ja", "en"].map(async (lang) =>
    [lang, await connected(await open(environment, `/?room=${name}&role=view&to=${lang}`))]));
  await page.getByRole("button", { name: "Play demo", exact: true }).click();
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

test("a moderator learns what the glossary does, which captions lack a term and what cannot be saved", async () => {
  const name = newRoom();
  const page = await connected(await open(environment, `/?room=${name}&role=moderate&to=de`));
  const reader = await connected(await open(environment, `/?room=${name}&role=view&to=de`));
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
  await page.getByText("The topic has 4,001 characters. At most 4,000 are allowed.").waitFor();
  await page.getByLabel("Topic of the meeting").fill("Plans");
  await save();
  await page.getByText("Saved for all captions from now on.").waitFor();
  await page.getByText("This translator cannot be told terms. Captions are only checked for them").waitFor();
  await type(page, "the standup is at nine");
  await hasCaption(page, "de", "[de] the standup is at nine");
  await page.getByText("A glossary term was not used").waitFor();
  await page.locator("#terms").getByText("Not used in 1 caption: German").waitFor();
  await picture(page, "glossary");
  await hasCaption(reader, "de", "[de] the standup is at nine");
  assert.equal(await reader.getByText("A glossary term was not used").isVisible(), false);
  await type(page, "nothing special");
  await hasCaption(page, "de", "[de] nothing special");
  assert.equal(await page.getByText("A glossary term was not used").count(), 1);
  assert.deepEqual([...page.faults, ...reader.faults], []);
});

test("a term has a translation for each language that is read, and a moderator who comes later finds it", async () => {
  const name = newRoom();
  const page = await connected(await open(environment, `/?room=${name}&role=moderate&to=de,ja`));
  const reader = await connected(await open(environment, `/?room=${name}&role=view&to=fr`));
  await page.locator("#people", { hasText: "2 people" }).waitFor();
  await page.getByRole("button", { name: "Moderate" }).click();
  await page.getByLabel("Term", { exact: true }).fill("standup");
  await page.getByLabel("Translation", { exact: true }).fill("Stehung");
  await page.getByRole("button", { name: "One translation for each language" }).click();
  const fields = page.getByRole("group", { name: "One translation for each language" });
  assert.deepEqual(await fields.locator("label").allInnerTexts(), ["Deutsch", "日本語", "Français"]);
  await fields.getByLabel("Deutsch").fill("standup"); // as the scripted engine says it
  await fields.getByLabel("日本語").fill("朝会");
  await fields.getByLabel("Français").fill("");
  await picture(page, "glossary-languages");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved for all captions from now on.").waitFor();
  await type(page, "the standup is at nine");
  await hasCaption(page, "ja", "[ja] the standup is at nine");
  await page.locator("#terms").getByText("Not used in 1 caption: Japanese").waitFor();
  assert.equal(await page.locator(".caption .term").count(), 1, "German has its term");
  assert.deepEqual(await violations(page), []);
  const other = await connected(await open(environment, `/?room=${name}&role=moderate&to=de`, { phone: true }));
  await other.getByRole("button", { name: "Moderate" }).click();
  assert.equal(await other.locator("#terms").getByLabel("日本語").inputValue(), "朝会");
  await picture(other, "glossary-telephone");
  await other.getByRole("button", { name: "One translation for each language" }).click();
  assert.equal(await other.getByLabel("Translation", { exact: true }).inputValue(), "standup");
  assert.deepEqual([...page.faults, ...reader.faults, ...other.faults], []);
});

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

test("a moderator corrects and deletes captions, sets terms, downloads a transcript and ends the meeting", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&role=moderate&to=de`));
  await type(page, "first");
  await hasCaption(page, "de", "[de] first");
  await type(page, "second");
  await hasCaption(page, "de", "[de] second");
  await page.locator(".row").first().hover();
  await page.getByRole("button", { name: "Correct" }).click();
  await page.getByLabel("Deutsch", { exact: true }).fill("Erstens");
  await page.keyboard.press("Enter");
  await page.locator(".caption", { hasText: "Erstens" }).getByText("Edited").waitFor();
  await page.locator(".row").last().hover();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete now" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".row").length === 1);
  await page.getByRole("button", { name: "Moderate" }).click();
  await page.getByLabel("Term", { exact: true }).fill("standup");
  await page.getByLabel("Translation", { exact: true }).fill("Stehung");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved for all captions from now on.").waitFor();
  await page.getByRole("button", { name: "Transcript", exact: true }).click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "VTT" }).click()]);
  assert.match(download.suggestedFilename(), /\.de\.vtt$/);
  await page.getByRole("button", { name: "Moderate" }).click();
  await picture(page, "moderation");
  await page.getByRole("button", { name: "End the meeting" }).click();
  await page.getByRole("button", { name: "End for everybody" }).click();
  await page.locator('#state[data-state="closed"]').waitFor();
  assert.deepEqual(page.faults, []);
});

test("one click deletes no line for everybody, and a deletion can be taken back", async () => {
  const name = newRoom();
  const page = await connected(await open(environment, `/?room=${name}&role=moderate&to=de`));
  const reader = await connected(await open(environment, `/?room=${name}&role=view&to=de`));
  await type(page, "stays");
  await hasCaption(page, "de", "[de] stays");
  await page.locator(".row").hover();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByText("This line will be deleted for everybody.").waitFor();
  await picture(page, "deleting");
  await page.getByRole("button", { name: "Undo" }).click();
  await type(page, "goes");
  await hasCaption(reader, "de", "[de] goes");
  await page.locator(".row").last().hover();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete now" }).waitFor();
  await reader.locator(".row", { hasText: "goes" }).waitFor({ state: "detached" }); // the time for taking it back is over
  assert.deepEqual(await reader.locator(".caption").allInnerTexts(), ["[de] stays"]);
  assert.deepEqual([...page.faults, ...reader.faults], []);
});

test("the actions on a caption cover no text", async () => {
  for (const original of ["Always", "On request"]) {
    const page = await connected(await open(environment, `/?room=${newRoom()}&role=moderate&to=de,fr,ja`));
    await page.getByRole("button", { name: "Display" }).click();
    await page.getByLabel(original).check();
    await page.keyboard.press("Escape");
    await type(page, Array(40).fill("meeting").join(" "));
    await hasCaption(page, "ja", "[ja] meeting");
    await page.locator(".row").hover();
    const box = await page.locator(".caption-actions").boundingBox();
    const texts = await page.locator(".source:visible, .caption").evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect().right));
    for (const right of texts) assert.ok(right <= box.x, `${original}: ${right} > ${box.x}`);
    await picture(page, `actions-${original === "Always" ? "originals" : "captions"}`);
    await page.context().close();
  }
});

test("the end of a meeting is asked for, and its transcripts in all languages can be saved before and after", async () => {
  const name = newRoom();
  const page = await connected(await open(environment, `/?room=${name}&role=moderate&to=de`));
  const reader = await connected(await open(environment, `/?room=${name}&role=view&to=fr`, { phone: true }));
  await type(page, "good morning");
  await hasCaption(reader, "fr", "[fr] good morning");
  await page.getByText("2 people").waitFor();
  await type(page, "to be deleted");
  await hasCaption(page, "de", "[de] to be deleted");
  await page.locator(".row").last().hover();
  await page.getByRole("button", { name: "Delete" }).click(); // within the time in which it can be undone the meeting ends
  await page.getByRole("button", { name: "Moderate" }).click();
  await page.getByRole("button", { name: "End the meeting" }).click();
  await picture(page, "ending");
  const save = async (label) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: label }).click()]);
    const parts = [];
    for await (const part of await download.createReadStream()) parts.push(part);
    return [download.suggestedFilename(), Buffer.concat(parts).toString()];
  };
  assert.match((await save("Original: Text")).join(), /\.txt,.*good morning/s);
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal(await page.locator("#ended").isVisible(), false);
  await page.getByRole("button", { name: "End the meeting" }).click();
  await page.getByRole("button", { name: "End for everybody" }).click();
  for (const one of [page, reader]) await one.getByRole("heading", { name: "The meeting has ended" }).waitFor();
  await picture(page, "ended");
  await picture(reader, "ended-telephone");
  assert.match((await save("Français: Text")).join(), /\.fr\.txt,.*\[fr\] good morning/s);
  assert.match((await save("Deutsch: Subtitles")).join(), /\.de\.vtt,.*\[de\] good morning/s);
  assert.equal((await fetch(`${environment.address}/v1/rooms/${name}/transcript.txt`)).status, 404);
  for (const control of ["#share", "#moderation", "#line", "#mic", ".deletion"]) assert.equal(await page.locator(control).isVisible(), false, control);
  assert.equal(await reader.getByRole("button", { name: "Français: Text" }).isVisible(), true, "readers save what they read, too");
  await page.getByRole("link", { name: "New meeting" }).last().click();
  await connected(page);
  assert.notEqual(new URL(page.url()).searchParams.get("room"), name);
  assert.deepEqual([...page.faults, ...reader.faults], []);
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

test("on a telephone a tap shows the actions on a caption", async () => {
  const page = await connected(await open(environment, `/?room=${newRoom()}&role=moderate&to=de`, { phone: true }));
  await type(page, "first");
  await hasCaption(page, "de", "[de] first");
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
  await hasCaption(page, "de", "Erstens");
  assert.deepEqual(page.faults, []);
});
