"""What is said in a benchmark: lines of a real meeting, of the lengths that speech has.

Owns: the lines that come with the package, reading a file of others, joining them to longer texts.
Must not know: gateways, times.

Texts of one length mislead: they share their time in an engine out evenly, which speech does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from gateway.cli.report.schedule import ArrivalRandom
from gateway.text import units


def lines(file: Path | None = None) -> list[str]:
    """Return the lines of a file, of a table the first column; else a meeting in English.

    Raises `OSError`, and `ValueError` where there is nothing in it.
    """
    whole = files("gateway.cli.report") / "meeting.txt" if file is None else file
    try:
        text = whole.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise ValueError(f"{file} is not UTF-8: {exc}.") from exc
    found = [said for line in text.splitlines() if (said := line.partition("\t")[0].strip())]
    if not found:
        raise ValueError(f"There is no text in {file}.")
    return found


def size(text: str, lang: str) -> float:
    """Return the words of a text; in scripts without spaces, what says as much as a word."""
    return len(units.split(text, units.spaced(lang))) / units.density(lang)


def mixed(lines: Sequence[str], draw: ArrivalRandom, low: int, high: int, lang: str = "en") -> str:
    """Return consecutive lines from anywhere, which together have some words from ``low`` on.

    The number is drawn evenly by its logarithm up to ``high``: as in speech there is much that is
    short, and little that is long. The last line stays whole, so the text may be longer by it.

    :param lang: canonical tag of the lines, which says what a word is in them; see `size`
    """
    wanted = low * (high / low) ** draw.random()
    place = math.floor(draw.random() * len(lines))
    space = " " if units.spaced(lang) else ""
    text = lines[place]
    while size(text, lang) < wanted - 1:
        place += 1
        text += space + lines[place % len(lines)]
    return text
