"""Segmentation of a long growing text into captions of readable length.

Owns: where a growing text is cut, which words of a later revision are before the cut, and the ids
of parts. Must not know: utterances, captions, jobs, clocks.

The beginning of a long text becomes a part of its own, which is final from then on, and the rest
continues as the next part: ``u1``, ``u1.2``, ``u1.3``. The text behind the last cut is called open.
It is cut, in this order:

1. at the end of a sentence, if the caption has `SegmentLengths.least` words. Shorter sentences
   share a caption, because a short line would disappear too soon;
2. beyond `SegmentLengths.most` words: at the last end of a sentence, however short the caption;
   else at the longest pause; else before words that mostly begin a sentence or a clause;
3. halfway from there to `SegmentLengths.hard`: before any other conjunction;
4. beyond `SegmentLengths.hard` words: behind a comma, else anywhere.

Steps 2 to 4 do not cut behind a word that binds to the next one, such as an article. The rules are
heuristics: "one and two" looks like two clauses. A wrong cut breaks a line, but loses no word.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from importlib import resources
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from gateway.text import sentences, word_units


class SegmentLengths(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths of segments in words. In scripts without spaces `word_units.density` characters count
    as a word. All are constants, which only tests and benchmarks change.
    """

    # Minimum length in words of a caption that is cut at the end of a sentence or at a pause.
    # In Chinese and Japanese two characters count as a word, in Thai three.
    least: int = 8
    # Minimum length in words of a caption that is cut before a conjunction or behind a comma.
    clause: int = 10
    # Length in words beyond which growing text is also cut at pauses and at the beginning of a
    # clause, and halfway from there to `hard` before any conjunction. The default fills two
    # captions of two lines.
    most: int = 28
    # Length in words beyond which growing text is cut at a comma or anywhere. No caption is
    # longer.
    hard: int = 45
    # Minimum number of words behind a cut. The last words of growing text still change often.
    behind: int = 3
    # Seconds of silence that count as a pause between words.
    pause: float = 0.6


class ClausePatterns(NamedTuple):
    """Patterns of places between clauses: before group 1 if it matched, else behind the match."""

    sure: re.Pattern[str]
    """Words that mostly begin a sentence or a clause."""
    likely: re.Pattern[str]
    """Words that may also join two nouns."""
    binding: frozenset[str] = frozenset()
    """Words that belong to the next one, such as articles, so that no caption ends in them."""


def _patterns(sure: str, likely: str, lead: str = "", binding: str = "") -> ClausePatterns:
    """Return the patterns of a language. ``clauses.toml`` describes the parameters."""
    if not lead:
        return ClausePatterns(re.compile(sure), re.compile(likely))

    def before(words: str) -> re.Pattern[str]:
        words = words.replace("'", "['’]")
        return re.compile(
            rf"(?<!\S)((?:(?:{lead})\s+){{0,2}}(?:{words}))(?:(?<=['’])|(?!\w))", re.IGNORECASE
        )

    return ClausePatterns(before(sure), before(likely), frozenset(binding.split()))


CLAUSES = {
    lang: _patterns(**words)
    for lang, words in tomllib.loads(
        resources.files("gateway.core.streaming").joinpath("clauses.toml").read_text("utf-8")
    ).items()
}
"""Patterns by language."""

_NO_CLAUSES = ClausePatterns(re.compile("(?!)"), re.compile("(?!)"))
"""Patterns of the other languages, which match nothing."""

_COMMAS = ",;:、，；："

_NO_PAUSES: Mapping[int, float] = MappingProxyType({})


def cut(
    text: str,
    lang: str,
    lengths: SegmentLengths,
    pauses: Mapping[int, float] = _NO_PAUSES,
    *,
    since: int = 0,
    hidden: int = 0,
) -> int | None:
    """Return the index in ``text`` at which its first caption ends, or None for no cut. Call it
    again for the rest: a text may grow by several captions at once.

    :param text: agreed text of the open part
    :param pauses: seconds of silence, by the number of words (`word_units.keyed`) before it
    :param since: number of words that have been translated. Those behind the cut would be read in
        both captions, so a cut leaves as few of them behind it as possible
    :param hidden: number of words at the end of a translation that readers are not shown, so that
        as many may stay behind the cut
    """
    keys, ends = word_units.keyed(text, word_units.spaced(lang))
    size = word_units.density(lang)
    least, clause, most, hard, behind = (
        number * size
        for number in (lengths.least, lengths.clause, lengths.most, lengths.hard, lengths.behind)
    )
    # A cut is at a number of words from `early` to `last`.
    last = min(len(ends) - behind, hard)
    early = max(1, since - max(behind, hidden * size))
    if last < early:
        return None
    head = text[: ends[min(len(ends), hard + behind) - 1]]
    # The last end is that of the text. The list is not empty, because there are words in `head`.
    *inner, _ = sentences.ends(head, lang)
    finished = [count for count in _counts(inner, ends) if early <= count <= last]
    at = next((count for count in finished if count >= least), 0)
    # From here on `at` is a number of words, and 0 means that no place has been found yet.
    rules = CLAUSES.get(lang.partition("-")[0], _NO_CLAUSES)
    free = [n for n in range(max(clause, early), last + 1) if keys[n - 1] not in rules.binding]
    if not at and len(ends) > most:
        at = finished[-1] if finished else _longest(pauses, lengths.pause, max(least, early), last)
        for clauses, longer in ((rules.sure, most), (rules.likely, (most + hard) // 2)):
            if not at and len(ends) > longer:
                at = _nearest(_counts(_joints(head, clauses), ends), free, most)
    if not at and len(ends) > hard:
        # The end of a segment that is far too long needs no grammar.
        commas = (n for n, end in enumerate(ends, 1) if text[end - 1] in _COMMAS)
        at = _nearest(commas, free, last) or max(free, default=last)
    return ends[at - 1] if at else None


def remainder(text: str, consumed: Sequence[str], lang: str) -> str:
    """Return the open part of a revised text, behind the words that have been cut off.

    The last words before the cut are searched for near their old position, since their spelling may
    have changed, or "twenty five" become `25`. If they are not found, their number decides.
    """
    keys, ends = word_units.keyed(text, word_units.spaced(lang))
    count = min(_aligned(keys, consumed, word_units.density(lang)), len(ends))
    return text[ends[count - 1] :].strip() if count else text.strip()


def part_id(id: str, n: int) -> str:
    """Return the id of the ``n``-th part of an utterance, counted from 1."""
    return id if n == 1 else f"{id}.{n}"


def utterance_id(id: str) -> str | None:
    """Return the id of the utterance of which ``id`` has the form of a later part, else None.
    Clients choose ids freely, so an id of this form may still be an utterance of its own.
    """
    head, _, number = id.rpartition(".")
    later = number.isascii() and number.isdecimal() and number[0] != "0" and number != "1"
    return head if head and later else None


class PauseMap:
    """Pauses in the open part of one text, for `cut`. There are at most as many as words."""

    WORD = 0.35
    """Seconds to speak a word: 170 words a minute."""

    __slots__ = ("_at", "_count", "before")

    def __init__(self) -> None:
        self.before: dict[int, float] = {}
        """Seconds of silence, by the number of words before it."""
        self._count = 0
        self._at: float | None = None

    def record(self, count: int, lang: str, at: float) -> None:
        """Record the length of the open part, in words, at a time, always of the same clock."""
        new = count - self._count
        # A correction that adds no word is not speech, and does not end a silence.
        if new <= 0:
            return
        if self._at is not None:
            silence = at - self._at - new * self.WORD / word_units.density(lang)
            # Words that arrive faster than they can be spoken leave no silence between them.
            if silence > 0:
                self.before[self._count] = silence
        self._count, self._at = count, at

    def drop(self, count: int) -> None:
        """Remove the first ``count`` words from the open part."""
        self.before = {n - count: silence for n, silence in self.before.items() if n > count}
        self._count = max(0, self._count - count)


def _joints(text: str, clauses: re.Pattern[str]) -> Iterable[int]:
    return (match.start(1) if match.lastindex else match.end() for match in clauses.finditer(text))


def _longest(pauses: Mapping[int, float], pause: float, least: int, last: int) -> int:
    """Return the number of words before the longest pause (the last of equal ones), 0 for none."""
    fits = ((s, n) for n, s in pauses.items() if s >= pause and least <= n <= last)
    return max(fits, default=(0.0, 0))[1]


def _counts(places: Iterable[int], ends: list[int]) -> Iterable[int]:
    """Yield the number of words before each index. ``ends`` are the ends of all words."""
    return (bisect_right(ends, place) for place in places)


def _nearest(counts: Iterable[int], free: Container[int], most: int) -> int:
    """Return the last of ``counts`` up to ``most`` that is free, else the first one, else 0."""
    fits = [count for count in counts if count in free]
    return max((count for count in fits if count <= most), default=min(fits, default=0))


_TAIL, _REACH = 8, 6
"""Number of words before the cut that are searched for, and how many words away from their old
position."""

_SPELT, _OTHER, _MORE, _LOST = 0.5, 1.5, 1.0, 1.25
"""Costs of a word that is spelt differently, replaced, inserted or missing. A replaced word costs
most: at the cut it is better shown twice than lost with the words behind it."""

_DRIFT, _ALIKE = 0.1, 0.7
"""Cost per word of distance from the old position, and the highest average cost per searched word
at which the words count as found."""


def _aligned(keys: list[str], consumed: Sequence[str], size: int) -> int:
    """Return how many of ``keys`` correspond to ``consumed``. ``size`` is the units per word."""
    expected = len(consumed)
    # Nearly always nothing has changed before the cut, and no distance has to be computed.
    tail = list(consumed[-_TAIL * size :])
    if keys[expected - len(tail) : expected] == tail:
        return expected
    # Edit distance between the tail and the keys that end at each place of a window. Skipping the
    # beginning of the window costs nothing.
    reach = _REACH * size
    start = max(0, expected - len(tail) - reach)
    window = keys[start : expected + reach]
    costs = [0.0] * (len(window) + 1)
    for word in tail:
        above = costs
        costs = [above[0] + _LOST]
        for place, other in enumerate(window):
            swapped = above[place] + _swap(word, other)
            costs.append(min(swapped, above[place + 1] + _LOST, costs[place] + _MORE))
    places = range(max(0, expected - reach - start), len(costs))
    best = min(
        places,
        key=lambda place: costs[place] + _DRIFT * abs(start + place - expected) / size,
        default=0,
    )
    return start + best if places and costs[best] <= _ALIKE * len(tail) else expected


def _swap(a: str, b: str) -> float:
    if a == b:
        return 0.0
    # A number may be another spelling of any word: `25` and "twenty".
    alike = a[0] == b[0] or a[0].isdigit() is not b[0].isdigit()
    return _SPELT if alike else _OTHER
