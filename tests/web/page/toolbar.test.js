import assert from "node:assert/strict";
import { test } from "node:test";

import { nextIndex } from "../../../web_demo/page/toolbar.js";

test("arrow keys go round a toolbar, Home and End to its ends", () => {
  assert.deepEqual([nextIndex("ArrowRight", 0, 3), nextIndex("ArrowRight", 2, 3), nextIndex("ArrowLeft", 0, 3)], [1, 0, 2]);
  assert.deepEqual([nextIndex("Home", 1, 3), nextIndex("End", 1, 3), nextIndex("Tab", 1, 3)], [0, 2, null]);
});

test("in a right-to-left page the left arrow goes to the next button", () => {
  assert.deepEqual([nextIndex("ArrowLeft", 0, 3, true), nextIndex("ArrowRight", 0, 3, true)], [1, 2]);
});
