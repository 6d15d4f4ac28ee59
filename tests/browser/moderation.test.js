// Moderation in a browser: terms, corrections, deletions, the end of a meeting.

import assert from "node:assert/strict";
import { test } from "node:test";

import { connected, hasCaption, newRoom, open, picture, type, useBrowser, violations } from "./fixtures.js";

const environment = useBrowser();

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
