// Measurements of captions: how fast they arrive, and how much of them is erased again. Pure.

const MAX_VALUES = 90; // kept of each measurement

/** Measurements before the first event. */
export const EMPTY_METRICS = { first: [], final: [], erasure: [], shown: new Map() };

/**
 * Return the measurements after an event.
 *   first, final: milliseconds from the end of the last speech to the first text and to the final caption
 *   erasure: characters removed from the screen, for each character of the final caption
 *   shown: the growing captions
 */
export function measure(metrics, event) {
  const key = `${event.id}/${event.lang}`;
  if (event.type === "delta") {
    const before = metrics.shown.get(key) ?? { stable: "", text: "", erased: 0 };
    const stable = (event.reset ? "" : before.stable) + (event.add ?? "");
    const draft = event.draft ?? before.text.slice(before.stable.length);
    return { ...metrics, shown: put(metrics.shown, key, countErased(before, stable, stable + draft)) };
  }
  // A caption in the speaker's language is not translated, so it is not measured.
  if (event.type !== "final" || event.by === "same") return metrics;
  const before = metrics.shown.get(key);
  const { text, erased } = countErased(before ?? { text: "", erased: 0 }, event.text, event.text);
  const shown = new Map(metrics.shown);
  shown.delete(key);
  return {
    shown,
    first: append(metrics.first, event.ms.first),
    final: append(metrics.final, event.ms.total),
    erasure: before && text ? append(metrics.erasure, erased / [...text].length) : metrics.erasure,
  };
}

/** Return the value below which a share (0 to 1) of the values lies; null if there are none. */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : null;
}

/** Return the mean; null if there are no values. */
export function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

/** Parse Prometheus' text format: return the values by name, without those that have labels. */
export function parsePrometheus(text) {
  return Object.fromEntries([...text.matchAll(/^(\w+) ([-+.\deE]+)$/gm)].map(([, name, value]) => [name, Number(value)]));
}

/** Return the list with one more value; the oldest is dropped if the list is full. */
export function append(values, value) {
  return [...values, value].slice(-MAX_VALUES);
}

function countErased(before, stable, text) {
  let same = 0;
  while (same < before.text.length && before.text[same] === text[same]) same++;
  return { stable, text, erased: before.erased + [...before.text.slice(same)].length };
}

function put(shown, key, value) {
  const next = new Map(shown).set(key, value);
  if (next.size > MAX_VALUES) next.delete(next.keys().next().value); // a caption that never ended
  return next;
}
