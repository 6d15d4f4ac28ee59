// Directions of writing. Pure.

const RIGHT_TO_LEFT = ["Arab", "Hebr", "Syrc", "Thaa", "Nkoo", "Adlm"]; // scripts; not all browsers have getTextInfo()

/** Return "ltr" or "rtl"; "auto" if the browser does not know the language. */
export function direction(tag) {
  try {
    return RIGHT_TO_LEFT.includes(new Intl.Locale(tag).maximize().script) ? "rtl" : "ltr";
  } catch {
    return "auto";
  }
}
