// What wakes a connection in a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { wakeOnReturn } from "../../../clients/js/page-return.js";

test("a connection is woken when the page or the network returns, until that is stopped", () => {
  const page = new EventTarget();
  globalThis.addEventListener = page.addEventListener.bind(page);
  globalThis.document = { hidden: false, addEventListener };
  let woken = 0;
  const stop = wakeOnReturn({ wake: () => woken++ });
  for (const name of ["online", "pageshow", "visibilitychange"]) page.dispatchEvent(new Event(name));
  assert.equal(woken, 3);
  document.hidden = true;
  page.dispatchEvent(new Event("visibilitychange"));
  assert.equal(woken, 3, "a page that was hidden need not be woken");
  stop();
  page.dispatchEvent(new Event("online"));
  assert.equal(woken, 3);
});
