// Speech of a microphone that Chromium plays from a file, recognised by the gateway.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { chromium } from "playwright-core";

import { captions, connected, hasCaption, newRoom, open, picture } from "./fixtures.js";

const RATE = 16_000;
const SPOKEN_S = 6;
const PYTHON = process.env.GATEWAY_PYTHON ?? "python3";

/** Return a WAV file of syllables, four in a second, and of a silence after them. */
function syllables() {
  const samples = new Int16Array((SPOKEN_S + 20) * RATE);
  for (let at = 0; at < SPOKEN_S * RATE; at++) {
    const second = at / RATE;
    const pitch = 120 + 30 * Math.sin(2 * Math.PI * 0.7 * second);
    const loudness = Math.max(0, Math.sin(2 * Math.PI * 2 * second)) ** 0.5;
    samples[at] = 20_000 * loudness * (2 * ((second * pitch) % 1) - 1);
  }
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.writeUInt32LE(36 + samples.byteLength, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(RATE, 24);
  head.writeUInt32LE(2 * RATE, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(samples.byteLength, 40);
  const file = join(mkdtempSync(join(tmpdir(), "spoken-")), "spoken.wav");
  writeFileSync(file, Buffer.concat([head, Buffer.from(samples.buffer)]));
  return file;
}

/** Run `check` with a gateway that recognises speech, and a browser whose microphone plays a file. */
async function withMicrophone(file, recogniser, check) {
  const gateway = spawn(PYTHON, ["-m", "tests.support.speech_gateway", recogniser], { stdio: ["ignore", "ignore", "pipe"] });
  let browser;
  try {
    const address = await new Promise((resolve, reject) => {
      let printed = "";
      gateway.stderr.on("data", (text) => {
        const found = /http:\/\/\S+/.exec(printed += text);
        if (found) resolve(found[0]);
      });
      gateway.once("exit", () => reject(new Error(`The gateway did not start: ${printed}`)));
    });
    browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-dev-shm-usage", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
             `--use-file-for-fake-audio-capture=${file}%noloop`],
    });
    await check({ browser, address });
  } finally {
    await browser?.close();
    gateway.kill("SIGKILL");
  }
}

/** Open a reader of three languages and a speaker, and press the speaker's microphone. */
async function speak(environment) {
  const name = newRoom();
  const reader = await connected(await open(environment, `/?room=${name}&role=view&to=de,fr,es`));
  const speaker = await connected(await open(environment, `/?room=${name}&to=de`, { permissions: ["microphone"] }));
  await speaker.getByRole("button", { name: "Speak" }).click();
  await speaker.getByText("Listening (English). The sound goes to the server of this meeting alone.").waitFor();
  return { reader, speaker };
}

test("a microphone is captioned in three languages on another page", () => withMicrophone(syllables(), "scripted", async (environment) => {
  const { reader, speaker } = await speak(environment);
  await speaker.waitForFunction(() => document.querySelector("#mic-level").value > 0.1);
  await speaker.locator(".source", { hasText: "We meet" }).first().waitFor();
  await picture(speaker, "microphone");
  await speaker.click("#dock-toggle");
  assert.ok(await speaker.locator("#mic-device option").count() > 1);
  await speaker.getByRole("checkbox", { name: "Deutsch" }).check();
  await picture(speaker, "microphone-options");
  for (const lang of ["de", "fr", "es"]) {
    await reader.locator(`.caption[data-lang="${lang}"]`, { hasText: `[${lang}]` }).first().waitFor();
  }
  await speaker.getByRole("button", { name: "Mute the microphone" }).click();
  await speaker.getByText("Microphone muted").waitFor();
  await reader.waitForFunction(() => !document.querySelector('.caption:is([data-status="waiting"], [data-status="growing"])'));
  const shown = await captions(reader);
  assert.deepEqual([...new Set(shown.map(([lang]) => lang))].sort(), ["de", "es", "fr"]);
  assert.ok(shown.every(([lang, text]) => text.startsWith(`[${lang}] `)), JSON.stringify(shown));
  assert.deepEqual([...speaker.faults, ...reader.faults], []);
}));

test("a real recording is recognised by a real model while it is spoken", () => {
  const find = "from benchmarks.speech import material; print(material._package('moonshine_voice') / 'assets' / 'beckett.wav')";
  const recording = execFileSync(PYTHON, ["-c", find]).toString().trim();
  return withMicrophone(recording, "whisper", async (environment) => {
    const { reader, speaker } = await speak(environment);
    for (const lang of ["de", "fr", "es"]) await hasCaption(reader, lang, /ever failed/i);
    await hasCaption(reader, "de", /better/i);
    await picture(reader, "real-speech");
    assert.deepEqual([...speaker.faults, ...reader.faults], []);
  });
});
