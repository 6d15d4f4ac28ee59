"""What a speech recogniser would send of a text while it is spoken.

Owns: the pace of speech, when words end, and a recogniser's habits and mistakes. Must not know:
files, clocks, gateways. Chance is passed in: the same draws make the same meeting.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol, TypeVar

from gateway.text import units

WORDS_A_MINUTE = 150.0
"""The pace of a calm speaker, where a script has no times."""

CHARACTERS_A_SECOND = 5.0
"""The same in scripts without spaces."""

UPDATE_S = 0.3
"""Seconds from one update of a recogniser to the next."""

SPOILT = 0.15
"""How often the last word of an update is another one or cut off; the next update corrects it."""

PAUSE_S = 0.6
"""Seconds between one utterance and the next."""

Word = tuple[str, float]
"""A word, and the second at which it has been said."""

T = TypeVar("T")

_INNER = frozenset("'’-.,:/@_&")
"""Marks that are part of a word where letters or digits stand on both sides."""


class RecogniserRandom(Protocol):
    """Chance, as `random.Random` has it."""

    def random(self) -> float: ...

    def choice(self, seq: Sequence[T], /) -> T: ...


def words(text: str, *, spaced: bool) -> list[str]:
    """What is said one after the other: words, or characters (a figure or Latin word is one)."""
    return [word for unit in units.split(text, spaced) if (word := unit.strip())]


def heard(text: str) -> str:
    """``text`` as it is recognised before its end: in lower case and without punctuation."""
    kept = ""
    for before, char, after in zip(f" {text}", text, f"{text[1:]} ", strict=False):
        inner = char in _INNER and before.isalnum() and after.isalnum()
        mark = unicodedata.category(char)[0] in "PS" and not inner
        kept += " " if mark else char
    return " ".join(kept.lower().split())


def timed(text: str, begin: float, end: float | None = None, *, spaced: bool) -> list[Word]:
    """When each word of ``text`` has been said, at an even pace.

    Without an ``end`` the pace is the usual one. Words without sound, such as a dash, take no time.
    """
    said = words(text, spaced=spaced)
    lengths = [_length(heard(word), spaced) for word in said]
    pace = WORDS_A_MINUTE / 60 if spaced else CHARACTERS_A_SECOND
    each = 1 / pace if end is None else (end - begin) / max(1, sum(lengths))
    times: list[Word] = []
    done = 0
    for word, length in zip(said, lengths, strict=True):
        done += length
        times.append((word, round(begin + done * each, 3)))
    return times


def _length(word: str, spaced: bool) -> int:
    """How many words or characters it takes the time of."""
    return min(len(word), 1) if spaced else len(word)


def updates(
    said: Sequence[Word],
    begin: float,
    end: float,
    *,
    spaced: bool,
    draw: RecogniserRandom,
    vocabulary: Sequence[str] = (),
) -> list[tuple[float, str]]:
    """(second, text so far) of every update between ``begin`` and ``end``, when the text is final.

    A spoilt word is cut in half, or becomes one of the ``vocabulary``.
    """
    known = [(text, at) for word, at in said if (text := heard(word))]
    ends = [at for _, at in known]
    found: list[tuple[float, str]] = []
    spoilt = 0  # how many words the update before had, if its last one was wrong
    tick = 1
    while (at := round(begin + tick * UPDATE_S, 3)) < end:
        tick += 1
        count = bisect_right(ends, at)
        if not count:
            continue
        so_far = [word for word, _ in known[:count]]
        if spoilt != count and draw.random() < SPOILT:
            so_far[-1] = _spoil(so_far[-1], vocabulary, draw)
            spoilt = count
        else:
            spoilt = 0
        found.append((at, (" " if spaced else "").join(so_far)))
    return found


def _spoil(word: str, vocabulary: Sequence[str], draw: RecogniserRandom) -> str:
    half = word[: len(word) // 2]
    others = [other for other in vocabulary if other != word]
    if others and (not half or draw.random() < 0.5):
        return draw.choice(others)
    return half or word
