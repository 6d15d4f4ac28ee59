// How fast and how calm the captions are: events in, figures out. Pure.

const KEPT = 90; // figures of each kind

export const NONE = { first: [], final: [], erasure: [], shown: new Map() };

/**
 * The figures after an event: milliseconds from what was said last to the first text and to the final, and
 * erasure: characters that were taken off the screen, for each one that stayed.
 */
export function measure(figures, event) {
  const key = `${event.id}/${event.lang}`;
  if (event.type === "delta") {
    const before = figures.shown.get(key) ?? { stable: "", text: "", erased: 0 };
    const stable = (event.reset ? "" : before.stable) + (event.add ?? "");
    const draft = event.draft ?? before.text.slice(before.stable.length);
    return { ...figures, shown: put(figures.shown, key, show(before, stable, stable + draft)) };
  }
  if (event.type !== "final" || event.by === "same") return figures;
  const before = figures.shown.get(key);
  const { text, erased } = show(before ?? { text: "", erased: 0 }, event.text, event.text);
  const shown = new Map(figures.shown);
  shown.delete(key);
  return {
    shown,
    first: keep(figures.first, event.ms.first),
    final: keep(figures.final, event.ms.total),
    erasure: before && text ? keep(figures.erasure, erased / [...text].length) : figures.erasure,
  };
}

/** The value below which a share of the figures lies; null where there are none. */
export function quantile(figures, share) {
  const sorted = [...figures].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : null;
}

export function mean(figures) {
  return figures.length ? figures.reduce((sum, figure) => sum + figure, 0) / figures.length : null;
}

/** The numbers of Prometheus' text format, by name; those with labels are left out. */
export function readMetrics(text) {
  return Object.fromEntries([...text.matchAll(/^(\w+) ([-+.\deE]+)$/gm)].map(([, name, value]) => [name, Number(value)]));
}

/** The list with one more figure; the oldest goes. */
export function keep(figures, figure) {
  return [...figures, figure].slice(-KEPT);
}

function show(before, stable, text) {
  let same = 0;
  while (same < before.text.length && before.text[same] === text[same]) same++;
  return { stable, text, erased: before.erased + [...before.text.slice(same)].length };
}

function put(shown, key, value) {
  const next = new Map(shown).set(key, value);
  if (next.size > KEPT) next.delete(next.keys().next().value);
  return next;
}
