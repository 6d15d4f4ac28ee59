"""Cues: cutting texts into lines on a screen, and the time that each cue is shown.

Owns: the length of a line, the places where a text may be cut, the reading speed, the times of
neighbouring cues. Must not know: utterances, languages, file formats.

Lengths and times are measured in narrow characters, with one rule for all languages: a full-width
character (East Asian Width W or F) counts as 42/16 narrow ones. So a line has 42 Latin letters or
16 Chinese characters. The rule also holds for mixed texts, and for texts with a wrong language tag.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from gateway.text import sentences
from gateway.text.word_units import CJK

LINE = 42
"""Characters per line (Netflix Timed Text Style Guides: 42; Chinese and Korean 16 full-width)."""
LINES = 2
"""Lines per cue (Netflix: at most two; BBC Subtitle Guidelines: two recommended)."""
READING = 17.0
"""Characters read per second, or 6.5 full-width ones (Netflix, adults: 17 to 20, Japanese 4,
Chinese 9, Korean 12; the BBC's 160 to 180 words a minute are 15 to 17)."""
SPEAKING = 15.0
"""Characters spoken per second: 150 words a minute of 5 letters and a space."""
SHORTEST_S = 5 / 6
"""Minimum seconds that a cue is shown (Netflix: 5/6 s, 20 frames of a film)."""
LATE_S = 1.5
"""Maximum seconds by which a cue may be late so that the cue before it can be read (BBC: a subtitle
should not be more than 1.5 s away from the speech)."""

_NARROW, _WIDE = 8, 21  # units of width, because 42 narrow ones are as wide as 16 wide ones
_FULL = LINE * _NARROW
_SHORTEST, _LATE = round(1000 * SHORTEST_S), round(1000 * LATE_S)
_KNOWN = 8192
"""Size of the cache of widths, enough for the characters of a few languages."""
_FIRST_MARK, _FIRST_WIDE = "\u0300", "\u1100"
_MARKS = frozenset(("Mn", "Mc", "Me", "Cf"))
_UNSEEN = frozenset(("Mn", "Me", "Cf"))
_CLAUSE = frozenset(",;:、，；：–—)）」』】…")
_BLANK = re.compile(r"(?:[^\S\u00a0\u202f\u3000]|[\x00-\x1f\x7f-\x9f])+")

# Characters beside which a line may be cut without a space: letters of Chinese and Japanese,
# radicals, full-width punctuation and symbols, Yi, emoji. Korean and Thai lines are cut at spaces.
_CUTTABLE = (
    f"{CJK}\u2e80-\u2fff\u3001-\u303f\u3130-\u33ff\ua000-\ua4cf\ufe30-\ufe6f"
    "\uff01-\uff60\uffe0-\uffe6\U0001f300-\U0001faff"
)
# Characters that no line ends with, and characters that no line begins with (JIS X 4051, line
# composition).
_OPENING = "「『（【〈《〔［｛“‘"
_CLOSING = (
    "、。，．・：；？！゛゜ヽヾゝゞ々ー」』）】〉》〕］｝”’,.!?;:…‥"
    "ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ"
    "\u0300-\u036f\u3099\u309a\ufe00-\ufe0f\uff70\uff9e\uff9f\U0001f3fb-\U0001f3ff"
)
_SPACED = re.compile("[^ \u3000]+")
_MIXED = re.compile(
    rf"[{_OPENING}]{{0,4}}[{_CUTTABLE}](?:\u200d.|[{_CLOSING}])*"
    rf"|[^{_CUTTABLE} \u3000]+?(?=[{_OPENING}]{{0,4}}[{_CUTTABLE}]|[ \u3000]|$)[{_CLOSING}]*"
)


class BreakCost(enum.IntEnum):
    """Text unit that a cut would divide. The lowest value is the best place."""

    SENTENCE = 0
    CLAUSE = 1
    WORD = 2
    LETTER = 3

    @property
    def cost(self) -> int:
        """Cost of a line break there, in units of width by which two lines differ."""
        return self * _FULL // 8


class CueTiming(NamedTuple):
    """Begin and end of a cue, and the time to read it, in milliseconds."""

    begin: int
    end: int
    reading: int


Part = tuple[tuple[str, ...], ...]
"""A cue: the lines of each of its texts."""


def plain(text: str) -> str:
    """Return the text on one line, with single spaces for white space and control characters."""
    return _BLANK.sub(" ", text).strip()


def speaking_seconds(text: str) -> float:
    """Return the approximate seconds that it takes to say the text."""
    return _width(text) / _NARROW / SPEAKING


def lay(texts: Sequence[str], langs: Sequence[str]) -> list[Part]:
    """Cut one or two texts that are shown together, as `plain` returns them, into cues, and return
    the lines of each text in each cue.
    """
    lines = LINES // len(texts)
    whole = [_CueText(text, lang) for text, lang in zip(texts, langs, strict=True)]
    # All texts are cut into the same number of parts. If one has too few words for that, its parts
    # are repeated while those of the other change.
    parts = [text.parts(lines) for text in whole]
    most = max(map(len, parts))
    # Another attempt with more parts keeps the languages in step.
    if any(len(part) < most for part in parts):
        parts = [text.parts(lines, most) for text in whole]
        most = max(map(len, parts))
    return [tuple(part[len(part) * n // most] for part in parts) for n in range(most)]


def share(begin: float, end: float, parts: Sequence[Part]) -> list[CueTiming]:
    """Divide the time of an utterance in seconds among its cues, in proportion to their lengths."""
    # The longest text of a cue counts, since nobody reads two languages at once.
    widths = [max(_width("".join(lines)) for lines in part) for part in parts]
    marks = list(accumulate((max(1, width) for width in widths), initial=0))
    first, span = 1000 * begin, 1000 * (end - begin)
    times = [round(first + span * mark / marks[-1]) for mark in marks]
    reading = (max(_SHORTEST, round(1000 * width / _NARROW / READING)) for width in widths)
    return [CueTiming(*slot) for slot in zip(times, times[1:], reading, strict=False)]


def settle(slots: Sequence[CueTiming]) -> list[tuple[int, int]]:
    """Return (begin, end) of cues, given in the order in which they begin, in milliseconds, so that
    no two overlap.
    """
    settled: list[tuple[int, int]] = []
    begin, end, read = -_SHORTEST, 0, 0
    # A cue is shown until it can have been read, if necessary into the silence behind it. The next
    # cue waits for that, but at most `LATE_S`. Then the time of the cue before is cut, but not
    # below `SHORTEST_S`.
    for slot in slots:
        late = min(begin + read, slot.begin + _LATE)
        # The shortest time has precedence over the limit of lateness.
        last, begin = begin, max(slot.begin, late, begin + _SHORTEST)
        if settled:
            settled[-1] = last, min(end, begin)
        end, read = max(slot.end, begin + slot.reading), slot.reading
        settled.append((begin, end))
    return settled


class _CueText:
    """A text and its atoms, which are not cut and not wider than a line. A range of atoms is given
    by the index of the first one and the index behind the last one.
    """

    __slots__ = ("_ends", "_lang", "_sentences", "_starts", "_text")

    def __init__(self, text: str, lang: str) -> None:
        self._text, self._lang = text, lang
        spaced = max(text) < _FIRST_WIDE
        spans = [match.span() for match in (_SPACED if spaced else _MIXED).finditer(text)]
        # `marks[n]` is the width of the first n characters.
        marks = list(accumulate(map(_units, text), initial=0))
        self._starts: list[tuple[int, int]] = []
        self._ends: list[tuple[int, int]] = []
        for start, end in spans:
            for place in _chop(text, start, end) if marks[end] - marks[start] > _FULL else (end,):
                self._starts.append((marks[start], start))
                self._ends.append((marks[place], place))
                start = place
        self._sentences: set[int] | None = None

    def parts(self, lines: int, least: int = 1) -> list[tuple[str, ...]]:
        """Return the lines of each part: at most ``lines``, in at least ``least`` parts if there
        are enough atoms.
        """
        parts: list[tuple[str, ...]] = []
        start, last = 0, len(self._ends)
        # Ends of sentences are the best places to cut, then commas, then spaces. Among equal places
        # the one that makes the parts most similar in length is used, so that no single word is
        # left at the end.
        while start < last:
            reach = self._reach(start, lines)
            left = self._width(start, last)
            want = max(least - len(parts), -(-left // (lines * _FULL)), 1)
            end = last
            if reach < last or (want > 1 and last - start > 1):
                ideal = left / max(2, want)
                reach = min(reach, last - 1)
                half = (self._starts[start][0] + ideal / 2, 0)
                low = bisect_left(self._ends, half, start, reach - 1) + 1
                end = min(
                    range(low, reach + 1),
                    key=lambda e: (self._after(e), abs(self._width(start, e) - ideal)),
                )
            parts.append(self._fold(start, end))
            start = end
        return parts

    def _width(self, start: int, end: int) -> int:
        return self._ends[end - 1][0] - self._starts[start][0]

    def _reach(self, start: int, lines: int) -> int:
        """Return the end of the longest range from ``start`` that fits into some lines."""
        for _ in range(lines):
            if start < len(self._ends):
                farthest = (self._starts[start][0] + _FULL, len(self._text))
                start = bisect_right(self._ends, farthest, start)
        return start

    def _fold(self, start: int, end: int) -> tuple[str, ...]:
        """Return a range that fits into a cue as one line, or as two of similar length."""
        if self._width(start, end) <= _FULL:
            return (self._slice(start, end),)
        low = bisect_left(self._starts, (self._ends[end - 1][0] - _FULL, 0), start + 1, end)
        middle = min(
            range(low, self._reach(start, 1) + 1),
            key=lambda m: abs(self._width(start, m) - self._width(m, end)) + self._after(m).cost,
        )
        return self._slice(start, middle), self._slice(middle, end)

    def _slice(self, start: int, end: int) -> str:
        return self._text[self._starts[start][1] : self._ends[end - 1][1]]

    def _after(self, end: int) -> BreakCost:
        """Return the unit that a cut at the index ``end`` divides."""
        place = self._ends[end - 1][1]
        # Most texts fit into one cue, and finding sentences is the most expensive step.
        if self._sentences is None:
            self._sentences = {*sentences.ends(self._text, self._lang)}
        if place in self._sentences:
            return BreakCost.SENTENCE
        a, b = self._text[place - 1], self._text[place]
        if a in _CLAUSE:
            return BreakCost.CLAUSE
        # A Japanese phrase ends in Hiragana, and the next one begins with another script.
        if b in " \u3000" or (_hiragana(a) and not _hiragana(b)) or _units(a) != _units(b):
            return BreakCost.WORD
        return BreakCost.LETTER


def _chop(text: str, start: int, end: int) -> list[int]:
    """Return the places at which a word wider than a line is cut. Marks stay with their letters."""
    places = []
    edge = start
    used = 0
    for n in range(start, end):
        if n > start and not _joined(text[n - 1], text[n]):
            edge = n
        used += _units(text[n])
        while used > _FULL:
            place = edge if edge > start else n
            places.append(place)
            start, used = place, _width(text[place : n + 1])
    return [*places, end]


def _joined(a: str, b: str) -> bool:
    """Tell whether two characters form one visible one (UAX 29, without the rare cases)."""
    return a == "\u200d" or unicodedata.category(b) in _MARKS or "\U0001f3fb" <= b <= "\U0001f3ff"


def _hiragana(character: str) -> bool:
    return "\u3041" <= character <= "\u309f"


def _width(text: str) -> int:
    """Return the width of a text in eighths of a narrow character."""
    return _NARROW * len(text) if text.isascii() else sum(map(_units, text))


@lru_cache(maxsize=_KNOWN)
def _units(character: str) -> int:
    """Return the width of a character in eighths of a narrow one, 0 for invisible ones."""
    if character < _FIRST_MARK:
        return _NARROW
    if unicodedata.east_asian_width(character) in "WF":
        return _WIDE
    return 0 if unicodedata.category(character) in _UNSEEN else _NARROW
