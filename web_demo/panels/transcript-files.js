// The transcripts of a meeting as files.
//
// Owns: reading them from the gateway over HTTP, writing those that only this page has, saving them on this computer.
// Must not know: rows, panels.

import { inRoomOrder, reduce } from "../../clients/js/captions.js";
import { element } from "../page/dom.js";
import { STRINGS, errorText } from "../page/strings.js";

/** The transcripts of one room. */
export class TranscriptFiles {
  hasEnded = false; // the gateway has deleted the meeting: only the page has its lines
  #settings;
  #key;
  #state;

  /**
   * @param {{room: string, name: string, http: URL}} settings
   * @param {AccessKey} key
   * @param {() => object} state returns the captions of this page, as of clients/js/captions.js
   */
  constructor(settings, key, state) {
    this.#settings = settings;
    this.#key = key;
    this.#state = state;
  }

  /**
   * Return a transcript: that of the gateway, or one with the lines that only this page has.
   * @param {string} format vtt, srt, txt or json
   * @param {string} lang tag of the language; "" is the original
   * @returns {Promise<Blob>}
   * @throws {Error} with the reason in words, if the gateway refuses
   */
  async file(format, lang) {
    if (!this.hasEnded && !this.#mayHoldMore) return this.#read(format, lang);
    const { writeTranscript } = await import("./transcript-text.js");
    return new Blob([writeTranscript(format, lang, await this.lines(lang), this.#settings)]);
  }

  /** Return all lines: those of the gateway, and those that only this page has. */
  async lines(languages) {
    const { linesOf } = await import("./transcript-text.js");
    const found = this.hasEnded ? [] : (await this.record(languages).catch(() => ({ utterances: [] }))).utterances;
    return linesOf(inRoomOrder(reduce(this.#state(), { type: "earlier", utterances: found })));
  }

  /** Return the transcript of the gateway, with times in milliseconds since 1970. */
  async record(languages) {
    const record = JSON.parse(await (await this.#read("json", languages)).text());
    return { ...record, utterances: record.utterances.map((one) => ({ ...one, at: 1000 * (record.began + one.at) })) };
  }

  /** Save a transcript as a file. A plain link could not send the key. */
  save(blob, format, lang) {
    const anchor = element("a");
    anchor.href = URL.createObjectURL(blob);
    anchor.download = [this.#settings.room, lang, format].filter(Boolean).join(".");
    anchor.click();
    URL.revokeObjectURL(anchor.href);
  }

  /** True after a restart of the gateway, which may not have kept all lines. */
  get #mayHoldMore() {
    return this.#state().epochIndex > 1; // the first `welcome` begins the first epoch
  }

  async #read(format, lang) {
    const url = new URL(`v1/rooms/${this.#settings.room}/transcript.${format}`, this.#settings.http);
    if (lang) url.searchParams.set("lang", lang);
    const answer = await fetch(url, { headers: this.#key.headers }).catch(() => null);
    if (!answer?.ok) throw new Error(await problemOf(answer));
    return answer.blob();
  }
}

/** Return why the gateway refused a request, in words. */
export async function problemOf(answer) {
  const body = await answer?.json().catch(() => null);
  return body ? errorText({ ...body, msg: body.error }) : STRINGS.transcripts.noAnswer;
}
