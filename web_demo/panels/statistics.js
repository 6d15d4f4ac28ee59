// The Statistics panel: how fast captions arrive, how much they change, and how busy the gateway is.
//
// Owns: the cards of the panel, and reading the gateway's metrics over HTTP while it is open.
// Must not know: sockets.

import { element } from "../page/dom.js";
import { STRINGS, UI_LANGUAGE } from "../page/strings.js";
import { EMPTY_METRICS, append, mean, measure, parsePrometheus, quantile } from "./caption-metrics.js";
import { drawLineChart } from "./line-chart.js";

const INTERVAL_MS = 1000;
const inFormat = (options) => new Intl.NumberFormat(UI_LANGUAGE, options);
const whole = inFormat({ maximumFractionDigits: 0 });
const hundredths = inFormat({ minimumFractionDigits: 2, maximumFractionDigits: 2 });
const percent = inFormat({ style: "percent" });
const milliseconds = inFormat({ style: "unit", unit: "millisecond", maximumFractionDigits: 0 });
const seconds = inFormat({ style: "unit", unit: "second", minimumFractionDigits: 1, maximumFractionDigits: 1 });
const duration = (ms) => (ms < 1000 ? milliseconds.format(ms) : seconds.format(ms / 1000));
const spread = (values) => (values.length
  ? STRINGS.statistics.spread({ half: duration(quantile(values, 0.5)), most: duration(quantile(values, 0.95)) }) : "");

/** Cards by measurement: `value` and `note` make texts of the values; `minimumScale` is that of the chart. */
const CARDS = [
  { key: "first", name: STRINGS.statistics.first, minimumScale: 500, value: (values) => duration(values.at(-1)), note: spread },
  { key: "final", name: STRINGS.statistics.final, minimumScale: 1000, value: (values) => duration(values.at(-1)), note: spread },
  { key: "erasure", name: STRINGS.statistics.erasure, minimumScale: 0.4, value: (values) => hundredths.format(mean(values)),
    note: () => STRINGS.statistics.erasureNote },
  { key: "tokens", name: STRINGS.statistics.tokens, minimumScale: 50, value: (values) => whole.format(values.at(-1)),
    note: () => STRINGS.statistics.tokensNote },
  { key: "load", name: STRINGS.statistics.load, minimumScale: 1, value: (values) => percent.format(values.at(-1)),
    note: () => STRINGS.statistics.loadNote },
  { key: "queue", name: STRINGS.statistics.queue, minimumScale: 8, value: (values) => whole.format(values.at(-1)), note: () => STRINGS.statistics.queueNote },
];

/** The Statistics panel. */
export class StatisticsPanel {
  section = document.querySelector("#statistics-panel");
  #settings;
  #key;
  #captions = EMPTY_METRICS;
  #engine = { tokens: [], load: [], queue: [] };
  #last = null; // { at, tokens }: the last sample of the engine
  #cards = new Map();
  #timer = 0;

  /**
   * @param {{http: URL}} settings
   * @param {AccessKey} key
   */
  constructor(settings, key) {
    this.#settings = settings;
    this.#key = key;
    for (const card of CARDS) {
      const node = element("section", "card");
      const [name, value, canvas, note] = ["h3", "output", "canvas", "p"].map((tag) => element(tag));
      name.textContent = card.name;
      canvas.setAttribute("aria-hidden", "true");
      node.append(name, value, canvas, note);
      this.#cards.set(card.key, { value, note, canvas });
      this.section.append(node);
    }
  }

  /** Measure an event of the room. */
  onEvent(event) {
    this.#captions = measure(this.#captions, event);
  }

  /** Start updating the panel. */
  open() {
    this.#last = null;
    this.#update();
    this.#timer = setInterval(() => this.#update(), INTERVAL_MS);
  }

  /** Stop updating the panel. */
  close() {
    clearInterval(this.#timer);
  }

  async #update() {
    this.#render();
    const url = new URL("metrics", this.#settings.http);
    const answer = await fetch(url, { headers: this.#key.headers }).catch(() => null);
    if (!answer?.ok) return;
    const metrics = parsePrometheus(await answer.text());
    const sample = { at: performance.now() / 1000, tokens: metrics.gateway_tokens_total };
    const rate = this.#last && (sample.tokens - this.#last.tokens) / (sample.at - this.#last.at);
    this.#last = sample;
    const { tokens, load, queue } = this.#engine;
    this.#engine = {
      tokens: rate === null ? tokens : append(tokens, Math.max(0, rate)), // a restart sets the counter to 0
      load: append(load, metrics.gateway_jobs_running / metrics.gateway_jobs_capacity),
      queue: append(queue, metrics.gateway_jobs_queued),
    };
  }

  #render() {
    const all = { ...this.#captions, ...this.#engine };
    for (const card of CARDS) {
      const values = all[card.key];
      const { value, note, canvas } = this.#cards.get(card.key);
      value.textContent = values.length ? card.value(values) : "–";
      note.textContent = values.length ? card.note(values) : STRINGS.statistics.nothing;
      drawLineChart(canvas, values, card.minimumScale);
    }
  }
}
