"""Texts as captions on a screen: how they are cut, and how long each part stays.

Owns: the length of a line, where a text may be cut, reading speed, the time of one cue beside
another. Must not know: utterances, languages, file formats.

Everything is measured in narrow characters, one rule for all languages: a full-width character
(East Asian Width W or F) counts as 42/16 of one, in length and in time. So a line holds 42 Latin
letters or 16 Chinese characters, a text in both is measured rightly, and so is one that came under
a wrong tag.
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
from gateway.text.scripts import CJK

LINE = 42
"""Characters of a line (Netflix Timed Text Style Guides: 42; Chinese and Korean 16 full-width)."""
LINES = 2
"""Lines of a cue (Netflix: at most two; BBC Subtitle Guidelines: two recommended)."""
READING = 17.0
"""Characters read in a second, 6.5 full-width ones (Netflix, adults: 17 to 20, Japanese 4, Chinese
9, Korean 12; the BBC's 160 to 180 words a minute are 15 to 17)."""
SPEAKING = 15.0
"""Characters said in a second: 150 words a minute, of 5 letters and a space each."""
SHORTEST_S = 5 / 6
"""Seconds a cue stays at least (Netflix: 5/6 s; 20 frames of a film)."""
LATE_S = 1.5
"""Seconds a cue may come late so that the one before it can be read to its end (BBC: a subtitle
should not be more than 1.5 s away from the speech)."""

_NARROW, _WIDE = 8, 21  # 42 times one is 16 times the other
_FULL = LINE * _NARROW
_SHORTEST, _LATE = round(1000 * SHORTEST_S), round(1000 * LATE_S)
_KNOWN = 8192
"""Characters whose width is remembered: those of a few languages."""
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
# What no line ends with, and what none begins with (JIS X 4051, line composition), nor is cut off.
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
    """What a cut at a place would divide; the lowest is the best place."""

    SENTENCE = 0
    CLAUSE = 1
    WORD = 2
    LETTER = 3

    @property
    def cost(self) -> int:
        """What a line that ends there costs against one better balanced, in width."""
        return self * _FULL // 8


class CueTiming(NamedTuple):
    """When a cue is to be shown, and how long it takes to read. Milliseconds."""

    begin: int
    end: int
    reading: int


Part = tuple[tuple[str, ...], ...]
"""A cue: the lines of each of its texts."""


def plain(text: str) -> str:
    """The text on one line: white space and control characters as single spaces."""
    return _BLANK.sub(" ", text).strip()


def said(text: str) -> float:
    """Seconds it takes to say the text, roughly."""
    return _width(text) / _NARROW / SPEAKING


def lay(texts: Sequence[str], langs: Sequence[str]) -> list[Part]:
    """Cut what is to be shown together: for each cue, for each of the texts, its lines.

    The texts, one or two, `plain` and not empty, share the lines of a cue; ``langs`` has the
    language of each. They are cut into the same number of parts; where one has too few words for
    that, its parts stay while the other's go on.
    """
    lines = LINES // len(texts)
    whole = [_CueText(text, lang) for text, lang in zip(texts, langs, strict=True)]
    parts = [text.parts(lines) for text in whole]
    most = max(map(len, parts))
    if any(len(part) < most for part in parts):
        parts = [text.parts(lines, most) for text in whole]
        most = max(map(len, parts))
    return [tuple(part[len(part) * n // most] for part in parts) for n in range(most)]


def share(begin: float, end: float, parts: Sequence[Part]) -> list[CueTiming]:
    """Divide a time, in seconds, among the cues of what was said in it, by their length.

    The longest of a cue's texts counts, since nobody reads two languages at once.
    """
    widths = [max(_width("".join(lines)) for lines in part) for part in parts]
    marks = list(accumulate((max(1, width) for width in widths), initial=0))
    first, span = 1000 * begin, 1000 * (end - begin)
    times = [round(first + span * mark / marks[-1]) for mark in marks]
    return [
        CueTiming(times[n], times[n + 1], max(_SHORTEST, round(1000 * width / _NARROW / READING)))
        for n, width in enumerate(widths)
    ]


def settle(slots: Sequence[CueTiming]) -> list[tuple[int, int]]:
    """(begin, end) of cues, given in the order in which they begin, so that no two overlap.

    A cue stays until it has been read, into silence if need be. The next one waits for that, but
    not longer than `LATE_S`; then it cuts the time of the one before, down to `SHORTEST_S`.
    """
    settled: list[tuple[int, int]] = []
    begin, end, read = -_SHORTEST, 0, 0
    for slot in slots:
        late = min(begin + read, slot.begin + _LATE)
        last, begin = begin, max(slot.begin, late, begin + _SHORTEST)
        if settled:
            settled[-1] = last, min(end, begin)
        end, read = max(slot.end, begin + slot.reading), slot.reading
        settled.append((begin, end))
    return settled


class _CueText:
    """A text, and the atoms in it: what is not cut, and not wider than a line.

    A stretch is named by the numbers of its first atom and of the one behind its last.
    """

    __slots__ = ("_ends", "_lang", "_sentences", "_starts", "_text")

    def __init__(self, text: str, lang: str) -> None:
        self._text, self._lang = text, lang
        spaced = max(text) < _FIRST_WIDE
        spans = [match.span() for match in (_SPACED if spaced else _MIXED).finditer(text)]
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
        """The lines of each part, so many at most; ``least`` parts if there are atoms enough.

        Ends of sentences are the best places to cut, then commas, then spaces; of several the one
        that makes the parts most alike, so that no word is left alone at the end.
        """
        parts: list[tuple[str, ...]] = []
        start, last = 0, len(self._ends)
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
        """The farthest end of what fits into so many lines."""
        for _ in range(lines):
            if start < len(self._ends):
                farthest = (self._starts[start][0] + _FULL, len(self._text))
                start = bisect_right(self._ends, farthest, start)
        return start

    def _fold(self, start: int, end: int) -> tuple[str, ...]:
        """A stretch that fits into a cue, as one line or as two that are much alike."""
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
        """What a cut behind a stretch divides."""
        place = self._ends[end - 1][1]
        if self._sentences is None:
            self._sentences = {*sentences.ends(self._text, self._lang)}
        if place in self._sentences:
            return BreakCost.SENTENCE
        a, b = self._text[place - 1], self._text[place]
        if a in _CLAUSE:
            return BreakCost.CLAUSE
        # Japanese ends a phrase in Hiragana, and begins the next one with something else.
        phrase = _hiragana(a) and not _hiragana(b)
        return (
            BreakCost.WORD
            if b in " \u3000" or phrase or _units(a) != _units(b)
            else BreakCost.LETTER
        )


def _chop(text: str, start: int, end: int) -> list[int]:
    """Where to cut a word that is wider than a line. Marks stay with their letters."""
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
    """Whether two characters are one to the eye (UAX 29, without the rare cases)."""
    return a == "\u200d" or unicodedata.category(b) in _MARKS or "\U0001f3fb" <= b <= "\U0001f3ff"


def _hiragana(character: str) -> bool:
    return "\u3041" <= character <= "\u309f"


def _width(text: str) -> int:
    return _NARROW * len(text) if text.isascii() else sum(map(_units, text))


@lru_cache(maxsize=_KNOWN)
def _units(character: str) -> int:
    """Eighths of a narrow character; nothing for marks and what is not seen."""
    if character < _FIRST_MARK:
        return _NARROW
    if unicodedata.east_asian_width(character) in "WF":
        return _WIDE
    return 0 if unicodedata.category(character) in _UNSEEN else _NARROW
