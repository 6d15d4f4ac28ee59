// The JavaScript client as a package: packed, installed in a fresh project, and used as its README says.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const PACKAGE = join(HERE, "../../clients/js");
const TEXT = "Good morning everybody";
const { dependencies } = JSON.parse(readFileSync(join(HERE, "package.json"), "utf8"));

const project = mkdtempSync(join(tmpdir(), "project-"));
const npm = (...args) => execFileSync("npm", args, { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

before(() => {
  const [{ filename, files }] = JSON.parse(npm("pack", PACKAGE, "--json"));
  assert.deepEqual(
    new Set(files.map(({ path }) => path)),
    new Set([...readdirSync(PACKAGE).filter((name) => name !== ".npmignore"), "LICENSE", "NOTICE"]),
  );
  writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module", private: true }));
  const tools = ["ws", "@types/ws", "typescript"].map((name) => `${name}@${dependencies[name]}`);
  npm("install", "--prefer-offline", "--no-audit", "--no-fund", `./${filename}`, ...tools);
});
after(() => rmSync(project, { recursive: true }));

test("the example of the README prints captions as they grow", async () => {
  const [, example] = /```js\n(.*?)```/s.exec(readFileSync(join(PACKAGE, "README.md"), "utf8"));
  assert.ok(example.trim().split("\n").length <= 20);
  const program = example
    .replace("ws://127.0.0.1:8000", process.env.GATEWAY_URL)
    .replace("Good morning, everybody.", TEXT)
    .replace('room: "board"', `room: "board-${process.pid}"`);
  writeFileSync(join(project, "example.js"), program);
  const running = spawn(process.execPath, ["example.js"], { cwd: project, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => running.once("exit", resolve));
  const printed = [];
  for await (const line of createInterface(running.stdout)) {
    printed.push(line);
    if (line === "Ann: Guten Morgen 👋 zusammen|" && printed.indexOf(line) === printed.length - 1) running.kill("SIGINT");
  }
  assert.equal(await ended, 0);
  assert.match(printed[0], /^Ann: (Guten)?\|/);
});

test("a program in TypeScript fits the types of the package in strict mode", () => {
  copyFileSync(join(HERE, "example.ts"), join(project, "example.ts"));
  const compilerOptions = {
    strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true, skipLibCheck: false, noEmit: true,
    target: "es2022", module: "nodenext", lib: ["es2023", "dom", "dom.iterable"], types: ["node"],
  };
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["example.ts"] }));
  try {
    npm("exec", "--", "tsc");
  } catch (error) {
    assert.fail(error.stdout);
  }
});

test("the types name all that the package exports", async () => {
  const types = readFileSync(join(PACKAGE, "index.d.ts"), "utf8");
  const declared = [...types.matchAll(/^export declare (?:const|class|function) (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(declared.sort(), Object.keys(await import("../../clients/js/index.js")).sort());
});
