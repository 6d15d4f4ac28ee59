// Speech of a microphone that Chromium plays from a file, recognised by the gateway.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { chromium } from "playwright-core";

import { captions, connected, newRoom, open, picture } from "./fixtures.js";

const RATE = 16_000;
const SPOKEN_S = 6;
const environment = {};

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

before(async () => {
  const python = process.env.GATEWAY_PYTHON ?? "python3";
  environment.gateway = spawn(python, ["-m", "tests.support.speech_gateway"], { stdio: ["ignore", "ignore", "pipe"] });
  environment.address = await new Promise((resolve, reject) => {
    let printed = "";
    environment.gateway.stderr.on("data", (text) => {
      const found = /http:\/\/\S+/.exec(printed += text);
      if (found) resolve(found[0]);
    });
    environment.gateway.once("exit", () => reject(new Error(`The gateway did not start: ${printed}`)));
  });
  environment.browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
           `--use-file-for-fake-audio-capture=${syllables()}%noloop`],
  });
});

after(async () => {
  await environment.browser?.close();
  environment.gateway?.kill("SIGKILL");
});

test("a microphone is captioned in three languages on another page", async () => {
  const name = newRoom();
  const reader = await connected(await open(environment, `/?room=${name}&role=view&to=de,fr,es`));
  const speaker = await connected(await open(environment, `/?room=${name}&to=de`, { permissions: ["microphone"] }));
  await speaker.getByRole("button", { name: "Speak" }).click();
  await speaker.getByText("Listening (English). The sound goes to this gateway alone.").waitFor();
  await speaker.waitForFunction(() => document.querySelector("#mic-level").value > 0.1);
  await speaker.locator(".source", { hasText: "We meet" }).first().waitFor();
  await picture(speaker, "microphone");
  await speaker.locator("#mic-options summary").click();
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
});
