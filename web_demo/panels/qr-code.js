// The QR code of a meeting. Owns: reading it from the gateway, which draws it.

const LOCAL_HOST = /^(localhost|127\.|\[::1\])/;

/** Tell whether only this machine reaches an address. */
export function isLocal(address) {
  return LOCAL_HOST.test(new URL(address).host);
}

/**
 * Fetch the code of a meeting; an `img` could not send a key.
 * @param {{room: string, http: URL}} settings
 * @param {string} key key that the code brings along; "" is none
 * @returns {Promise<{picture: SVGElement, reachable: string | undefined} | null>} `reachable` is the address in the code,
 *   if this page has one that only this machine reaches and others can reach the gateway
 */
export async function readCode({ room, http }, key) {
  const url = new URL(`v1/rooms/${room}/qr.svg`, http);
  const answer = await fetch(url, { headers: key ? { authorization: `Bearer ${key}` } : {} }).catch(() => null);
  if (!answer?.ok) return null;
  const [, reachable] = /<([^>]+)>/.exec(answer.headers.get("link") ?? "") ?? [];
  const svg = new DOMParser().parseFromString(await answer.text(), "image/svg+xml").documentElement;
  return { picture: document.importNode(svg, true), reachable };
}
