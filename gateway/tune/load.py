"""The load to tune for: who says what and when, in how many languages, and how that is known.

Owns: making such a load of a history, of recorded meetings or of a description, and the refusal of
one in which all texts are of one length. Must not know: clocks, files, engines. Chance is passed
in: the same draws make the same load, so that each setting is asked for the same.

A load is a number of voices. Each is alone in a room of its own; all read the same languages. It
is an open loop: nobody waits with the next sentence for the caption of the last.

It begins in the middle: some have spoken for a while already when it does.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from gateway import units
from gateway.bench.schedule import arrivals
from gateway.bench.stats import percentile
from gateway.replay import recogniser
from gateway.replay.script import Update, Utterance
from gateway.tune.history import Recorded

UNIFORM = 2.0
"""A load is uniform where the longest tenth of its texts is less than so many times as long as the
shortest tenth. In meetings it is ten times and more."""

FEW = 20
"""Different texts below which a load stands for nothing but itself, and nothing can be said of the
spread of their lengths. How many of them are said in one step is another matter: that a meeting is
quiet is no fault of its recording."""

WORDS = (5.0, 40.0)
"""Words of an utterance where a description does not say: from a short sentence to a long one."""

LETTERS = 5.5
"""Characters that a word takes with the space behind it, where a history counts characters."""

TOKENS = 0.75
"""Words for each token, where a description counts tokens."""

PARTIALS = 0.05
"""Jobs for growing text for each caption from which on a history is one of live speech."""

ROOMS = 64
"""Rooms, at most, that whole texts are said in by turns, where a load has a rate."""

SAMPLE = 1_000
"""Texts, at most, whose lengths are looked at of a history."""

MOST = 10_000
"""Utterances of a load; one that would have more is refused. Cut short, it would be another."""


class Uniform(ValueError):
    """A load whose texts are all of one length, which is no evidence."""


class Draw(Protocol):
    """Chance, as `random.Random` has it."""

    def random(self) -> float: ...

    def choice(self, seq: Sequence[recogniser.T], /) -> recogniser.T: ...


class Description(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A load in words; as a TOML file it has these keys.

    ``streams``    people who speak at the same time, without a break
    ``rate``       instead of these: utterances a second, at times of their own
    ``words``      least and most in an utterance, and short ones are more frequent
    ``languages``  that each utterance is translated into
    ``partials``   whether texts grow while they are spoken, or come whole
    """

    streams: int | None = None
    rate: float | None = None
    words: tuple[float, float] = WORDS
    languages: int = 1
    partials: bool = False


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What is said within ``seconds``, each voice's in order. Times count from its beginning."""

    told: str
    """Where it comes from, in words."""
    seconds: float
    voices: tuple[tuple[Utterance, ...], ...]
    languages: int
    partials: bool
    texts: int | None = None
    """Different texts that it is taken from; None: those that are said in it."""
    lengths: tuple[float, ...] = ()
    """Characters of these, where they are more than are said in it."""

    @property
    def said(self) -> list[Utterance]:
        """All utterances that are said to their end in it."""
        return [one for voice in self.voices for one in voice]

    @property
    def spread(self) -> tuple[float, float]:
        """Characters that one of ten utterances does not exceed, and that nine of ten do not."""
        return _spread([float(len(one.text)) for one in self.said])

    @property
    def few(self) -> str:
        """A sentence about a load that is known from too few texts; empty for all others."""
        texts = len({one.text for one in self.said}) if self.texts is None else self.texts
        if texts >= FEW:
            return ""
        return (
            f"This load is known from {texts} different text{'s' * (texts != 1)} only: what is"
            " fastest with them need not be so with a meeting. Take a longer recording or history,"
            " or more sentences with --text."
        )


def _spread(sizes: Sequence[float]) -> tuple[float, float]:
    return percentile(sizes, 0.1), percentile(sizes, 0.9)


def check(load: Load) -> None:
    """Raise `Uniform` where the lengths of a load are no evidence, `ValueError` where there is
    nothing in it. They are judged by all that it is taken from: a step has little of a meeting."""
    if not load.said:
        raise ValueError(
            f"Nothing is said in {load.seconds:g} s of this load. Take longer with --seconds."
        )
    low, high = _spread(load.lengths) if load.lengths else load.spread
    if high >= UNIFORM * low:
        return
    known = len(load.lengths or load.said)
    if known < FEW:
        raise Uniform(
            f"This load is known from {known} texts only, of {low:.0f} to {high:.0f} characters:"
            " whether its texts are all of one length, which would be no evidence, cannot be told"
            " from so few. Take a longer recording or history, or say --force-uniform."
        )
    raise Uniform(
        f"This load is uniform: nine of ten texts have at most {high:.0f} characters, one of"
        f" ten at most {low:.0f}, which is less than {UNIFORM:g} times apart. Texts of one"
        " length fill every batch evenly, and what is fastest with them is not with real ones:"
        " the measurements that this project began with gave 15.0 requests a second for uniform"
        " input and 3.5 for real. Give it real lengths (--describe '16 streams, 5-40 words')"
        " or say --force-uniform."
    )


# --- descriptions --------------------------------------------------------------------------------

_NUMBER = r"(\d+(?:\.\d+)?)"
_STREAMS = re.compile(r"(\d+)\s*(?:streams?|speakers?|voices?)$")
_RATE = re.compile(_NUMBER + r"\s*(?:utterances?\s*)?(?:/\s*s|(?:a|per)\s+second)$")
_WORDS = re.compile(_NUMBER + r"(?:\s*(?:-|to)\s*" + _NUMBER + r")?\s*(words?|tokens?)$")
_LANGUAGES = re.compile(r"(\d+)\s*languages?$")


def described(text: str) -> Description:
    """A description from words such as ``16 streams, 10-60 words, 3 languages, partials``.

    Raises `ValueError` with what is not understood.
    """
    given: dict[str, Any] = {}
    for part in re.split(r",|\band\b", text.lower()):
        part = part.strip()
        if found := _STREAMS.match(part):
            given["streams"] = int(found[1])
        elif found := _RATE.match(part):
            given["rate"] = float(found[1])
        elif found := _WORDS.match(part):
            each = TOKENS if found[3].startswith("token") else 1.0
            given["words"] = (float(found[1]) * each, float(found[2] or found[1]) * each)
        elif found := _LANGUAGES.match(part):
            given["languages"] = int(found[1])
        elif part in ("partials", "no partials"):
            given["partials"] = part == "partials"
        elif part:
            raise ValueError(
                f"{part!r} is not understood. Say e.g. '16 streams, 5-40 words, 3 languages,"
                " partials', or '4 a second' instead of the streams."
            )
    return checked(Description(**given))


def checked(one: Description) -> Description:
    """The description. Raises `ValueError` where there can be no such load."""
    if (one.streams is None) == (one.rate is None):
        raise ValueError("A load has either streams or a rate: '16 streams', '4 a second'.")
    if not (one.streams or one.rate or 0) > 0 or one.languages < 1:
        raise ValueError("A load needs somebody who speaks, and a language to be read in.")
    if not 1 <= one.words[0] <= one.words[1] <= 1000:
        raise ValueError("Words go from the least to the most, between 1 and 1000.")
    return one


def imagined(
    one: Description, seconds: float, sentences: Sequence[str], lang: str, draw: Draw
) -> Load:
    """A load as it is described, of words of ``sentences``."""
    low, high = one.words

    def size() -> float:
        return float(low * (high / low) ** draw.random())

    spoken = "growing" if one.partials else "whole"
    who = f"{one.streams} streams" if one.streams else f"{one.rate:g} utterances a second"
    each = _density(lang)
    return _made(
        one,
        size,
        lengths=[each * low * (high / low) ** ((n + 0.5) / FEW) for n in range(FEW)],
        told=f"{who}, {low:g} to {high:g} words, {_languages(one.languages)}, texts {spoken}",
        seconds=seconds,
        sentences=sentences,
        lang=lang,
        draw=draw,
    )


def _languages(number: float) -> str:
    return "1 language" if number == 1 else f"{number:.3g} languages"


def remembered(
    one: Recorded, seconds: float, sentences: Sequence[str], lang: str, draw: Draw
) -> Load:
    """A load like that of a history at its busy times: the same rate and lengths."""
    density = _density(lang)
    until = list(accumulate(count for _, _, count in one.lengths))
    known = min(SAMPLE, max(1, round(until[-1])))

    def length(at: float) -> float:
        """Characters that so large a part of the texts do not exceed."""
        place = min(bisect_right(until, at * until[-1]), len(until) - 1)
        low, high, count = one.lengths[place]
        return low + (high - low) * (1 - (until[place] - at * until[-1]) / count)

    def size() -> float:
        return max(1.0, length(draw.random()) / density)

    languages = max(1, math.ceil(one.languages - 0.25))
    partials = one.partials > PARTIALS
    return _made(
        Description(rate=one.rate, languages=languages, partials=partials),
        size,
        lengths=[length((n + 0.5) / known) for n in range(known)],
        known=known,
        told=(
            f"a history of {one.seconds:.0f} s: {one.rate:.3g} utterances a second when busy"
            f" ({one.mean:.3g} on average), {_languages(round(one.languages, 1))},"
            f" {one.jobs[0]:.0f} jobs at once (95 of 100: {one.jobs[1]:.0f}, most:"
            f" {one.jobs[2]:.0f}), texts {'growing' if partials else 'whole'}"
        ),
        seconds=seconds,
        sentences=sentences,
        lang=lang,
        draw=draw,
    )


def _density(lang: str) -> float:
    """Characters of a unit in which texts are made."""
    return LETTERS if units.spaced(lang) else 1.0


def _made(
    one: Description,
    size: Callable[[], float],
    *,
    lengths: Sequence[float],
    known: int = FEW,
    told: str,
    seconds: float,
    sentences: Sequence[str],
    lang: str,
    draw: Draw,
) -> Load:
    spaced = units.spaced(lang)
    source = _Words(sentences, spaced, draw)

    def spoken(begin: float | None, end: float | None) -> Utterance:
        """A new utterance, by when it begins or by when it ends."""
        text = source.text(max(1, round(size())))
        words = recogniser.timed(text, 0.0, spaced=spaced)
        took = words[-1][1] if words else 0.0
        if begin is None:
            begin = (end or 0.0) - took
        updates: tuple[Update, ...] = ()
        if one.partials:
            times = [(word, at + begin) for word, at in words]
            heard = recogniser.updates(
                times, begin, begin + took, spaced=spaced, draw=draw, vocabulary=source.words
            )
            updates = tuple(Update(at, text) for at, text in heard if at >= 0)
        return Utterance(id="", lang=lang, text=text, t0=begin, t1=begin + took, updates=updates)

    voices: list[list[Utterance]] = []
    if one.streams:
        most = MOST // one.streams
        if not most:
            raise _many(seconds)
        voices += [list(_talk(spoken, seconds, draw, most)) for _ in range(one.streams)]
    else:
        assert one.rate is not None, "neither streams nor a rate"
        for count, at in enumerate(arrivals(one.rate, seconds, "poisson", draw)):
            if count == MOST:
                raise _many(seconds)
            said = spoken(None, at)
            if one.partials:  # whoever has ended by then; nobody says two things at once
                free = [voice for voice in voices if voice[-1].t1 < said.t0]
            else:
                free = voices[count % ROOMS :]
            if free:
                free[0].append(said)
            else:
                voices.append([said])
    return Load(
        told=told,
        seconds=seconds,
        voices=_named(voices),
        languages=one.languages,
        partials=one.partials,
        texts=min(len(set(sentences)), known),
        lengths=tuple(lengths),
    )


def _talk(
    spoken: Callable[[float | None, float | None], Utterance],
    seconds: float,
    draw: Draw,
    most: int,
) -> Iterator[Utterance]:
    """One person who speaks without a break; the first sentence is begun before the load is."""
    first = spoken(0.0, None)
    begin = -draw.random() * (first.t1 + recogniser.PAUSE_S)
    said = _shifted(first, begin)
    for _ in range(most):
        if said.t1 > seconds:
            return
        if said.t1 >= 0:
            yield said
        said = spoken(said.t1 + recogniser.PAUSE_S, None)
    raise _many(seconds)


def _many(seconds: float) -> ValueError:
    return ValueError(
        f"That would be more than {MOST:,} utterances in {seconds:g} s. Take fewer --seconds, or"
        " less at once."
    )


class _Words:
    """Text of any length, of sentences as they are."""

    def __init__(self, sentences: Sequence[str], spaced: bool, draw: Draw) -> None:
        self._parts = [recogniser.words(one, spaced=spaced) for one in sentences]
        self._join = " " if spaced else ""
        self._draw = draw
        self.words = sorted(
            {recogniser.heard(word) for part in self._parts for word in part} - {""}
        )

    def text(self, size: int) -> str:
        words: list[str] = []
        while len(words) < size:
            words += self._draw.choice(self._parts)
        return self._join.join(words[:size])


# --- recorded meetings ---------------------------------------------------------------------------


def replayed(
    meeting: Sequence[Utterance],
    seconds: float,
    draw: Draw,
    *,
    times: int = 1,
    languages: int = 1,
    partials: bool = True,
) -> Load:
    """So many meetings like a recorded one at once.

    The first is its busiest time, that with most text; the others begin anywhere. One that is
    shorter than ``seconds`` begins again.
    """
    span = max(one.t1 for one in meeting) + recogniser.PAUSE_S
    voices: list[list[Utterance]] = []
    count = 0
    for number in range(min(times, MOST + 1)):
        begin = _busiest(meeting, seconds) if not number else draw.random() * span
        found = _window(meeting, begin, seconds, span, partials=partials)
        voices += found
        count += sum(map(len, found))
        if count > MOST or number == MOST:
            raise _many(seconds)
    return Load(
        told=f"{times} of a recorded meeting of {span:.0f} s,"
        f" texts {'growing' if partials else 'whole'}",
        seconds=seconds,
        voices=_named(voices),
        languages=languages,
        partials=partials,
        texts=len({one.text for one in meeting}),
        lengths=tuple(float(len(one.text)) for one in meeting),
    )


def _busiest(meeting: Sequence[Utterance], seconds: float) -> float:
    """When those ``seconds`` begin in which most text is said to its end."""
    ends = sorted((one.t1, len(one.text)) for one in meeting)
    best, begin, held, first = 0, 0.0, 0, 0
    for at, size in ends:
        held += size
        while ends[first][0] < at - seconds:
            held -= ends[first][1]
            first += 1
        if held > best:
            best, begin = held, max(0.0, at - seconds)
    return begin


def _window(
    meeting: Sequence[Utterance], begin: float, seconds: float, span: float, *, partials: bool
) -> list[list[Utterance]]:
    """What each speaker says to the end within a time, of a meeting that repeats after ``span``."""
    speakers: dict[str, list[Utterance]] = {}
    for turn in range(int((begin + seconds) // span) + 1):
        for one in meeting:
            by = turn * span - begin
            if 0 <= one.t1 + by <= seconds:
                said = _shifted(one, by)
                if not partials:
                    said = replace(said, updates=())
                speakers.setdefault(one.speaker or "", []).append(said)
    return [sorted(said, key=lambda one: one.t1) for said in speakers.values()]


def _shifted(one: Utterance, by: float) -> Utterance:
    """The same later, without what comes before the beginning."""
    updates = tuple(Update(u.at + by, u.text) for u in one.updates if u.at + by >= 0)
    return replace(one, t0=one.t0 + by, t1=one.t1 + by, updates=updates, shown={}, references={})


def _named(voices: Sequence[Sequence[Utterance]]) -> tuple[tuple[Utterance, ...], ...]:
    """The voices that say something, each utterance with an id that no other has."""
    return tuple(
        tuple(replace(one, id=f"v{number}u{place}") for place, one in enumerate(voice))
        for number, voice in enumerate(voice for voice in voices if voice)
    )
