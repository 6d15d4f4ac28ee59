// Keep the screen on while somebody reads. Browsers let go of it when the page is hidden.

let wanted = false;
let lock = null;

/** Ask for the screen to stay on, or no longer; true where the browser does it. */
export async function keepAwake(on) {
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
    lock = null; // a low battery, or a page that is not visible
  }
  return Boolean(lock);
}

globalThis.document?.addEventListener("visibilitychange", () => {
  if (wanted && !document.hidden) keepAwake(true);
});
