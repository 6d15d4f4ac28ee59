// Toolbars by keyboard: arrow keys go from one button to the next, Home and End to the first and the last.
//
// Owns: which button of a toolbar gets the focus (ARIA Authoring Practices, toolbar with a roving tabindex).

/** Return the index to go to from `index` by a key; null if the key does not move. */
export function nextIndex(key, index, count, rightToLeft = false) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
  if (step) return (index + (rightToLeft ? -step : step) + count) % count;
  return { Home: 0, End: count - 1 }[key] ?? null;
}

/** Make a toolbar one stop of the Tab key, at the button that had the focus last. */
export function makeToolbar(toolbar) {
  const shown = () => [...toolbar.querySelectorAll("button")].filter((button) => button.checkVisibility());
  const stopAt = (stop) => {
    for (const button of toolbar.querySelectorAll("button")) button.tabIndex = button === stop ? 0 : -1;
  };
  stopAt(toolbar.querySelector("button"));
  toolbar.addEventListener("focusin", ({ target }) => stopAt(target));
  // The button may have been hidden since, as by another role: then the first one that is shown takes its place.
  document.addEventListener("keydown", ({ key }) => {
    if (key === "Tab" && !shown().some(({ tabIndex }) => tabIndex === 0)) stopAt(shown()[0]);
  }, { capture: true });
  toolbar.addEventListener("keydown", (event) => {
    const buttons = shown();
    const index = buttons.indexOf(event.target);
    const next = index < 0 ? null : nextIndex(event.key, index, buttons.length, getComputedStyle(toolbar).direction === "rtl");
    if (next === null) return;
    event.preventDefault();
    event.stopPropagation(); // in a row, arrow keys would move to another row
    buttons[next].focus();
  });
}
