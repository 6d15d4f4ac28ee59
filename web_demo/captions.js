// Captions as a reader sees them. Pure: the page's state and one event in, the new state out.
// Knows the events of docs/protocol.md; knows no socket and no document.
//
// An utterance: { key, id, era, ord, lang, text, speaker, final, captions: { [lang]: caption } }
// A caption:    { stable, draft, status, code }, shown as stable text followed by its draft

export const LIMIT = 200; // utterances kept; the oldest go first

/** `era` counts connections: without resume each begins anew, and ids may come again. */
export const EMPTY = { era: 0, utterances: new Map() };

const GROWING = "growing";
const BLANK = { stable: "", draft: "", status: GROWING, code: null };

/**
 * The state after an event of the server, a `say` of this page, or `broken`, the end of a connection.
 * Unknown types change nothing.
 */
export function reduce(state, event) {
  switch (event.type) {
    case "welcome":
      return { ...interrupted(state), era: state.era + 1 };
    case "broken":
      return interrupted(state);
    case "say":
      return change(state, event, (u) => ({ ...u, text: event.text, lang: event.lang }));
    case "ack":
      return change(state, event, (u) => ({ ...u, ord: event.ord }));
    case "source":
      return change(state, event, (u) => ({
        ...u,
        ord: event.ord,
        lang: event.lang,
        text: event.text,
        speaker: event.speaker ?? null,
        final: true,
      }));
    case "delta":
      return caption(state, event, (c) => ({
        ...c,
        stable: (event.reset ? "" : c.stable) + (event.add ?? ""),
        draft: event.draft ?? c.draft,
      }));
    case "final":
      return caption(state, event, () => ({ ...BLANK, stable: event.text, status: "final" }));
    case "failed":
      return caption(state, event, () => ({ ...BLANK, status: "failed", code: event.code }));
    case "cancelled":
      return cancelled(state, event);
    default:
      return state;
  }
}

/** The utterances in the order of the room; those whose place is not known yet come last. */
export function inOrder(state) {
  return [...state.utterances.values()].sort((a, b) => a.era - b.era || a.ord - b.ord);
}

/** The connection is gone: what it left unfinished will not come any more. */
function interrupted(state) {
  const utterances = new Map();
  for (const [key, utterance] of state.utterances) {
    utterances.set(key, endGrowing(utterance, "interrupted"));
  }
  return { ...state, utterances };
}

function cancelled(state, event) {
  const key = `${state.era}/${event.id}`;
  const utterance = state.utterances.get(key);
  if (!utterance) return state;
  if (event.lang) {
    return caption(state, event, (c) => ({ ...c, draft: "", status: "cancelled" }));
  }
  const utterances = new Map(state.utterances);
  if (utterance.final) utterances.set(key, endGrowing(utterance, "cancelled"));
  else utterances.delete(key); // begun, never said to its end, taken back
  return { ...state, utterances };
}

function endGrowing(utterance, status) {
  const captions = Object.entries(utterance.captions);
  if (captions.every(([, c]) => c.status !== GROWING)) return utterance;
  const ended = captions.map(([lang, c]) => [
    lang,
    c.status === GROWING ? { ...c, draft: "", status } : c,
  ]);
  return { ...utterance, captions: Object.fromEntries(ended) };
}

function change(state, { id }, update) {
  const key = `${state.era}/${id}`;
  const utterances = new Map(state.utterances);
  utterances.set(key, update(utterances.get(key) ?? begin(key, id, state.era)));
  if (utterances.size > LIMIT) utterances.delete(utterances.keys().next().value);
  return { ...state, utterances };
}

function begin(key, id, era) {
  return { key, id, era, ord: Number.MAX_VALUE, lang: "", text: "", speaker: null, final: false,
           captions: {} };
}

/** Change one caption, unless it has ended: what has ended never changes again. */
function caption(state, event, update) {
  return change(state, event, (u) => {
    const before = u.captions[event.lang] ?? BLANK;
    if (before.status !== GROWING) return u;
    return { ...u, captions: { ...u.captions, [event.lang]: update(before) } };
  });
}
