// Toolbars by keyboard: arrow keys go from one button to the next, Home and End to the first and the last.
//
// Owns: which button of a toolbar gets the focus (ARIA Authoring Practices, toolbar). Tab reaches each button too.

/** Return the index to go to from `index` by a key; null if the key does not move. */
export function nextIndex(key, index, count, rightToLeft = false) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
  if (step) return (index + (rightToLeft ? -step : step) + count) % count;
  return { Home: 0, End: count - 1 }[key] ?? null;
}

/** Let the arrow keys move among the buttons of a toolbar. */
export function moveByArrows(toolbar) {
  toolbar.addEventListener("keydown", (event) => {
    const buttons = [...toolbar.querySelectorAll("button")].filter((button) => button.checkVisibility());
    const index = buttons.indexOf(event.target);
    const next = index < 0 ? null : nextIndex(event.key, index, buttons.length, getComputedStyle(toolbar).direction === "rtl");
    if (next === null) return;
    event.preventDefault();
    event.stopPropagation(); // in a row, arrow keys would move to another row
    buttons[next].focus();
  });
}
