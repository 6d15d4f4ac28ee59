// Addresses of a gateway. Pure.
//
// Owns: queries. `URL` is not used, because React Native has only a part of it.

/**
 * Add parameters to the query of an address; those of the same names are replaced.
 * @param {string | URL} address
 * @param {Object<string, string | number | null | undefined>} parameters absent values are left out
 * @returns {string} the address without its fragment
 */
export function withQuery(address, parameters) {
  const [base, query = ""] = String(address).split("#")[0].split("?");
  const kept = query.split("&").filter((pair) => pair && !(pair.split("=")[0] in parameters));
  const added = Object.entries(parameters)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  const pairs = [...kept, ...added];
  return pairs.length ? `${base}?${pairs.join("&")}` : base;
}

/**
 * Return the address of a gateway's sockets.
 * @param {string | URL} gateway address of the gateway (`http` means `ws`), which may be mounted below a path, or of its
 *   sockets
 */
export function socketAddress(gateway) {
  const [base, query] = String(gateway).split("#")[0].split("?");
  const path = /\/v1\/ws$/.test(base) ? base : `${base.replace(/\/$/, "")}/v1/ws`;
  return path.replace(/^http/, "ws") + (query ? `?${query}` : "");
}
