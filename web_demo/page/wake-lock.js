// The screen wake lock: it keeps the screen on while somebody reads.
//
// Owns: the lock, and a video in its place. Browsers release the lock when the page is hidden, so it is
// requested again afterwards. They have it on https and on the own machine only; over http a muted video that
// plays keeps many of them from turning the screen off, but none promises that.

const FRAME_MS = 1000; // between two pictures of the video

let wanted = false;
let lock = null;
let video = null;
let timer = 0;

/**
 * Keep the screen on, or allow it to turn off.
 * @param {boolean} on
 * @returns {Promise<boolean>} whether the browser promises to keep the screen on
 */
export async function keepScreenOn(on) {
  wanted = on;
  if (!on) {
    await lock?.release();
    lock = null;
    stopVideo();
    return false;
  }
  if (lock && !lock.released) return true;
  try {
    lock = (await navigator.wakeLock?.request("screen")) ?? null;
  } catch {
    lock = null; // the battery is low, or the page is not visible
  }
  if (!navigator.wakeLock) await playVideo();
  return Boolean(lock);
}

/** Play a video of one dot, made on the spot: the page loads nothing. */
async function playVideo() {
  if (video) return;
  const canvas = document.createElement("canvas");
  if (!canvas.captureStream) return;
  canvas.width = canvas.height = 2;
  const context = canvas.getContext("2d");
  video = document.createElement("video");
  video.id = "wake-video"; // the style sheet makes it one pixel, since hidden ones do not count
  video.muted = video.playsInline = true;
  video.setAttribute("aria-hidden", "true");
  video.srcObject = canvas.captureStream(1);
  document.body.append(video);
  let dark = false;
  timer = setInterval(() => {
    dark = !dark;
    context.fillStyle = dark ? "#000" : "#010101";
    context.fillRect(0, 0, 2, 2);
  }, FRAME_MS);
  await video.play().catch(stopVideo); // some browsers play nothing before the first touch
}

function stopVideo() {
  clearInterval(timer);
  video?.remove();
  video = null;
}

globalThis.document?.addEventListener("visibilitychange", () => {
  if (wanted && !document.hidden) keepScreenOn(true);
});
globalThis.document?.addEventListener("pointerdown", () => {
  if (wanted && !navigator.wakeLock) playVideo();
});
