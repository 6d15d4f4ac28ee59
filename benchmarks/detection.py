"""Accuracy of language detection on lines of meetings.

``python -m benchmarks.detection`` prints a table for ``docs/design/server.md``: the lines of the
demo's meetings in six languages, whole and their first words, as written and as a recogniser writes
them. Owns: the texts and the count. Must not know: how a language is detected.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from gateway.engines.base.language_detection import Detector

MEETING = Path(__file__).parent.parent / "web_demo" / "meeting"
SIX = ("de", "en", "es", "fr", "ja", "zh")
MANY = tuple("ar cs da de el en es fi fr he hu it ja ko nl pl pt ru sv tr uk zh".split())


def lines() -> list[tuple[str, str]]:
    """Return (language, line) of the demo's meetings."""
    return [
        (lang, line)
        for lang in SIX
        for line in (MEETING / f"{lang}.txt").read_text(encoding="utf-8").splitlines()
        if line
    ]


def recognised(text: str) -> str:
    """Return the text in lower case and without punctuation."""
    return "".join(c for c in text.lower() if c.isalnum() or c in " '’")


def beginning(lang: str, text: str, words: int) -> str:
    """Return the first words of a text; in scripts without spaces two characters count as one."""
    return text[: 2 * words] if lang in ("ja", "zh") else " ".join(text.split()[:words])


def count(detect: Detector, texts: list[tuple[str, str]]) -> Counter[str]:
    """Count the texts whose language is detected right, wrong, or not at all."""
    counts: Counter[str] = Counter()
    for lang, text in texts:
        told = detect(text)
        counts["open" if told is None else "right" if told == lang else "wrong"] += 1
    return counts


def main() -> None:
    """Print the table."""
    whole = lines()
    rows = {"whole lines": whole}
    for words in (4, 3, 2, 1):
        name = f"first {words} words" if words > 1 else "first word"
        rows[name] = [(lang, beginning(lang, text, words)) for lang, text in whole]
    print("| 600 texts | among | wrong | left open | recognised: wrong | left open |")
    print("|---|---|---|---|---|---|")
    for tags in (SIX, MANY):
        detect = Detector(tags)
        for name, texts in rows.items():
            written = count(detect, texts)
            said = count(detect, [(lang, recognised(text)) for lang, text in texts])
            cells = (written["wrong"], written["open"], said["wrong"], said["open"])
            print(f"| {name} | {len(tags)} | " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
