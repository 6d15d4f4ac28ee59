"""A simulated speech recogniser: partial texts of an utterance while it is spoken.

Owns: the pace of speech, when words end, and the recogniser's typical errors. Must not know: files,
clocks, gateways. Randomness is passed in, so that the same seed makes the same meeting.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol, TypeVar

from gateway.text import word_units

WORDS_A_MINUTE = 150.0  # pace of a calm speaker, for scripts without times
CHARACTERS_A_SECOND = 5.0  # pace of a calm speaker in scripts without spaces
UPDATE_S = 0.3  # seconds between two updates of a recogniser
SPOILT = 0.15
"""Share of the updates in which the last word is wrong or cut off. The next update corrects it."""

PAUSE_S = 0.6  # seconds between two utterances

Word = tuple[str, float]  # A word, and the second at which it has been said

T = TypeVar("T")
_INNER = frozenset("'’-.,:/@_&")
"""Marks that are part of a word if letters or digits stand on both sides."""


class RecogniserRandom(Protocol):
    """The part of `random.Random` that is used."""

    def random(self) -> float: ...

    def choice(self, seq: Sequence[T], /) -> T: ...


def words(text: str, *, spaced: bool) -> list[str]:
    """Return the spoken units of a text: words, or characters in scripts without spaces.

    A number or Latin word among such characters is one unit.
    """
    return [word for unit in word_units.split(text, spaced) if (word := unit.strip())]


def heard(text: str) -> str:
    """Return a text as it is recognised before its end: in lower case, without punctuation."""
    kept = ""
    for before, char, after in zip(f" {text}", text, f"{text[1:]} ", strict=False):
        inner = char in _INNER and before.isalnum() and after.isalnum()
        mark = unicodedata.category(char)[0] in "PS" and not inner
        kept += " " if mark else char
    return " ".join(kept.lower().split())


def timed(text: str, begin: float, end: float | None = None, *, spaced: bool) -> list[Word]:
    """Return when each word of a text has been said, at an even pace.

    :param end: second at which it ends; None: the usual pace

    Words without sound, such as a dash, take no time.
    """
    said = words(text, spaced=spaced)
    # The pace counts words, or characters in scripts without spaces.
    lengths = [min(len(sound), 1) if spaced else len(sound) for sound in map(heard, said)]
    pace = WORDS_A_MINUTE / 60 if spaced else CHARACTERS_A_SECOND
    each = 1 / pace if end is None else (end - begin) / max(1, sum(lengths))
    ends = [round(begin + done * each, 3) for done in accumulate(lengths)]
    return list(zip(said, ends, strict=True))


def updates(
    said: Sequence[Word],
    begin: float,
    end: float,
    *,
    spaced: bool,
    draw: RecogniserRandom,
    vocabulary: Sequence[str] = (),
) -> list[tuple[float, str]]:
    """Return (second, text so far) of every update between ``begin`` and ``end``.

    :param vocabulary: words of which a wrong word may be one; else it is cut in half
    """
    known = [(text, at) for word, at in said if (text := heard(word))]
    ends = [at for _, at in known]
    made: list[tuple[float, str]] = []
    spoilt = 0  # how many words the update before had, if its last one was wrong
    tick = 1
    # Multiples of the period, since a sum of periods would drift.
    while (at := round(begin + tick * UPDATE_S, 3)) < end:
        tick += 1
        count = bisect_right(ends, at)
        # Nothing is recognised before the first word has ended.
        if not count:
            continue
        so_far = [word for word, _ in known[:count]]
        # A word is spoilt once: the next update has it right.
        if spoilt != count and draw.random() < SPOILT:
            so_far[-1] = _spoil(so_far[-1], vocabulary, draw)
            spoilt = count
        else:
            spoilt = 0
        made.append((at, (" " if spaced else "").join(so_far)))
    return made


def _spoil(word: str, vocabulary: Sequence[str], draw: RecogniserRandom) -> str:
    half = word[: len(word) // 2]
    others = [other for other in vocabulary if other != word]
    if others and (not half or draw.random() < 0.5):
        return draw.choice(others)
    return half or word
