// Settings in the address of a page, and links to a meeting. Pure.
//
// Owns: the query parameters room, name, role, from=en, to=de,fr, speaker and demo. None of them names a gateway: a link
// to a trusted page must not send what people say to another host.
// Must not know: the document, sockets.

const CONSONANTS = "bdfghklmnprstvz";
const VOWELS = "aeiou";
const ROLES = ["speak", "view", "moderate"];
const MAX_LANGUAGES = 3; // as many columns as the page has
const MAX_ROOM = 64; // characters of a room's name, which the gateway allows
const INVENTED = /^([a-z]{4})-?([a-z]{4})-?(\d\d)$/; // a name of `inventRoomName`, as people type it

/**
 * Read the settings of a page from its address.
 * @param {string} search query of the page, such as "?room=a&to=de,fr"
 * @param {string} page address of the page; its gateway is the one that served it, which may be mounted below a path
 * @param {{role?: string, from?: string, to?: string}} defaults values for absent parameters
 * @returns settings: `gateway` and `http` are the URLs for sockets and for requests; `to` is a list of language tags
 */
export function readSettings(search, page, defaults = {}) {
  const query = new URLSearchParams(search);
  const http = new URL(".", page); // addresses of requests are relative to it
  const gateway = new URL(http);
  gateway.protocol = http.protocol.replace("http", "ws");
  const role = query.get("role") ?? defaults.role;
  return {
    gateway,
    http,
    room: roomOf(query.get("room") ?? "") || null,
    name: query.get("name")?.trim() ?? "",
    role: ROLES.includes(role) ? role : "speak",
    from: query.get("from") ?? defaults.from ?? null,
    to: readLanguages(query.get("to") ?? defaults.to ?? ""),
    speaker: query.get("speaker"),
    demo: query.get("demo"),
  };
}

/**
 * Make up a room name that is easy to say on the telephone and hard to guess (31 bits).
 * @param {Uint8Array} random ten random bytes
 * @returns {string} a name such as "bado-niru-42"
 */
export function inventRoomName(random = crypto.getRandomValues(new Uint8Array(10))) {
  const syllable = (i) => CONSONANTS[random[i] % 15] + VOWELS[random[i + 1] % 5];
  const number = 10 + (random[8] + 256 * random[9]) % 90;
  return `${syllable(0)}${syllable(2)}-${syllable(4)}${syllable(6)}-${number}`;
}

/**
 * Return the name that the gateway gives to a room: ASCII letters, digits, "-" and "_", at most 64. Other characters
 * become "-"; of a name without any allowed one, the numbers of its characters make the name.
 * @param {string} text as somebody wrote it in an address, or typed it
 */
export function roomOf(text) {
  const written = text.normalize("NFKD").replace(/\p{M}/gu, "").trim();
  const name = written.replace(/[^\w-]+/g, "-").slice(0, MAX_ROOM).replace(/^-+|-+$/g, "");
  if (name || !written) return name;
  return Array.from(written, (character) => character.codePointAt(0).toString(36)).join("-").slice(0, MAX_ROOM);
}

/** Return the room of a code that somebody heard and typed: "Bado niru 42" is bado-niru-42. */
export function roomOfCode(text) {
  const room = roomOf(text);
  const [, ...parts] = INVENTED.exec(room.toLowerCase()) ?? [];
  return parts.length ? parts.join("-") : room;
}

/**
 * Return the link to a page of a meeting.
 * @param {string} base address of the current page
 * @param {string} page page to link to, relative to `base`
 * @param {object} settings result of `readSettings`
 * @param {object} extra further query parameters
 */
export function meetingLink(base, page, { room, name }, extra = {}) {
  const url = new URL(page, base);
  url.search = "";
  url.hash = ""; // it may hold a key, which a link must not carry by accident
  for (const [field, value] of Object.entries({ room, ...(name && { name }), ...extra })) url.searchParams.set(field, value);
  return url.href;
}

function readLanguages(text) {
  return [...new Set(text.split(",").map((tag) => tag.trim()).filter(Boolean))].slice(0, MAX_LANGUAGES);
}
