// Speech recognition by the gateway: the microphone is streamed to it.
//
// Owns: the microphone while it is on, and when audio begins and ends on the connection.
// Must not know: the document, sockets, what was heard.

import { STRINGS, errorText } from "../page/strings.js";

const RATE = 16_000; // what recognisers read; a browser that cannot convert sends its own rate
const PROBLEMS = {
  NotAllowedError: STRINGS.microphone.notAllowed,
  NotFoundError: STRINGS.microphone.notFound,
  NotReadableError: STRINGS.microphone.inUse,
  OverconstrainedError: STRINGS.microphone.notConnected,
};

/** Return whether this browser can stream a microphone. Pages without https have none. */
export function canStream(scope = globalThis) {
  return Boolean(scope.navigator?.mediaDevices?.getUserMedia && scope.AudioWorkletNode);
}

/**
 * Open a microphone. Return { rate, close }. Each piece of PCM is passed to `onPiece(pcm, level)`; `onLost()` is
 * called when the device is unplugged.
 */
export async function openMicrophone(deviceId, onPiece, onLost) {
  const stream = await navigator.mediaDevices.getUserMedia({
    audio: {
      deviceId: deviceId ? { exact: deviceId } : undefined,
      channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true,
    },
  });
  for (const track of stream.getTracks()) track.onended = onLost;
  let context;
  const close = () => {
    for (const track of stream.getTracks()) track.stop();
    context?.close();
  };
  try {
    context = new AudioContext({ sampleRate: RATE });
    let source;
    try {
      source = context.createMediaStreamSource(stream);
    } catch { // Firefox does not connect a microphone of another rate
      context.close();
      context = new AudioContext();
      source = context.createMediaStreamSource(stream);
    }
    await context.audioWorklet.addModule(new URL("./capture-worklet.js", import.meta.url));
    const capture = new AudioWorkletNode(context, "capture", { numberOfOutputs: 0 });
    capture.port.onmessage = ({ data }) => onPiece(data.pcm, data.level);
    source.connect(capture);
    await context.resume();
    return { rate: context.sampleRate, close };
  } catch (error) {
    close();
    throw error;
  }
}

/** Speech recognition by the gateway, with the methods of `ContinuousRecognition`. */
export class GatewayRecognition {
  #send;
  #sendAudio;
  #onState;
  #onLevel;
  #open;
  #languages = "";
  #device = "";
  #microphone = null;
  #attempt = 0; // of opening the microphone; an earlier one has been given up
  #state = "off";

  /**
   * @param {(message: object) => boolean} options.send sends a message
   * @param {(pcm: ArrayBuffer) => void} options.sendAudio sends a piece of audio, or drops it if the network is slow
   * @param {(state: string, reason?: string) => void} options.onState as of `ContinuousRecognition`
   * @param {(level: number) => void} options.onLevel receives the loudness, 0 to 1
   * @param options.open opens the microphone
   */
  constructor({ send, sendAudio, onState, onLevel, open = openMicrophone }) {
    this.#send = send;
    this.#sendAudio = sendAudio;
    this.#onState = onState;
    this.#onLevel = onLevel;
    this.#open = open;
  }

  get isSupported() {
    return true;
  }

  /** Start listening, or continue after `mute`. */
  async start(languages) {
    this.#languages = languages;
    if (this.#state === "starting" || this.#state === "listening") return;
    const attempt = ++this.#attempt;
    this.#change("starting");
    try {
      const microphone = await this.#open(this.#device, (pcm, level) => {
        if (this.#state !== "listening") return;
        this.#onLevel(level);
        this.#sendAudio(pcm);
      }, () => attempt === this.#attempt && this.#lose());
      if (attempt !== this.#attempt) return microphone.close();
      this.#microphone = microphone;
      this.#begin();
      this.#change("listening");
    } catch (error) {
      if (attempt === this.#attempt) this.#change("blocked", PROBLEMS[error.name] ?? STRINGS.microphone.broken({ reason: error.message }));
    }
  }

  /** Stop listening. What was said is recognised to its end. */
  stop() {
    this.#rest("off");
  }

  /** Stop listening until `start`. */
  mute() {
    if (this.#state !== "off") this.#rest("muted");
  }

  /** Recognise other languages from now on: tags with commas between them. */
  setLanguage(languages) {
    if (languages === this.#languages) return;
    this.#languages = languages;
    if (this.#microphone) this.#begin();
  }

  /** Use another microphone, "" for the browser's choice. */
  async setDevice(device) {
    this.#device = device;
    if (this.#state !== "listening") return;
    this.#rest("off");
    await this.start(this.#languages);
  }

  /** Begin audio again, because the page has connected again. */
  onConnected() {
    if (this.#microphone) this.#begin();
  }

  /** Stop if an `error` says that the gateway does not hear. */
  onError(error) {
    if (error.ref !== "microphone" || !this.#microphone) return;
    this.#close();
    this.#change(error.retry ? "waiting" : "blocked", errorText(error));
  }

  #begin() {
    const { rate } = this.#microphone;
    this.#send({ type: "audio", codec: "pcm_s16le", rate, from: this.#languages, ref: "microphone" });
  }

  /** Stop, because the device is gone. What was said is recognised to its end. */
  #lose() {
    this.#rest("off");
    this.#change("blocked", STRINGS.microphone.unplugged);
  }

  #rest(state) {
    this.#attempt++;
    if (this.#microphone) this.#send({ type: "audio", codec: "none" });
    this.#close();
    this.#change(state);
  }

  #close() {
    this.#microphone?.close();
    this.#microphone = null;
    this.#onLevel(0);
  }

  #change(state, reason) {
    this.#state = state;
    this.#onState(state, reason);
  }
}
