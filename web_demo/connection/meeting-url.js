// Settings in the address of a page, and links to a meeting. Pure.
//
// Owns: the query parameters room, role, from=en, to=de,fr, speaker and demo. None of them names a gateway: a link
// to a trusted page must not send what people say to another host.
// Must not know: the document, sockets.

const CONSONANTS = "bdfghklmnprstvz";
const VOWELS = "aeiou";
const ROLES = ["speak", "view", "moderate"];
const MAX_LANGUAGES = 3; // as many columns as the page has

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
    room: query.get("room"),
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
 * Return the link to a page of a meeting.
 * @param {string} base address of the current page
 * @param {string} page page to link to, relative to `base`
 * @param {object} settings result of `readSettings`
 * @param {object} extra further query parameters
 */
export function meetingLink(base, page, { room }, extra = {}) {
  const url = new URL(page, base);
  url.search = "";
  url.hash = ""; // it may hold a key, which a link must not carry by accident
  url.searchParams.set("room", room);
  for (const [name, value] of Object.entries(extra)) url.searchParams.set(name, value);
  return url.href;
}

function readLanguages(text) {
  return [...new Set(text.split(",").map((tag) => tag.trim()).filter(Boolean))].slice(0, MAX_LANGUAGES);
}
