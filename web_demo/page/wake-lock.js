// The screen wake lock: it keeps the screen on while somebody reads.
//
// Owns: the lock. Browsers release it when the page is hidden, so it is requested again afterwards.

let wanted = false;
let lock = null;

/**
 * Keep the screen on, or allow it to turn off.
 * @param {boolean} on
 * @returns {Promise<boolean>} whether the browser keeps the screen on
 */
export async function keepScreenOn(on) {
  wanted = on;
  if (!on) {
    await lock?.release();
    lock = null;
    return false;
  }
  if (lock && !lock.released) return true;
  try {
    lock = (await navigator.wakeLock?.request("screen")) ?? null;
  } catch {
    lock = null; // the battery is low, or the page is not visible
  }
  return Boolean(lock);
}

globalThis.document?.addEventListener("visibilitychange", () => {
  if (wanted && !document.hidden) keepScreenOn(true);
});
