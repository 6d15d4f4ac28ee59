// The controls of playback: pause, speed and progress.
//
// Owns: the player of this page. It plays the demo meeting or a pasted transcript.
// Must not know: sockets, captions.

import { icon } from "../page/dom.js";
import { STRINGS, uiNameOf } from "../page/strings.js";
import { newId } from "../speech/utterance-ids.js";
import { readScript, timeline } from "./demo-script.js";
import { Player } from "./player.js";

const SPEEDS = [1, 1.5, 2, 3];
const LOOP_PAUSE_MS = 4000; // before it plays again, if the address has `loop`

/** The playback controls. */
export class DemoControls {
  #bar = document.querySelector("#player");
  #pauseButton = document.querySelector("#pause");
  #speedButton = document.querySelector("#speed");
  #title = document.querySelector("#player-title");
  #position = document.querySelector("#player-position");
  #progress = document.querySelector("#progress");
  #say;
  #cancel;
  #onStart;
  #player = null;
  #ids = new Map(); // line -> id of its unfinished utterance
  #loopTimer = 0;

  /**
   * @param {(message: object) => boolean} options.say sends { id, text, final, lang, speaker }; false if it is lost
   * @param {(id: string) => void} options.cancel cancels an utterance
   * @param {(lang: string) => void} options.onStart called before the first line
   */
  constructor({ say, cancel, onStart }) {
    this.#say = say;
    this.#cancel = cancel;
    this.#onStart = onStart;
    document.querySelector("#stop-player").addEventListener("click", () => this.stop());
    this.#pauseButton.addEventListener("click", () => {
      if (this.#player.isPlaying) this.#player.pause();
      else this.#player.play();
      this.#render();
    });
    this.#speedButton.addEventListener("click", () => {
      const speed = SPEEDS[(SPEEDS.indexOf(this.#player.speed) + 1) % SPEEDS.length];
      this.#player.setSpeed(speed);
      this.#render();
    });
  }

  /** Play the demo meeting in a language that it is written in. */
  async playDemo(lang) {
    const answer = await fetch(new URL(`../meeting/${lang}.txt`, import.meta.url));
    const entries = timeline(readScript(await answer.text()), lang);
    this.play(entries, lang, STRINGS.playback.demoTitle({ language: uiNameOf(lang) }));
  }

  /**
   * Play timed entries from the beginning.
   * @param {object[]} entries as of `timeline`
   * @param {string} lang tag of their language
   * @param {string} title shown beside the progress
   */
  play(entries, lang, title) {
    this.#onStart(lang);
    clearTimeout(this.#loopTimer);
    this.#ids.clear();
    const speed = this.#player?.speed ?? 1;
    this.#player?.pause();
    this.#player = new Player(entries, {
      say: (entry) => this.#sayEntry(entry, lang),
      onProgress: (next) => this.#onProgress(next, entries, lang, title),
    });
    this.#player.setSpeed(speed);
    this.#player.play();
    this.#bar.hidden = false;
    this.#render();
  }

  /** Stop playing; the unfinished line is cancelled. */
  stop() {
    clearTimeout(this.#loopTimer);
    const [, id] = [...this.#ids].at(-1) ?? [];
    this.#player?.pause();
    this.#player = null;
    this.#bar.hidden = true;
    if (id) this.#cancel(id);
    document.querySelector("#line").focus();
  }

  #sayEntry({ line, speaker, text, final }, lang) {
    if (!this.#ids.has(line)) this.#ids.set(line, newId());
    const id = this.#ids.get(line);
    const sent = this.#say({ id, text, final, lang, speaker });
    if (sent && final) this.#ids.delete(line);
    return sent;
  }

  #onProgress(next, entries, lang, title) {
    const total = entries.at(-1).line + 1;
    const line = entries[Math.min(next, entries.length - 1)].line + 1;
    this.#title.textContent = title;
    this.#position.textContent = `${line} / ${total}`;
    this.#progress.value = next / entries.length;
    if (next < entries.length) return;
    if (new URLSearchParams(location.search).has("loop")) {
      this.#loopTimer = setTimeout(() => this.play(entries, lang, title), LOOP_PAUSE_MS);
    } else {
      this.#player = null;
      this.#bar.hidden = true;
    }
  }

  #render() {
    const { isPlaying, speed } = this.#player ?? {};
    this.#pauseButton.setAttribute("aria-label", isPlaying ? STRINGS.playback.pause : STRINGS.playback.continue);
    this.#pauseButton.replaceChildren(icon(isPlaying ? "pause" : "play"));
    this.#speedButton.textContent = STRINGS.playback.times({ times: speed ?? 1 });
    this.#speedButton.setAttribute("aria-label", STRINGS.playback.speedTimes({ times: speed ?? 1 }));
  }
}
