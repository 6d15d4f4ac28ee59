// The player of timed texts, on a simulated clock.

import assert from "node:assert/strict";
import { test } from "node:test";

import { timeline } from "../../../web_demo/playback/demo-script.js";
import { Player } from "../../../web_demo/playback/player.js";

test("a late player leaves out outdated partial texts but no line", () => {
  let now = 0;
  const told = [];
  const player = new Player(timeline([{ speaker: "A", text: "one two three" }, { speaker: "A", text: "four five" }], "en"), {
    say: ({ text, final }) => told.push([text, final]),
    onProgress: () => {},
    now: () => now,
  });
  player.play();
  assert.deepEqual(told, []);
  now = 60;
  player.setSpeed(2);
  assert.deepEqual(told, [["one two three", true], ["four five", true]]);
  assert.equal(player.isPlaying, false);
});

test("a player tries again to say an entry that could not be sent", () => {
  let now = 0;
  let open = false;
  const told = [];
  const player = new Player([{ at: 1, line: 0, text: "one", final: true }], {
    say: ({ text }) => open && told.push(text),
    onProgress: () => {},
    now: () => now,
  });
  player.play();
  now = 5;
  player.setSpeed(1);
  assert.deepEqual([told, player.isPlaying], [[], true]);
  open = true;
  now = 6;
  player.setSpeed(1);
  assert.deepEqual([told, player.isPlaying], [["one"], false]);
});
