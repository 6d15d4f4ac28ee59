// When the demo page opens a new socket, and when it does not.

import assert from "node:assert/strict";
import { test } from "node:test";

import { backoff, worthRetrying } from "../../web_demo/connection.js";

test("a restart, a fault and a broken line are worth a new socket", () => {
  for (const code of [1001, 1006, 1012, 4000, 4001, 4008, 4029, 4399]) {
    assert.equal(worthRetrying(code), true, code);
  }
});

test("a finished talk and what would only happen again are not", () => {
  for (const code of [1000, 1007, 1009, 4400, 4401, 4403, 4404, 4409, 4410, 4499]) {
    assert.equal(worthRetrying(code), false, code);
  }
});

test("waits grow, with jitter from nothing, to a longest one", () => {
  assert.deepEqual([0, 1, 2, 3].map((n) => backoff(n, () => 1)), [1, 2, 4, 8]);
  assert.equal(backoff(50, () => 1), 20);
  assert.equal(backoff(3, () => 0), 0);
});
