// The transcripts of a meeting as files.
//
// Owns: reading them from the gateway over HTTP and saving them on this computer.
// Must not know: the state of the page.

import { element } from "../page/dom.js";
import { STRINGS, errorText } from "../page/strings.js";

/** The transcripts of one room. */
export class TranscriptFiles {
  #settings;
  #key;

  /**
   * @param {{room: string, http: URL}} settings
   * @param {AccessKey} key
   */
  constructor(settings, key) {
    this.#settings = settings;
    this.#key = key;
  }

  /**
   * Read a transcript.
   * @param {string} format vtt, srt, txt or json
   * @param {string} lang tag of the language; "" is the original
   * @returns {Promise<Blob>}
   * @throws {Error} with the reason in words, if the gateway refuses
   */
  async read(format, lang) {
    const url = new URL(`v1/rooms/${this.#settings.room}/transcript.${format}`, this.#settings.http);
    if (lang) url.searchParams.set("lang", lang);
    const answer = await fetch(url, { headers: this.#key.headers }).catch(() => null);
    if (!answer?.ok) throw new Error(await problemOf(answer));
    return answer.blob();
  }

  /** Save a transcript as a file. A plain link could not send the key. */
  save(blob, format, lang) {
    const anchor = element("a");
    anchor.href = URL.createObjectURL(blob);
    anchor.download = [this.#settings.room, lang, format].filter(Boolean).join(".");
    anchor.click();
    URL.revokeObjectURL(anchor.href);
  }
}

/** Return why the gateway refused a request, in words. */
export async function problemOf(answer) {
  const body = await answer?.json().catch(() => null);
  return body ? errorText({ ...body, msg: body.error }) : STRINGS.transcripts.noAnswer;
}
