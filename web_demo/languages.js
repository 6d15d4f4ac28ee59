// Languages on a page: names, direction of writing, menus. Knows the document; knows no socket.

/** The name a language has for itself; the tag where the browser knows none. */
export function nameOf(tag) {
  try {
    const name = new Intl.DisplayNames(tag, { type: "language" }).of(tag);
    return name.charAt(0).toLocaleUpperCase(tag) + name.slice(1);
  } catch {
    return tag;
  }
}

/** "ltr", "rtl", or "auto" where the browser cannot tell. */
export function direction(tag) {
  try {
    const locale = new Intl.Locale(tag);
    return (locale.getTextInfo?.() ?? locale.textInfo)?.direction ?? "auto";
  } catch {
    return "auto";
  }
}

/** Mark a node as being in a language: fonts, line breaks and screen readers go by it. */
export function inLanguage(node, tag) {
  if (node.lang !== tag) {
    node.lang = tag;
    node.dir = direction(tag);
  }
  return node;
}

/** Fill a menu with `languages` ({ tag, endonym }), keeping what is chosen where it can be. */
export function fillMenu(select, languages, chosen) {
  const options = languages.map(({ tag, endonym }) => {
    const option = inLanguage(element("option", "", endonym), tag);
    option.value = tag;
    return option;
  });
  select.replaceChildren(...options);
  select.value = languages.some(({ tag }) => tag === chosen) ? chosen : languages[0]?.tag ?? "";
}

export function element(name, className = "", text = "") {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.textContent = text;
  return node;
}

/** An icon of icons.svg. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `icons.svg#${name}`);
  svg.append(use);
  return svg;
}

/** A square button with an icon, and a name for those who do not see it. */
export function iconButton(name, label) {
  const button = element("button", "button bare icon");
  button.type = "button";
  button.title = label;
  button.setAttribute("aria-label", label);
  button.append(icon(name));
  return button;
}
