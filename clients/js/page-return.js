// The return of a page that slept or was without network. For browsers.
//
// Owns: the events that announce it. Elsewhere a program calls `wake` itself.

/**
 * Have connections checked when the network or a sleeping page comes back, since no timer need be awaited then.
 * @param {{wake: () => void}} connection
 * @returns {() => void} a function that stops it
 */
export function wakeOnReturn(connection) {
  const listening = new AbortController();
  const { signal } = listening;
  const wake = () => connection.wake();
  addEventListener("online", wake, { signal });
  addEventListener("pageshow", wake, { signal });
  document.addEventListener("visibilitychange", () => document.hidden || wake(), { signal });
  return () => listening.abort();
}
