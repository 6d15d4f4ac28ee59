"""Texts for load tests: lines of a real meeting, with the lengths that speech has.

Owns: the lines that come with the package, reading a file of others, joining them to longer texts.
Must not know: gateways, times.

Texts of equal length mislead: they fill every batch of an engine evenly, which speech does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from caption_tools.report.schedule import ArrivalRandom
from gateway.text import units


def lines(file: Path | None = None) -> list[str]:
    """Return the lines of a file (of a table its first column), or of a meeting in English.

    Raises `OSError`, and `ValueError` if the file is empty.
    """
    whole = files("caption_tools.report") / "meeting.txt" if file is None else file
    try:
        text = whole.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise ValueError(f"{file} is not UTF-8: {exc}.") from exc
    kept = [said for line in text.splitlines() if (said := line.partition("\t")[0].strip())]
    if not kept:
        raise ValueError(f"There is no text in {file}.")
    return kept


def size(text: str, lang: str) -> float:
    """Return the number of words of a text; in scripts without spaces, of comparable units."""
    return len(units.split(text, units.spaced(lang))) / units.density(lang)


def mixed(lines: Sequence[str], draw: ArrivalRandom, low: int, high: int, lang: str = "en") -> str:
    """Return consecutive lines from a random place, joined to at least some number of words.

    The number is drawn evenly by its logarithm from ``low`` to ``high``: as in speech, short texts
    are frequent and long ones rare. The last line stays whole, so the text may be longer by it.

    :param lang: canonical tag of the lines, which says what a word is; see `size`
    """
    wanted = low * (high / low) ** draw.random()
    place = math.floor(draw.random() * len(lines))
    space = " " if units.spaced(lang) else ""
    text = lines[place]
    while size(text, lang) < wanted - 1:
        place += 1
        text += space + lines[place % len(lines)]
    return text
