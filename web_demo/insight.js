// The panel of figures: how fast the captions come, how calm they are, how busy the engine is.
// Knows the document and the gateway's HTTP; knows no socket.

import { element } from "./languages.js";
import { NONE, keep, mean, measure, quantile, readMetrics } from "./measures.js";
import { plot } from "./plots.js";

const EVERY_MS = 1000;
const milliseconds = (figure) => (figure < 1000 ? `${Math.round(figure)} ms` : `${(figure / 1000).toFixed(1)} s`);
const spread = (figures) => (figures.length
  ? `half within ${milliseconds(quantile(figures, 0.5))}, 95 % within ${milliseconds(quantile(figures, 0.95))}` : "");

const CARDS = [
  { key: "first", name: "First text", least: 500, value: (figures) => milliseconds(figures.at(-1)), more: spread },
  { key: "final", name: "Finished caption", least: 1000, value: (figures) => milliseconds(figures.at(-1)), more: spread },
  { key: "erasure", name: "Erasure", least: 0.4, value: (figures) => mean(figures).toFixed(2),
    more: () => "characters taken back for each one that stays; below 0.2 is calm" },
  { key: "tokens", name: "Tokens a second", least: 50, value: (figures) => Math.round(figures.at(-1)), more: () => "of all meetings on this gateway" },
  { key: "load", name: "Engine load", least: 1, value: (figures) => `${Math.round(100 * figures.at(-1))} %`,
    more: () => "translations under way, of those it takes at once" },
  { key: "queue", name: "Queue", least: 8, value: (figures) => figures.at(-1), more: () => "translations that wait" },
];

export class Insight {
  section = document.querySelector("#insight-panel");
  #place;
  #key;
  #figures = NONE;
  #engine = { tokens: [], load: [], queue: [] };
  #last = null; // { at, tokens } of the last look at the engine
  #cards = new Map();
  #timer = 0;

  /** `place` is { http }, `key` what it may ask for. */
  constructor(place, key) {
    this.#place = place;
    this.#key = key;
    for (const card of CARDS) {
      const node = element("section", "card");
      const [name, value, more, canvas] = ["h3", "output", "p", "canvas"].map((tag) => element(tag));
      name.textContent = card.name;
      canvas.setAttribute("aria-hidden", "true");
      node.append(name, value, canvas, more);
      this.#cards.set(card.key, { value, more, canvas });
      this.section.append(node);
    }
  }

  hear(event) {
    this.#figures = measure(this.#figures, event);
  }

  open() {
    this.#last = null;
    this.#look();
    this.#timer = setInterval(() => this.#look(), EVERY_MS);
  }

  close() {
    clearInterval(this.#timer);
  }

  async #look() {
    this.#draw();
    const answer = await fetch(new URL("/metrics", this.#place.http), { headers: this.#key.headers }).catch(() => null);
    if (!answer?.ok) return;
    const found = readMetrics(await answer.text());
    const now = { at: performance.now() / 1000, tokens: found.gateway_tokens_total };
    const rate = this.#last && (now.tokens - this.#last.tokens) / (now.at - this.#last.at);
    this.#last = now;
    const { tokens, load, queue } = this.#engine;
    this.#engine = {
      tokens: rate === null ? tokens : keep(tokens, Math.max(0, rate)),
      load: keep(load, found.gateway_jobs_running / found.gateway_jobs_capacity),
      queue: keep(queue, found.gateway_jobs_queued),
    };
  }

  #draw() {
    const all = { ...this.#figures, ...this.#engine };
    for (const card of CARDS) {
      const figures = all[card.key];
      const { value, more, canvas } = this.#cards.get(card.key);
      value.textContent = figures.length ? card.value(figures) : "–";
      more.textContent = figures.length ? card.more(figures) : "nothing measured yet";
      plot(canvas, figures, card.least);
    }
  }
}
