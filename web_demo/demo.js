// The built-in meeting and its player, which also says a transcript that was pasted. Knows the document; knows no socket.

import { fillMenu, icon, nameOf } from "./languages.js";
import { newId } from "./lines.js";
import { readScript, timeline } from "./meeting.js";
import { Player } from "./player.js";

const WRITTEN_IN = ["en", "de", "fr", "es", "ja", "zh"]; // meeting/*.txt
const PACES = [1, 1.5, 2, 3];
const REST_MS = 4000; // before it is played again, where the address asks for `loop`

export class Demo {
  #menu = document.querySelector("#demo-lang");
  #bar = document.querySelector("#player");
  #pause = document.querySelector("#pause");
  #pace = document.querySelector("#pace");
  #words = document.querySelector("#playing");
  #count = document.querySelector("#count");
  #progress = document.querySelector("#progress");
  #say;
  #cancel;
  #begin;
  #player = null;
  #ids = new Map(); // line -> id of the utterance
  #resting = 0;

  /** `say(message)` returns false where it could not be sent; `begin(lang)` comes before the first. */
  constructor({ say, cancel, begin }) {
    this.#say = say;
    this.#cancel = cancel;
    this.#begin = begin;
    for (const button of document.querySelectorAll("#demo, #again")) {
      button.addEventListener("click", () => this.start(this.#menu.value));
    }
    document.querySelector("#end-demo").addEventListener("click", () => this.end());
    this.#pause.addEventListener("click", () => {
      if (this.#player.playing) this.#player.pause();
      else this.#player.play();
      this.#show();
    });
    this.#pace.addEventListener("click", () => {
      const pace = PACES[(PACES.indexOf(this.#player.pace) + 1) % PACES.length];
      this.#player.setPace(pace);
      this.#show();
    });
  }

  get playing() {
    return this.#player !== null;
  }

  /** The languages that the gateway can translate from. */
  offer(sources) {
    const there = WRITTEN_IN.filter((tag) => sources.includes(tag));
    const written = (there.length ? there : WRITTEN_IN).map((tag) => ({ tag, endonym: nameOf(tag) }));
    fillMenu(this.#menu, written, this.#menu.value);
  }

  async start(lang) {
    const answer = await fetch(`meeting/${WRITTEN_IN.includes(lang) ? lang : "en"}.txt`);
    const said = timeline(readScript(await answer.text()), lang);
    this.play(said, lang, `Demo, ${nameOf(lang)}`);
  }

  /** Say what is in `said` when it is due; see `timeline`. */
  play(said, lang, title) {
    this.#begin(lang);
    clearTimeout(this.#resting);
    this.#ids.clear();
    const pace = this.#player?.pace ?? 1;
    this.#player?.pause();
    this.#player = new Player(said, {
      say: (entry) => this.#tell(entry, lang),
      onProgress: (next) => this.#advance(next, said, lang, title),
    });
    this.#player.setPace(pace);
    this.#player.play();
    this.#bar.hidden = false;
    this.#show();
  }

  end() {
    clearTimeout(this.#resting);
    const [, id] = [...this.#ids].at(-1) ?? [];
    this.#player?.pause();
    this.#player = null;
    this.#bar.hidden = true;
    if (id) this.#cancel(id);
    document.querySelector("#line").focus();
  }

  #tell({ line, speaker, text, final }, lang) {
    if (!this.#ids.has(line)) this.#ids.set(line, newId());
    const id = this.#ids.get(line);
    const sent = this.#say({ id, text, final, lang, speaker });
    if (sent && final) this.#ids.delete(line);
    return sent;
  }

  #advance(next, said, lang, title) {
    const lines = said.at(-1).line + 1;
    const line = said[Math.min(next, said.length - 1)].line + 1;
    this.#words.textContent = title;
    this.#count.textContent = `${line} / ${lines}`;
    this.#progress.value = next / said.length;
    if (next < said.length) return;
    if (new URLSearchParams(location.search).has("loop")) {
      this.#resting = setTimeout(() => this.play(said, lang, title), REST_MS);
    } else {
      this.#player = null;
      this.#bar.hidden = true;
    }
  }

  #show() {
    const { playing, pace } = this.#player ?? {};
    this.#pause.setAttribute("aria-label", playing ? "Pause" : "Go on");
    this.#pause.replaceChildren(icon(playing ? "pause" : "play"));
    this.#pace.textContent = `${pace}×`;
    this.#pace.setAttribute("aria-label", `Speed: ${pace} times`);
  }
}
