import assert from "node:assert/strict";
import { test } from "node:test";

import { STRINGS } from "../../../web_demo/page/strings.js";
import { GatewayRecognition, canStream } from "../../../web_demo/speech/gateway-recognition.js";

/** A recognition with a microphone that the test speaks into; `log` has all that it does. */
function recognition({ fail } = {}) {
  const log = [];
  const made = { log, microphones: [] };
  made.recogniser = new GatewayRecognition({
    send: (message) => log.push(message),
    sendAudio: (pcm) => log.push(pcm),
    onState: (state, reason) => log.push(reason ? [state, reason] : state),
    onLevel: (level) => (made.level = level),
    open: async (device, onPiece, onLost) => {
      if (fail) throw fail;
      const microphone = { device, rate: 48_000, isOpen: true, speak: onPiece, unplug: onLost, close: () => (microphone.isOpen = false) };
      made.microphones.push(microphone);
      return microphone;
    },
  });
  return made;
}

const BEGIN = { type: "audio", codec: "pcm_s16le", rate: 48_000, from: "en", ref: "microphone" };
const END = { type: "audio", codec: "none" };

test("the microphone is streamed from start to stop, and then closed", async () => {
  const made = recognition();
  await made.recogniser.start("en");
  const [microphone] = made.microphones;
  microphone.speak("one", 0.5);
  assert.equal(made.level, 0.5);
  made.recogniser.stop();
  microphone.speak("late", 0.5);
  assert.deepEqual(made.log, ["starting", BEGIN, "listening", "one", END, "off"]);
  assert.deepEqual([microphone.isOpen, made.level], [false, 0]);
});

test("mute ends the audio, and start begins it again", async () => {
  const made = recognition();
  made.recogniser.mute();
  assert.deepEqual(made.log, []);
  await made.recogniser.start("en");
  made.recogniser.mute();
  await made.recogniser.start("en");
  assert.deepEqual(made.log.slice(3), [END, "muted", "starting", BEGIN, "listening"]);
  assert.equal(made.microphones[0].isOpen, false);
});

test("a microphone that opens after stop is closed at once", async () => {
  const made = recognition();
  const starting = made.recogniser.start("en");
  made.recogniser.stop();
  await starting;
  assert.equal(made.microphones[0].isOpen, false);
  assert.deepEqual(made.log, ["starting", "off"]);
});

test("starting twice opens one microphone", async () => {
  const made = recognition();
  await Promise.all([made.recogniser.start("en"), made.recogniser.start("en")]);
  assert.equal(made.microphones.length, 1);
});

test("other languages and another connection begin the audio again", async () => {
  const made = recognition();
  made.recogniser.onConnected();
  made.recogniser.setLanguage("de");
  await made.recogniser.start("en");
  made.log.length = 0;
  made.recogniser.setLanguage("en");
  made.recogniser.setLanguage("en,de");
  made.recogniser.onConnected();
  assert.deepEqual(made.log, [{ ...BEGIN, from: "en,de" }, { ...BEGIN, from: "en,de" }]);
});

test("another device replaces the microphone while it is on", async () => {
  const made = recognition();
  await made.recogniser.setDevice("desk");
  await made.recogniser.start("en");
  await made.recogniser.setDevice("head");
  assert.deepEqual(made.microphones.map(({ device, isOpen }) => [device, isOpen]), [["desk", false], ["head", true]]);
});

test("a refused microphone says what to do", async () => {
  for (const [name, reason] of [["NotAllowedError", /Allow it/], ["NotFoundError", /No microphone/], ["TypeError", /does not work: odd/]]) {
    const made = recognition({ fail: Object.assign(new Error("odd"), { name }) });
    await made.recogniser.start("en");
    const [state, told] = made.log.at(-1);
    assert.equal(state, "blocked");
    assert.match(told, reason);
  }
});

test("a gateway that refuses the audio ends it with the reason of its code, or with its own", async () => {
  const made = recognition();
  const refused = { code: "audio_unavailable", ref: "microphone", msg: "Not here.", retry: false };
  made.recogniser.onError(refused);
  assert.deepEqual(made.log, []);
  await made.recogniser.start("en");
  made.recogniser.onError({ ...refused, ref: "other" });
  assert.equal(made.log.at(-1), "listening");
  made.recogniser.onError(refused);
  assert.deepEqual(made.log.at(-1), ["blocked", STRINGS.errors.audio_unavailable]);
  assert.equal(made.microphones[0].isOpen, false);
  await made.recogniser.start("en");
  made.recogniser.onError({ ...refused, code: "another", msg: "Starting.", hint: "Wait.", retry: true });
  assert.deepEqual(made.log.at(-1), ["waiting", "Starting. Wait."]);
});

test("a page without https or without worklets cannot stream", () => {
  const navigator = { mediaDevices: { getUserMedia() {} } };
  assert.equal(canStream({ navigator, AudioWorkletNode: class {} }), true);
  assert.equal(canStream({ navigator }), false);
  assert.equal(canStream({ navigator: {}, AudioWorkletNode: class {} }), false);
});

test("a microphone that is unplugged stops, and says so", async () => {
  const made = recognition();
  await made.recogniser.start("en");
  made.microphones[0].unplug();
  assert.deepEqual(made.log.slice(3), [END, "off", ["blocked", STRINGS.microphone.unplugged]]);
  await made.recogniser.start("en");
  made.microphones[0].unplug();
  assert.equal(made.log.at(-1), "listening", "another one is in use");
});
