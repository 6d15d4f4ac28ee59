// Addresses of a gateway.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { socketAddress, withQuery } from "../../../clients/js/address.js";

test("the address of the sockets follows from the address of a gateway", () => {
  const addresses = JSON.parse(readFileSync(new URL("../../golden/addresses.json", import.meta.url)));
  for (const [gateway, expected] of addresses) assert.equal(socketAddress(gateway), expected);
  assert.equal(socketAddress(new URL("https://captions.example?room=a")), "wss://captions.example/v1/ws?room=a");
});

test("parameters are added to a query, replace those of the same name, and are left out without a value", () => {
  const address = "wss://here/v1/ws?room=old&to=de";
  assert.equal(withQuery(address, { room: "a b&c", speaker: "", from: null, role: undefined, seq: 0 }),
    "wss://here/v1/ws?to=de&room=a%20b%26c&seq=0");
  assert.equal(withQuery("wss://here/v1/ws#key", {}), "wss://here/v1/ws");
});

test("a name in any script survives a query", () => {
  const name = "田中 & Łukasz 🎤";
  assert.equal(new URL(withQuery("wss://here/", { speaker: name })).searchParams.get("speaker"), name);
});
