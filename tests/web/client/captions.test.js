// The captions of a room, as they follow from the events of docs/reference/protocol/.

import assert from "node:assert/strict";
import { test } from "node:test";

import { EMPTY_STATE, MAX_UTTERANCES, inRoomOrder, reduce } from "../../../clients/js/captions.js";

const WELCOME = { type: "welcome", v: 1, session: "s", room: "r", epoch: "e", seq: 0 };

const after = (...events) => events.reduce(reduce, reduce(EMPTY_STATE, WELCOME));
const only = (state) => {
  const utterances = inRoomOrder(state);
  assert.equal(utterances.length, 1);
  return utterances[0];
};
const source = (id, ord, text = "hello") => ({
  type: "source", seq: ord, id, rev: 1, ord, lang: "en", text,
});
const delta = (fields) => ({ type: "delta", id: "a", rev: 1, lang: "de", n: 0, ...fields });
const final = (fields) => ({
  type: "final", seq: 9, id: "a", rev: 1, ord: 1, lang: "de", text: "hallo", by: "mt", ...fields,
});

function frozen(value) {
  if (value instanceof Map) value.forEach(frozen);
  else if (value && typeof value === "object") Object.values(Object.freeze(value)).forEach(frozen);
  return value;
}

test("deltas are appended to the stable text with their spaces", () => {
  const { captions } = only(after(delta({ add: "Guten" }), delta({ add: " Morgen" })));
  assert.deepEqual(captions.de, { stable: "Guten Morgen", draft: "", status: "growing", code: null });
});

test("a draft replaces the previous draft, and a delta without one keeps it", () => {
  const first = delta({ draft: "Wir treffen" });
  assert.equal(only(after(first, delta({ draft: "Wir sehen" }))).captions.de.draft, "Wir sehen");
  const { stable, draft } = only(after(first, delta({ add: "Wir" }))).captions.de;
  assert.deepEqual([stable, draft], ["Wir", "Wir treffen"]);
});

test("an empty draft removes the draft", () => {
  const { captions } = only(after(delta({ draft: "Wir" }), delta({ add: "Sie", draft: "" })));
  assert.deepEqual([captions.de.stable, captions.de.draft], ["Sie", ""]);
});

test("a reset removes the stable text before new text is added", () => {
  const { captions } = only(after(delta({ add: "Sure! Here" }), delta({ add: "Hier", reset: true })));
  assert.equal(captions.de.stable, "Hier");
});

test("a final caption is the same with and without the deltas before it", () => {
  const events = [source("a", 1), delta({ add: "hal" }), delta({ draft: "lo" }), final({})];
  const bare = events.filter(({ type }) => type !== "delta");
  assert.deepEqual(after(...events), after(...bare));
  assert.deepEqual(only(after(...events)).captions.de.status, "final");
});

test("a caption that has ended is not changed by later events", () => {
  const state = after(source("a", 1), final({}), delta({ add: "!" }), final({ text: "other" }));
  assert.equal(only(state).captions.de.stable, "hallo");
  const cancelled = reduce(state, { type: "cancelled", id: "a", rev: 1, lang: "de", was: "done" });
  assert.equal(only(cancelled).captions.de.status, "final");
});

test("a caption without its original opens no row: it belongs to a line before the first one", () => {
  const state = after(source("b", 2), final({}), { type: "failed", seq: 3, id: "c", ord: 1, lang: "de", code: "timeout", retry: true },
    { type: "edited", seq: 4, id: "d", rev: 1, ord: 1, lang: "de", text: "Hallo", by: "human" });
  assert.deepEqual(inRoomOrder(state).map(({ id }) => id), ["b"]);
});

test("events in one language do not change captions in another", () => {
  const state = after(delta({ add: "Gut" }), delta({ lang: "fr", add: "Bon" }), final({}));
  const { captions } = only(state);
  assert.equal(captions.de.status, "final");
  assert.deepEqual([captions.fr.stable, captions.fr.status], ["Bon", "growing"]);
});

test("a failed caption keeps its code and drops its unfinished text", () => {
  const failed = { type: "failed", seq: 2, id: "a", ord: 1, lang: "de", code: "timeout", retry: true };
  const utterance = only(after(source("a", 1), delta({ add: "hal" }), failed));
  assert.deepEqual(utterance.captions.de, { stable: "", draft: "", status: "failed", code: "timeout" });
  assert.equal(utterance.text, "hello", "the original can be shown instead");
});

test("cancelled ends growing captions, in one language or in all", () => {
  const begun = [source("a", 1), delta({ add: "hal", draft: "lo" }), final({ lang: "fr" })];
  const all = only(after(...begun, { type: "cancelled", seq: 3, id: "a", rev: 1, was: "running" }));
  assert.deepEqual([all.captions.de.status, all.captions.de.draft], ["cancelled", ""]);
  assert.equal(all.captions.fr.status, "final");
  const one = { type: "cancelled", seq: 3, id: "a", rev: 1, lang: "de", was: "running" };
  assert.equal(only(after(...begun, one)).captions.de.status, "cancelled");
});

test("a caption of an original that only fills a pause is silent", () => {
  const none = { type: "cancelled", seq: 3, id: "a", rev: 1, lang: "de", was: "none" };
  const { captions } = only(after(source("a", 1), delta({ draft: "äh" }), none, final({})));
  assert.deepEqual([captions.de.status, captions.de.draft, captions.de.stable], ["silent", "", ""]);
});

test("an unfinished utterance is removed when it is cancelled", () => {
  const say = { type: "say", id: "a", text: "hel", lang: "en", final: false };
  const cancelled = { type: "cancelled", seq: 3, id: "a", rev: 1, was: "running" };
  assert.equal(inRoomOrder(after(say, delta({ draft: "hal" }), cancelled)).length, 0);
});

test("cancelled changes nothing if the utterance is unknown", () => {
  const state = after(source("a", 1));
  assert.equal(reduce(state, { type: "cancelled", id: "zz", rev: 0, was: "none" }), state);
});

test("text of this page is shown before the server confirms it", () => {
  const say = { type: "say", id: "a", text: "good mor", lang: "en", final: false };
  const begun = only(after(say));
  assert.deepEqual([begun.text, begun.final], ["good mor", false]);
  const ended = only(after(say, source("a", 1, "good morning")));
  assert.deepEqual([ended.text, ended.final], ["good morning", true]);
});

test("utterances are in the order of the room, and those without a place come last", () => {
  const state = after(delta({ id: "new", add: "x" }), source("b", 2), source("a", 1));
  assert.deepEqual(inRoomOrder(state).map(({ id }) => id), ["a", "b", "new"]);
});

test("a broken connection ends growing captions and keeps finished ones", () => {
  const state = after(delta({ add: "hal", draft: "lo" }), final({ lang: "fr" }), { type: "broken" });
  const { captions } = only(state);
  assert.deepEqual(captions.de, { stable: "hal", draft: "", status: "interrupted", code: null });
  assert.equal(captions.fr.status, "final");
});

test("after a new epoch old captions stay, growing ones end, and ids may be used again", () => {
  const before = after(source("a", 1), delta({ add: "hal" }), final({ lang: "fr", text: "salut" }));
  const state = [{ ...WELCOME, epoch: "f" }, source("a", 1, "again")].reduce(reduce, before);
  const [old, young] = inRoomOrder(state);
  assert.equal(old.captions.de.status, "interrupted");
  assert.equal(old.captions.fr.status, "final");
  assert.deepEqual([old.text, young.text], ["hello", "again"]);
  assert.notEqual(old.key, young.key);
});

test("an utterance that is repeated after a restart is shown once, with its new caption", () => {
  const restarted = { ...WELCOME, epoch: "f", resumed: { ok: false, replayed: 0 } };
  const before = after(source("a", 1), final({}), source("b", 2), { type: "broken" });
  const told = [restarted, source("a", 1), final({}), source("b", 2), final({ id: "b" })].reduce(reduce, before);
  assert.deepEqual(inRoomOrder(told).map(({ id, captions }) => [id, captions.de.stable]), [["a", "hallo"], ["b", "hallo"]]);
  const say = { type: "say", id: "c", text: "meanwhile", lang: "en", final: true };
  const waiting = [say, restarted, { type: "ack", id: "c", rev: 1, ord: 1 }].reduce(reduce, before);
  assert.deepEqual(inRoomOrder(waiting).map(({ id, text }) => [id, text]),
                   [["a", "hello"], ["b", "hello"], ["c", "meanwhile"]]);
  const said = reduce(waiting, source("c", 1, "meanwhile"));
  assert.deepEqual(inRoomOrder(said).map(({ id, text }) => [id, text]),
                   [["a", "hello"], ["b", "hello"], ["c", "meanwhile"]]);
});

test("after a restart restored utterances keep their places among those that were lost", () => {
  const before = after(source("a", 1), source("b", 2, "lost"), source("c", 3), { type: "broken" });
  const state = [{ ...WELCOME, epoch: "f" }, source("a", 1), source("c", 2), source("d", 3)].reduce(reduce, before);
  assert.deepEqual(inRoomOrder(state).map(({ id }) => id), ["a", "b", "c", "d"]);
});

test("segments that are restored after a restart keep their places", () => {
  const before = after(source("a", 1, "one"), source("b", 2), source("a.2", 3, "two"), { type: "broken" });
  const state = [{ ...WELCOME, epoch: "f" }, source("a", 1, "one"), final({}), source("b", 2), source("a.2", 3, "two")].reduce(reduce, before);
  assert.deepEqual(inRoomOrder(state).map(({ id }) => id), ["a", "b", "a.2"]);
});

test("a segmented utterance that is repeated after a restart is shown once, wherever it is divided then", () => {
  const say = (text) => ({ type: "say", id: "a", text, lang: "en", final: false });
  const before = after(say("one two three"), source("a", 1, "one two"), delta({ id: "a.2", add: "drei" }));
  const state = [{ type: "broken" }, { ...WELCOME, epoch: "f" }, { type: "ack", id: "a", rev: 2, ord: 1 },
                 source("a", 1, "one two three four")].reduce(reduce, before);
  assert.deepEqual(inRoomOrder(state).map(({ id, text }) => [id, text]), [["a", "one two three four"]]);
});

test("a caption that had not begun when the connection broke is expected only if the connection resumes", () => {
  const state = after(source("a", 1), final({ lang: "fr" }), { type: "broken" });
  assert.equal(only(state).interrupted, true);
  assert.equal(only(reduce(state, { ...WELCOME, resumed: { ok: true, replayed: 0 } })).interrupted, false);
  assert.equal(only(reduce(state, { ...WELCOME, resumed: { ok: false, replayed: 0 } })).interrupted, true);
  assert.equal(only(reduce(state, source("a", 1))).interrupted, false);
});

test("after a reconnect to the same epoch missed captions are shown and none is shown twice", () => {
  const before = after(source("a", 1), delta({ add: "hal" }), source("b", 2), final({ id: "b" }));
  const growing = delta({ id: "c", add: "Wie geht", draft: " es", reset: true });
  const events = [{ type: "broken" }, WELCOME, source("a", 1), final({}), source("b", 2),
                  final({ id: "b" }), growing];
  const utterances = inRoomOrder(events.reduce(reduce, before));
  assert.deepEqual(utterances.map(({ id }) => id), ["a", "b", "c"]);
  assert.deepEqual(utterances.map(({ captions }) => captions.de.stable),
                   ["hallo", "hallo", "Wie geht"]);
});

test("a growing caption continues after a reconnect to the same epoch", () => {
  const growing = delta({ add: "hallo", draft: " du", reset: true });
  const state = after(delta({ add: "hal" }), { type: "broken" }, WELCOME, growing);
  assert.deepEqual(only(state).captions.de,
                   { stable: "hallo", draft: " du", status: "growing", code: null });
});

test("a resumed connection keeps growing captions and their ids", () => {
  const resumed = { ...WELCOME, epoch: "f", resumed: { ok: true, replayed: 0 } };
  const state = after(delta({ add: "hal" }), resumed, delta({ add: "lo" }));
  assert.equal(only(state).captions.de.stable, "hallo");
  const lost = { ...WELCOME, resumed: { ok: false, replayed: 0 } };
  assert.equal(only(after(delta({ add: "hal" }), lost)).captions.de.status, "interrupted");
});

test("a late ack of a finished utterance does not begin a new one", () => {
  const state = after(source("a", 1));
  assert.equal(reduce(state, { type: "ack", id: "a", rev: 1, ord: 1 }), state);
});

test("a late reader is shown earlier utterances", () => {
  const state = after(source("a", 1), final({}), source("b", 2));
  assert.deepEqual(inRoomOrder(state).map(({ captions }) => captions.de?.stable), ["hallo", undefined]);
});

test("snapshots add a language that was chosen later", () => {
  const lines = [{ lang: "fr", state: "final", text: "salut", by: "mt" },
                 { lang: "it", state: "running", text: "ci", draft: "ao" },
                 { lang: "es", state: "failed", text: "" }];
  const shot = { type: "snapshot", id: "a", rev: 1, ord: 1, lang: "en", text: "hello", final: true };
  const { captions } = only(after(source("a", 1), final({}), { ...shot, lines }));
  assert.deepEqual(Object.values(captions).map(({ stable, draft, status }) => [stable, draft, status]),
                   [["hallo", "", "final"], ["salut", "", "final"], ["ci", "ao", "growing"],
                    ["", "", "failed"]]);
});

test("a snapshot shows no half original of somebody else, which would stand still until its end", () => {
  const shot = { type: "snapshot", id: "a", rev: 2, ord: 1, lang: "en", text: "hello eve", final: false, lines: [] };
  assert.equal(only(after(shot)).text, "");
  assert.equal(only(after(shot, source("a", 1, "hello everybody"))).text, "hello everybody");
  const own = { type: "say", id: "a", lang: "en", text: "hello every" };
  assert.equal(only(after(own, shot)).text, "hello every");
});

test("a correction replaces a caption, also if it had failed or was never received", () => {
  const edited = (fields) => ({ type: "edited", seq: 10, id: "a", rev: 1, ord: 1, by: "human", ...fields });
  const failed = { type: "failed", seq: 2, id: "a", ord: 1, lang: "fr", code: "timeout", retry: true };
  const { captions, text } = only(after(source("a", 1), final({}), failed,
    edited({ lang: "de", text: "Hallo!" }), edited({ lang: "fr", text: "Salut !" }),
    edited({ lang: "it", text: "Ciao!" })));
  assert.deepEqual(Object.values(captions).map(({ stable, status }) => [stable, status]),
                   [["Hallo!", "final"], ["Salut !", "final"], ["Ciao!", "final"]]);
  assert.equal(text, "hello");
});

test("a corrected original changes a caption only for readers of its language", () => {
  const edited = { type: "edited", seq: 10, id: "a", rev: 1, ord: 1, lang: "en", text: "Hi", by: "human" };
  const other = only(after(source("a", 1), final({}), edited));
  assert.deepEqual([other.text, other.edited, Object.keys(other.captions)], ["Hi", true, ["de"]]);
  const same = only(after(source("a", 1), final({ lang: "en", text: "hello" }), edited));
  assert.deepEqual([same.text, same.captions.en.stable], ["Hi", "Hi"]);
});

test("a caption is marked as edited until a model translates it again", () => {
  const edited = (by) => ({ type: "edited", seq: 10, id: "a", rev: 1, ord: 1, lang: "de", text: "x", by });
  assert.equal(only(after(source("a", 1), final({}), edited("human"))).captions.de.edited, true);
  assert.equal(only(after(source("a", 1), edited("human"), edited("mt"))).captions.de.edited, undefined);
});

test("a caption without a glossary term is marked", () => {
  assert.equal(only(after(source("a", 1), final({ flags: ["numbers", "glossary"] }))).captions.de.termMissing, true);
  assert.equal(only(after(source("a", 1), final({ flags: ["numbers"] }))).captions.de.termMissing, undefined);
});

test("a caption with other numbers than its original is marked", () => {
  assert.equal(only(after(source("a", 1), final({ flags: ["numbers"] }))).captions.de.numbersLost, true);
  assert.equal(only(after(source("a", 1), final({ flags: ["unsure"] }))).captions.de.numbersLost, undefined);
});

test("a caption that the model was unsure of is marked", () => {
  assert.equal(only(after(source("a", 1), final({ flags: ["numbers", "unsure"] }))).captions.de.unsure, true);
  assert.equal(only(after(source("a", 1), final({ flags: ["numbers"] }))).captions.de.unsure, undefined);
});

test("a caption that was made in two steps names the language between them", () => {
  assert.equal(only(after(source("a", 1), final({ flags: ["numbers", "pivot:en"] }))).captions.de.pivot, "en");
  assert.equal(only(after(source("a", 1), final({ flags: ["numbers"] }))).captions.de.pivot, undefined);
});

test("a caption of another engine than that of the welcome names its engine", () => {
  const flags = ["engine:ctranslate2:embedded", "pivot:en"];
  assert.equal(only(after(source("a", 1), final({ flags }))).captions.de.engine, "ctranslate2:embedded");
  assert.equal(only(after(source("a", 1), final({}))).captions.de.engine, undefined);
});

test("a refused utterance is removed, unless a segment of it was accepted", () => {
  const say = { type: "say", id: "b", text: "\u200b", lang: "en", final: true };
  const error = { type: "error", code: "empty_text", fatal: false, retry: false, id: "b", msg: "The text is empty." };
  assert.deepEqual(inRoomOrder(after(source("a", 1), say, error)).map(({ id }) => id), ["a"]);
  assert.equal(inRoomOrder(after(say, { ...error, code: "busy", retry: true })).length, 1);
  assert.equal(inRoomOrder(after(say, { type: "ack", id: "b", rev: 1, ord: 1 }, error)).length, 1);
});

test("text of this page shows its speaker at once", () => {
  const say = { type: "say", id: "a", text: "we", lang: "en", final: false };
  assert.equal(only(after({ ...say, speaker: "Ann" }, say)).speaker, "Ann");
});

test("a retracted utterance is removed, finished or not", () => {
  const retracted = { type: "retracted", seq: 10, id: "a", ord: 1 };
  const ended = after(source("a", 1), final({}), source("b", 2), retracted);
  assert.deepEqual(inRoomOrder(ended).map(({ id }) => id), ["b"]);
  assert.ok(!JSON.stringify([...ended.utterances.values()]).includes("hallo"), "no text is kept");
  const say = { type: "say", id: "a", text: "hel", lang: "en", final: false };
  const cancelled = { type: "cancelled", seq: 9, id: "a", rev: 1, was: "running" };
  assert.deepEqual(inRoomOrder(after(say, delta({ draft: "hal" }), cancelled, retracted, say)), []);
});

test("each segment of a long utterance contains the text since the segment before it", () => {
  const say = (text) => ({ type: "say", id: "a", text, lang: "en", final: false });
  const ack = (ord) => ({ type: "ack", id: "a", rev: 1, ord });
  const state = after(say("one two"), ack(1), say("one two three"), ack(1), source("a", 1, "one two"),
    say("one two three four"), ack(2), source("b", 3), delta({ id: "a.2", draft: "drei" }));
  const parts = inRoomOrder(state).map(({ id, ord, text, final }) => [id, ord, text, final]);
  assert.deepEqual(parts, [["a", 1, "one two", true], ["a.2", 2, "three four", false],
                           ["b", 3, "hello", true]]);
  const changed = reduce(state, say("One, two three four"));
  assert.equal(changed.utterances.get("1/a.2").text, "", "the text of the segment is unknown");
});

test("text after a retracted segment is not shown before the server sends it", () => {
  const say = { type: "say", id: "a", text: "one two three", lang: "en", final: false };
  const state = after(source("a", 1, "one two"), { type: "retracted", seq: 9, id: "a", ord: 1 }, say);
  assert.deepEqual(inRoomOrder(state).map(({ id, text }) => [id, text]), [["a.2", ""]]);
});

test("unknown events change nothing", () => {
  const state = after(source("a", 1));
  for (const type of ["tick", "stats", "presence", "error"]) {
    assert.equal(reduce(state, { type }), state);
  }
});

test("reduce does not change the state that it is given", () => {
  let state = frozen(EMPTY_STATE);
  const events = [
    WELCOME, source("a", 1), delta({ add: "hal", draft: "lo" }), final({}), source("b", 2),
    delta({ id: "b", add: "x" }), { type: "cancelled", seq: 4, id: "b", rev: 1, was: "running" },
  ];
  for (const event of events) {
    const copy = new Map(state.utterances);
    const next = frozen(reduce(state, event));
    assert.deepEqual(state.utterances, copy);
    state = next;
  }
});

test("an unchanged utterance stays the same object, so that its row is not rendered again", () => {
  const before = after(source("a", 1), source("b", 2));
  const next = reduce(before, delta({ id: "b", add: "x" }));
  assert.equal(next.utterances.get("1/a"), before.utterances.get("1/a"));
});

test("the oldest utterances are dropped over the limit", () => {
  const events = Array.from({ length: MAX_UTTERANCES + 3 }, (_, i) => source(`u${i}`, i + 1));
  const utterances = inRoomOrder(after(...events));
  assert.equal(utterances.length, MAX_UTTERANCES);
  assert.equal(utterances[0].id, "u3");
});

test("the speaker is known from the first delta on, and the source decides", () => {
  const growing = after(delta({ draft: "Wir", speaker: "Ann" }), delta({ draft: "Wir treffen" }));
  assert.equal(only(growing).speaker, "Ann");
  const finished = reduce(growing, { ...source("a", 1), speaker: "Anna" });
  assert.equal(only(reduce(finished, delta({ add: "Wir", reset: true, speaker: "Ann" }))).speaker, "Anna");
});

const entry = (n, fields) => ({
  id: `u${n}`, ord: n, lang: "en", text: `line ${n}`, speaker: "Ann", at: 1000 * n,
  captions: { de: { state: "final", text: `Zeile ${n}`, by: "mt" } }, ...fields,
});

test("what a speaker states beside a text is kept, also if a newer gateway adds it", () => {
  const stated = { speaker: "Ann", t0: 1.5, note: "from the floor" };
  const line = { id: "a", ord: 1, lang: "en", text: "hello", at: 5, begin: 1, end: 2, ...stated, captions: {} };
  for (const event of [
    { ...source("a", 1), ...stated },
    { type: "snapshot", id: "a", rev: 1, ord: 1, lang: "en", text: "hello", final: true, lines: [], ...stated },
    { type: "earlier", utterances: [line] },
  ]) {
    const { key, epochIndex, at, retracted, interrupted, captions, ...shown } = only(after(event));
    assert.deepEqual(shown, { id: "a", ord: 1, lang: "en", text: "hello", final: true, ...stated });
  }
});

test("lines of the transcript come before those that are here, with their times and captions", () => {
  const state = after(source("u3", 3, "line 3"), { type: "earlier", utterances: [entry(1), entry(2), entry(3)] });
  const utterances = inRoomOrder(frozen(state));
  assert.deepEqual(utterances.map(({ id, at, speaker, final }) => [id, at, speaker, final]), [
    ["u1", 1000, "Ann", true], ["u2", 2000, "Ann", true], ["u3", 3000, null, true],
  ]);
  assert.deepEqual(utterances.map(({ captions }) => captions.de.stable), ["Zeile 1", "Zeile 2", "Zeile 3"]);
});

test("a line of the transcript changes nothing that is newer here, and no deleted line returns", () => {
  const changed = after(
    source("a", 1), final({ text: "corrected", by: "human" }), source("u2", 2), { type: "retracted", seq: 5, id: "u2", ord: 2 },
  );
  const captions = { de: { state: "final", text: "hallo", by: "mt" } };
  const state = reduce(changed, { type: "earlier", utterances: [entry(1, { id: "a", captions }), entry(2)] });
  assert.equal(only(state).captions.de.stable, "corrected");
  assert.equal(only(state).at, 1000);
});

test("a line of the transcript that nobody read in a language says so, and a later caption replaces that", () => {
  const captions = { de: { state: "missing" }, fr: { state: "failed", code: "busy" } };
  const state = after({ type: "earlier", utterances: [entry(1, { id: "a", captions })] });
  assert.deepEqual([only(state).captions.de.status, only(state).captions.fr.status, only(state).captions.fr.code], ["missing", "failed", "busy"]);
  assert.equal(only(reduce(state, final({}))).captions.de.stable, "hallo");
});

test("a restored line that stands here from before a restart is not shown twice", () => {
  const before = after(source("u1", 1, "line 1"));
  const restarted = reduce(reduce(before, { type: "broken" }), { ...WELCOME, epoch: "f" });
  assert.equal(inRoomOrder(reduce(restarted, { type: "earlier", utterances: [entry(1)] })).length, 1);
});

test("nothing is dropped while the reader reads earlier lines, and the oldest are dropped afterwards", () => {
  const events = Array.from({ length: MAX_UTTERANCES }, (_, i) => source(`u${i + 3}`, i + 3));
  const back = reduce(after(...events), { type: "scrolled", back: true });
  const read = [{ type: "earlier", utterances: [entry(1), entry(2)] }, source("new", MAX_UTTERANCES + 3)].reduce(reduce, back);
  assert.equal(inRoomOrder(read).length, MAX_UTTERANCES + 3);
  const returned = inRoomOrder(reduce(read, { type: "scrolled", back: false }));
  assert.deepEqual([returned.length, returned[0].id, returned.at(-1).id], [MAX_UTTERANCES, "u4", "new"]);
});
