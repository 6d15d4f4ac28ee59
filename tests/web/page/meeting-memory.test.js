// What this browser remembers of meetings.

import assert from "node:assert/strict";
import { test } from "node:test";

import { forgetMeeting, isModerator, keepMeeting, keptMeeting, setModerator } from "../../../web_demo/page/meeting-memory.js";

function storage({ full = false } = {}) {
  const values = new Map();
  return {
    getItem: (key) => values.get(key) ?? null,
    setItem(key, value) {
      if (full) throw new Error("QuotaExceededError");
      values.set(key, value);
    },
    removeItem: (key) => values.delete(key),
  };
}

test("the browser that opened a meeting moderates it in every window", () => {
  const browser = storage();
  setModerator("mine", browser);
  assert.deepEqual([isModerator("mine", browser), isModerator("other", browser), isModerator("mine", storage())], [true, false, false]);
});

test("of the meetings that a browser opened it remembers the newest twenty, each once", () => {
  const browser = storage();
  for (let n = 0; n < 22; n++) setModerator(`room${n}`, browser);
  setModerator("room5", browser);
  assert.deepEqual([isModerator("room1", browser), isModerator("room2", browser), isModerator("room21", browser)], [false, true, true]);
  assert.equal(JSON.parse(browser.getItem("moderated rooms")).length, 20);
});

test("a meeting that ended is kept until somebody opens it again", () => {
  const tab = storage();
  keepMeeting("a", ["de"], [{ key: "1/u1", text: "hello" }], tab);
  assert.deepEqual(keptMeeting("a", tab).utterances, [{ key: "1/u1", text: "hello" }]);
  assert.equal(keptMeeting("b", tab), null);
  forgetMeeting(tab);
  assert.equal(keptMeeting("a", tab), null);
});

test("of a meeting that is too long the newest lines are kept, and a full storage is no fault", () => {
  const tab = storage();
  const lines = Array.from({ length: 4000 }, (_, n) => ({ key: `1/${n}`, text: "x".repeat(1000) }));
  keepMeeting("a", ["de"], lines, tab);
  const { utterances } = keptMeeting("a", tab);
  assert.ok(utterances.length > 500 && utterances.length < 4000);
  assert.equal(utterances.at(-1).key, "1/3999");
  keepMeeting("a", ["de"], lines, storage({ full: true }));
});
