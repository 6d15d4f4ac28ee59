// Elements that all parts of the page are made of. Owns: how elements, icons and icon buttons are created, and parts of
// the page that are loaded when they are first wanted, with their style sheets.

/** Create an element with a class and a text. */
export function element(name, className = "", text = "") {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.textContent = text;
  return node;
}

/** Create an icon of icons.svg; screen readers ignore it. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `${new URL("../icons.svg", import.meta.url)}#${name}`);
  svg.append(use);
  return svg;
}

/** Create a square button with an icon; `label` is its tooltip and its name for screen readers. */
export function iconButton(name, label) {
  const button = element("button", "button plain icon");
  button.type = "button";
  button.title = label;
  button.setAttribute("aria-label", label);
  button.append(icon(name));
  return button;
}

const sheets = new Map(); // name -> promise

/** Load a style sheet, once. A part that needs it waits for it, so that nothing is seen without its style. */
export function loadStyle(name) {
  if (!sheets.has(name)) {
    const link = Object.assign(element("link"), { rel: "stylesheet", href: new URL(`../styles/${name}.css`, import.meta.url) });
    document.head.append(link);
    sheets.set(name, new Promise((resolve, reject) => {
      link.onload = resolve;
      link.onerror = () => {
        sheets.delete(name); // the next part that needs it tries again
        link.remove();
        reject(new Error(`${name}.css cannot be loaded`));
      };
    }));
  }
  return sheets.get(name);
}

/** Load a part of the page at the first click on its button; then the part handles that click and later ones. */
export function onFirstClick(selector, load) {
  const button = document.querySelector(selector);
  button.addEventListener("click", async function first() {
    button.removeEventListener("click", first);
    try {
      await load();
      button.click();
    } catch {
      button.addEventListener("click", first); // without a connection the next click tries again
    }
  });
}
