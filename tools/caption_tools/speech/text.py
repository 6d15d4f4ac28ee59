"""Texts for load tests and their arrivals: lines of a real meeting, as long as speech, at a rate.

Owns: the lines that come with the package, reading a file of others, joining them to longer texts,
and send times. Must not know: gateways, clocks. Randomness is passed in, so that the same seed
makes the same schedule.

Texts of equal length mislead: they fill every batch of an engine evenly, which speech does not.
Send times are those of an open loop, which does not wait for answers. In a closed loop the next
request waits for the last answer. A server that stops for a second then gets no requests in that
second, and the delay counts once instead of for all that would have come (coordinated omission).
Here every latency counts from the moment at which the request was due.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal, Protocol

from gateway.text import word_units

Arrivals = Literal["poisson", "fixed"]
"""``poisson``: independent callers, with their bunches and gaps; ``fixed``: equal steps."""


class ArrivalRandom(Protocol):
    """The part of `random.Random` that is used."""

    def random(self) -> float: ...


def lines(file: Path | None = None) -> list[str]:
    """Return the lines of a file (of a table its first column), or of a meeting in English.

    Raises `OSError`, and `ValueError` if the file is empty.
    """
    whole = files("caption_tools.speech") / "meeting.txt" if file is None else file
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
    return len(word_units.split(text, word_units.spaced(lang))) / word_units.density(lang)


def mixed(lines: Sequence[str], draw: ArrivalRandom, low: int, high: int, lang: str = "en") -> str:
    """Return consecutive lines from a random place, joined to at least some number of words.

    The number is drawn evenly by its logarithm from ``low`` to ``high``: as in speech, short texts
    are frequent and long ones rare. The last line stays whole, so the text may be longer by it.

    :param lang: canonical tag of the lines, which says what a word is; see `size`
    """
    wanted = low * (high / low) ** draw.random()
    place = math.floor(draw.random() * len(lines))
    space = " " if word_units.spaced(lang) else ""
    text = lines[place]
    while size(text, lang) < wanted - 1:
        place += 1
        text += space + lines[place % len(lines)]
    return text


def arrivals(rate: float, seconds: float, kind: Arrivals, draw: ArrivalRandom) -> Iterator[float]:
    """Yield the due times, in seconds below ``seconds``, of ``rate`` arrivals a second.

    Raises `ValueError` for a rate that is not above 0.
    """
    if not 0 < rate < math.inf:
        raise ValueError(f"A rate has to be above 0, not {rate}.")
    at, number = 0.0, 0
    while True:
        if kind == "poisson":
            at -= math.log(1 - draw.random()) / rate
        else:
            at = number / rate  # no sum of steps, whose errors would add up
        if at >= seconds:
            return
        yield at
        number += 1
