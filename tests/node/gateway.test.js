// The protocol as a client in Node.js sees it. Runs against the gateway at GATEWAY_URL (ws://host:port),
// whose engine gives the translations of `tests/node/test_node.py`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { Client, JSON_PROTOCOL, MSGPACK_PROTOCOL } from "./client.js";

const BASE = process.env.GATEWAY_URL;
if (!BASE) throw new Error("Set GATEWAY_URL, such as ws://127.0.0.1:8000.");

const TEXT = "Good morning everybody";
const FINALS = { de: "Guten Morgen 👋 zusammen", fr: "Bonjour à toutes et à tous" };
const LONG = Array.from({ length: 600 }, () => "on").join(" ");

const address = (query) => `${BASE}/v1/ws?${new URLSearchParams(query)}`;

async function connected(t, query, protocols) {
  const client = await Client.connect(address({ from: "en", ...query }), protocols);
  t.after(() => client.close());
  return client;
}

/** Return the text of each caption as its deltas give it. Check the length that the server states. */
function captions(events) {
  const shown = {};
  for (const { type, lang, add = "", draft, reset, n } of events) {
    if (type !== "delta") continue;
    const before = shown[lang] ?? { stable: "", draft: "", deltas: 0 };
    const stable = (reset ? "" : before.stable) + add;
    assert.equal([...stable].length, n, "n counts code points of the stable text");
    shown[lang] = { stable, draft: draft ?? before.draft, deltas: before.deltas + 1 };
  }
  return shown;
}

/** Return a predicate that becomes true when each of `values` has had an event of `type`. */
function all(type, values, field = "lang") {
  const missing = new Set(values);
  return (event) => event.type === type && missing.delete(event[field]) && missing.size === 0;
}

for (const protocol of [JSON_PROTOCOL, MSGPACK_PROTOCOL]) {
  test(`${protocol}: one utterance streams into two languages`, async (t) => {
    const client = await connected(t, { to: "de,fr" }, [protocol]);
    assert.equal(client.protocol, protocol);

    const welcome = await client.next();
    assert.equal(welcome.type, "welcome");
    assert.equal(welcome.v, 1);
    assert.equal(typeof welcome.resume, "string");
    assert.ok(welcome.languages.includes("de"));
    assert.ok(welcome.limits.text > 0);

    client.send({ type: "say", id: "a", text: TEXT, ref: "r1", t0: 1.5, t1: 2.25 });
    const events = await client.until(all("final", ["de", "fr"]));
    assert.deepEqual(events[0], { type: "ack", id: "a", rev: 1, ord: 1, ref: "r1" });

    const source = events[1];
    assert.equal(source.type, "source");
    assert.equal(source.seq, welcome.seq + 1);
    assert.deepEqual([source.text, source.t0, source.t1], [TEXT, 1.5, 2.25]);

    const shown = captions(events);
    for (const lang of ["de", "fr"]) {
      const final = events.find((event) => event.type === "final" && event.lang === lang);
      assert.equal(final.text, FINALS[lang]);
      assert.equal(final.by, "mt");
      assert.ok(final.ms.total >= final.ms.first);
      assert.ok(shown[lang].deltas > 1, "it came in several deltas");
      assert.ok(final.text.startsWith(shown[lang].stable), "the deltas were its beginning");
    }
    const seqs = events.filter((event) => event.seq).map((event) => event.seq);
    assert.deepEqual(seqs, [1, 2, 3].map((n) => welcome.seq + n));
  });

  test(`${protocol}: cancel stops a caption that runs, and cancelling again is no error`, async (t) => {
    const client = await connected(t, { to: "de" }, [protocol]);
    client.send({ type: "say", id: "long", text: LONG });
    await client.until((event) => event.type === "delta");
    client.send({ type: "cancel", id: "long", ref: "stop" });
    const cancelled = (await client.until((event) => event.type === "cancelled")).at(-1);
    assert.equal(cancelled.was, "running");
    assert.equal(cancelled.ref, "stop");
    assert.ok(cancelled.seq);
    client.send({ type: "cancel", id: "long" });
    assert.deepEqual(await client.next(), { type: "cancelled", id: "long", rev: 1, was: "done" });
  });

  test(`${protocol}: bye lets captions finish, then come stats and close 1000`, async (t) => {
    const client = await connected(t, { to: "de,fr" }, [protocol]);
    client.send({ type: "say", text: TEXT });
    client.send({ type: "bye", ref: "end" });
    const stats = (await client.until((event) => event.type === "stats")).at(-1);
    assert.deepEqual([stats.said, stats.finals, stats.inflight, stats.ref], [1, 2, 0, "end"]);
    assert.equal((await client.closed).code, 1000);
  });
}

test("the server selects the first sub-protocol that it supports", async (t) => {
  const client = await connected(t, { to: "de" }, ["other", MSGPACK_PROTOCOL, JSON_PROTOCOL]);
  assert.equal(client.protocol, MSGPACK_PROTOCOL);
});

test("the server sends JSON to a client without a sub-protocol", async (t) => {
  const client = await connected(t, { to: "de" }, []);
  assert.equal((await client.next()).type, "welcome");
});

test("a plain text frame is a complete utterance in every sub-protocol", async (t) => {
  const client = await connected(t, { to: "de" }, [MSGPACK_PROTOCOL]);
  client.sendRaw(TEXT);
  const final = (await client.until((event) => event.type === "final")).at(-1);
  assert.equal(final.text, FINALS.de);
});

test("an invalid frame is reported, and the socket stays open", async (t) => {
  const client = await connected(t, { to: "de" });
  await client.next();
  client.sendRaw('{"type":"say","ref":"bad"}');
  const missing = await client.next();
  assert.deepEqual([missing.code, missing.fatal, missing.ref], ["bad_frame", false, "bad"]);
  assert.match(missing.msg, /text/);

  client.sendRaw(new Uint8Array([0xc1, 0x00]));
  assert.equal((await client.next()).code, "bad_frame");

  client.sendRaw('{"type":"sing"}');
  assert.equal((await client.next()).code, "unknown_type");

  client.send({ type: "say", text: TEXT });
  const final = (await client.until((event) => event.type === "final")).at(-1);
  assert.equal(final.text, FINALS.de);
});

test("a growing utterance gets a draft once two partials agree, and then one final", async (t) => {
  const client = await connected(t, { to: "de" });
  client.send({ type: "say", id: "s", text: "Good morning", final: false });
  client.send({ type: "say", id: "s", text: "Good morning every", final: false });
  const partial = await client.until((event) => event.type === "delta");
  assert.equal(captions(partial).de.stable, "");
  assert.notEqual(captions(partial).de.draft, "");
  client.send({ type: "say", id: "s", text: TEXT });
  const rest = await client.until((event) => event.type === "final");
  assert.equal(rest.at(-1).text, FINALS.de);
  client.send({ type: "get", id: "s" });
  const snapshot = await client.next();
  assert.equal(snapshot.final, true);
  assert.deepEqual(snapshot.lines, [{ lang: "de", state: "final", text: FINALS.de, by: "mt" }]);
});

test("corrections and retractions reach everybody, late readers included", async (t) => {
  const room = { room: "corrected", to: "de" };
  const speaker = await connected(t, room);
  const ended = (type) => (event) => event.type === type;
  speaker.send({ type: "say", id: "a", text: TEXT });
  speaker.send({ type: "say", id: "b", text: TEXT });
  await speaker.until(all("final", ["a", "b"], "id"));

  const late = await connected(t, { ...room, role: "view" });
  const welcome = await late.next();
  const recalled = await late.until(all("final", ["a", "b"], "id"));
  assert.deepEqual(recalled.map(({ type }) => type).sort(), ["final", "final", "source", "source"]);
  assert.equal(recalled[0].seq, welcome.seq + 1);

  speaker.send({ type: "edit", id: "a", lang: "de", text: "Moin", ref: "e" });
  const answer = (await speaker.until(ended("edited"))).at(-1);
  assert.deepEqual([answer.text, answer.by, answer.ref], ["Moin", "human", "e"]);
  speaker.send({ type: "retract", id: "b" });
  const told = await late.until(ended("retracted"));
  assert.deepEqual(told.filter(({ seq }) => seq).map(({ type, id }) => [type, id]),
                   [["edited", "a"], ["retracted", "b"]]);

  const later = await connected(t, room);
  const events = await later.until(ended("edited"));
  assert.ok(events.every(({ id }) => id !== "b"));
  assert.equal(events.at(-1).text, "Moin");
});

test("a reader who tries to correct gets an error", async (t) => {
  const client = await connected(t, { to: "de", role: "view" });
  await client.next();
  client.send({ type: "edit", id: "a", lang: "de", text: "x", ref: "r" });
  const error = await client.next();
  assert.deepEqual([error.code, error.ref], ["forbidden", "r"]);
});

test("everybody in a room is told how many people read each language", async (t) => {
  const ann = await connected(t, { room: "present", to: "de", speaker: "Ann" });
  await connected(t, { room: "present", to: "de,fr", role: "view" });
  const { readers, members, speakers } = (await ann.until(({ type }) => type === "presence")).at(-1);
  assert.deepEqual({ readers, members, speakers },
                   { readers: { de: 2, fr: 1 }, members: 2, speakers: ["Ann"] });
});

test("plain=1 answers in plain lines", async (t) => {
  const client = await connected(t, { to: "de,fr", plain: "1" }, []);
  client.sendRaw(TEXT);
  const lines = [await client.next(), await client.next()].sort();
  assert.deepEqual(lines, [`[de] ${FINALS.de}`, `[fr] ${FINALS.fr}`]);
});

test("a bad query gets an explanation and then close code 4400", async (t) => {
  const client = await connected(t, { role: "king" });
  const error = await client.next();
  assert.deepEqual([error.type, error.code, error.fatal], ["error", "bad_frame", true]);
  assert.equal((await client.closed).code, 4400);
});

test("a frame over the limit is closed with code 1009", async (t) => {
  const client = await connected(t, { to: "de" });
  const { limits } = await client.next();
  client.sendRaw("x".repeat(limits.frame + 1));
  assert.equal((await client.closed).code, 1009);
});

test("a line typed into wscat is answered in two languages", async (t) => {
  const wscat = fileURLToPath(new URL("./node_modules/wscat/bin/wscat", import.meta.url));
  const url = address({ from: "en", to: "de,fr", plain: "1" });
  const child = spawn(process.execPath, [wscat, "--no-color", "-c", url, "-x", TEXT, "-w", "30"]);
  t.after(() => child.kill());
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => {
      output += text;
      if (Object.values(FINALS).every((final) => output.includes(final))) child.kill();
    });
  }
  await once(child, "exit");
  assert.match(output, /\[de\] Guten Morgen 👋 zusammen/);
  assert.match(output, /\[fr\] Bonjour à toutes et à tous/);
});
