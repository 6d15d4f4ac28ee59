// What the page's address says, and the links of a meeting. Pure.
// Query: room, role, from=en, to=de,fr, speaker, gateway=ws://host:port (default: who served this).

const CONSONANTS = "bdfghklmnprstvz";
const VOWELS = "aeiou";
const ROLES = ["speak", "view", "moderate"];

/** The settings in a query; `fallback` where the page remembers some. */
export function read(search, origin, fallback = {}) {
  const query = new URLSearchParams(search);
  const gateway = new URL(query.get("gateway") ?? origin);
  gateway.protocol = gateway.protocol.replace("http", "ws");
  const http = new URL(gateway);
  http.protocol = http.protocol.replace("ws", "http");
  const role = query.get("role") ?? fallback.role;
  return {
    gateway,
    http,
    elsewhere: query.has("gateway"),
    room: query.get("room"),
    role: ROLES.includes(role) ? role : "speak",
    from: query.get("from") ?? fallback.from ?? null,
    to: list(query.get("to") ?? fallback.to ?? ""),
    speaker: query.get("speaker"),
    demo: query.get("demo"),
  };
}

/** A name for a new meeting that can be said on the telephone, and hardly be guessed: 31 bits. */
export function inventRoom(random = crypto.getRandomValues(new Uint8Array(10))) {
  const syllable = (i) => CONSONANTS[random[i] % 15] + VOWELS[random[i + 1] % 5];
  const number = 10 + (random[8] + 256 * random[9]) % 90;
  return `${syllable(0)}${syllable(2)}-${syllable(4)}${syllable(6)}-${number}`;
}

/** Where one joins `room`, as seen from the page at `here`. */
export function link(here, page, { room, gateway, elsewhere }, more = {}) {
  const url = new URL(page, here);
  url.search = "";
  url.hash = "";
  url.searchParams.set("room", room);
  if (elsewhere) url.searchParams.set("gateway", gateway.href);
  for (const [name, value] of Object.entries(more)) url.searchParams.set(name, value);
  return url.href;
}

function list(text) {
  return [...new Set(text.split(",").map((tag) => tag.trim()).filter(Boolean))].slice(0, 3);
}
