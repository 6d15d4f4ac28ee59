"""The load to tune for, as a plan of `gateway bench load`.

Owns: making the plan from a history, a recorded meeting or a description, and refusing a load whose
texts are all of one length. Must not know: clocks, files, engines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import msgspec

from gateway.cli.loadtest.model.plan import Plan
from gateway.cli.replay.meeting.script import ScriptUtterance
from gateway.cli.report import text
from gateway.cli.report.schedule import ArrivalRandom
from gateway.cli.report.stats import mean, percentile
from gateway.cli.tune.model.history import Recorded
from gateway.text import units

UNIFORM = 2.0
"""A load is uniform if the longest tenth of its texts is less than this many times as long as the
shortest tenth. In meetings it is ten times and more.
"""

FEW = 20
"""Number of different texts below which the spread of lengths is not known."""

WORDS = (5, 40)
"""Least and most words of an utterance if a description does not say."""

LETTERS = 5.5
"""Characters of a word and the space behind it, for histories that count characters."""

PARTIALS = 0.05
"""Jobs for growing text for each caption from which a history counts as live speech."""

ROOMS = 64
"""Rooms at most, each with one speaker. More speakers are simulated by the rate alone."""

SAMPLE = 500
"""Texts of a described load whose lengths are examined."""

MOST = 10_000
"""Utterances of a step at most. More could not be measured within minutes."""


class Uniform(ValueError):
    """A load whose texts are all of one length, so that its results prove nothing."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A load in numbers.

    :param streams: people who speak without a break
    :param rate: utterances a second; either this or ``streams``
    :param words: least and most of an utterance; short ones are more frequent
    :param languages: number that each utterance is translated into
    :param partials: whether texts grow while they are spoken, or come complete
    """

    streams: int | None = None
    rate: float | None = None
    words: tuple[int, int] = WORDS
    languages: int = 1
    partials: bool = False


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A load to tune for.

    :param told: its source, in words
    :param plan: plan of `gateway bench load`, without address and languages
    :param lines: texts to say
    :param languages: number that each utterance is translated into
    :param lengths: characters of its texts
    :param texts: number of different texts that it is known from
    """

    told: str
    plan: Plan
    lines: tuple[str, ...]
    languages: int
    lengths: tuple[float, ...]
    texts: int

    @property
    def spread(self) -> tuple[float, float]:
        """The 10th and the 90th percentile of the texts' characters."""
        return percentile(self.lengths, 0.1), percentile(self.lengths, 0.9)

    @property
    def few(self) -> str:
        """A warning if the load is known from too few texts; else empty."""
        if self.texts >= FEW:
            return ""
        return (
            f"This load is known from {self.texts} different text{'s' * (self.texts != 1)} only:"
            " what is fastest with them need not be so with a meeting. Take a longer recording or"
            " history, or more sentences with --text."
        )


def check(load: Load) -> None:
    """Raise `Uniform` if the lengths of a load prove nothing."""
    low, high = load.spread
    if high >= UNIFORM * low:
        return
    # The tenths of a few lengths are chance.
    if len(load.lengths) < FEW:
        raise Uniform(
            f"This load is known from {len(load.lengths)} texts only, of {low:.0f} to {high:.0f}"
            " characters: whether its texts are all of one length, which would be no evidence,"
            " cannot be told from so few. Take a longer recording or history, or say"
            " --force-uniform."
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

_STREAMS = re.compile(r"(\d+)\s*(?:streams?|speakers?|voices?)$")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:utterances?\s*)?(?:/\s*s|(?:a|per)\s+second)$")
_WORDS = re.compile(r"(\d+)(?:\s*(?:-|to)\s*(\d+))?\s*words?$")
_LANGUAGES = re.compile(r"(\d+)\s*languages?$")


def described(words: str) -> Description:
    """Return the description in words such as ``16 streams, 10-60 words, 3 languages, partials``.

    Raises `ValueError` that names what is not understood.
    """
    given: dict[str, Any] = {}
    for part in re.split(r",|\band\b", words.lower()):
        part = part.strip()
        if found := _STREAMS.match(part):
            given["streams"] = int(found[1])
        elif found := _RATE.match(part):
            given["rate"] = float(found[1])
        elif found := _WORDS.match(part):
            given["words"] = (int(found[1]), int(found[2] or found[1]))
        elif found := _LANGUAGES.match(part):
            given["languages"] = int(found[1])
        elif part in ("partials", "no partials"):
            given["partials"] = part == "partials"
        elif part:
            raise ValueError(
                f"{part!r} is not understood. Say e.g. '16 streams, 5-40 words, 3 languages,"
                " partials', or '4 a second' instead of the streams."
            )
    one = Description(**given)
    if (one.streams is None) == (one.rate is None):
        raise ValueError("A load has either streams or a rate: '16 streams', '4 a second'.")
    if not (one.streams or one.rate) or not one.languages:
        raise ValueError("A load needs somebody who speaks, and a language to be read in.")
    if not 1 <= one.words[0] <= one.words[1] <= 1000:
        raise ValueError("Words go from the least to the most, between 1 and 1000.")
    return one


def imagined(
    one: Description, seconds: float, lines: Sequence[str], lang: str, draw: ArrivalRandom
) -> Load:
    """Return a load as it is described.

    :param seconds: of a step
    :param lines: sentences of its texts, in ``lang``, a canonical tag
    :param draw: randomness for the lengths that are examined
    """
    texts = [text.mixed(lines, draw, *one.words, lang) for _ in range(SAMPLE)]
    low, high = one.words
    who = f"{one.streams} streams" if one.streams else f"{one.rate:g} utterances a second"
    rate = one.rate or (one.streams or 0) / _spoken(texts, lang)
    return Load(
        told=f"{who}, {low} to {high} words, {_languages(one.languages)},"
        f" texts {_grow(one.partials)}",
        plan=_plan(rate, texts, seconds, lang, one.partials, one.words),
        lines=tuple(lines),
        languages=one.languages,
        lengths=tuple(float(len(one)) for one in texts),
        texts=len(set(lines)),
    )


def remembered(
    one: Recorded, seconds: float, lines: Sequence[str], lang: str, draw: ArrivalRandom
) -> Load:
    """Return a load like that of a history at its busy times: the same rate and lengths.

    The parameters are those of `imagined`.
    """
    letters = LETTERS if units.spaced(lang) else units.density(lang)
    until = list(accumulate(count for _, _, count in one.lengths))
    lengths = []
    for number in range(known := min(SAMPLE, max(1, round(until[-1])))):
        at = (number + 0.5) / known * until[-1]
        place = next(place for place, whole in enumerate(until) if whole > at)
        low, high, count = one.lengths[place]
        lengths.append(low + (high - low) * (1 - (until[place] - at) / count))
    least, most = (max(1, round(percentile(lengths, share) / letters)) for share in (0.05, 0.95))
    texts = [text.mixed(lines, draw, least, most, lang) for _ in range(SAMPLE)]
    # A mean a little above a whole number comes from a reader who stayed for a short time.
    languages = max(1, math.ceil(one.languages - 0.25))
    partials = one.partials > PARTIALS
    return Load(
        told=f"a history of {one.seconds:.0f} s: {one.rate:.3g} utterances a second when busy"
        f" ({one.mean:.3g} on average), {_languages(round(one.languages, 1))}, texts"
        f" {_grow(partials)}",
        plan=_plan(one.rate, texts, seconds, lang, partials, (least, most)),
        lines=tuple(lines),
        languages=languages,
        lengths=tuple(lengths),
        texts=min(len(set(lines)), known),
    )


def replayed(
    meeting: Sequence[ScriptUtterance],
    seconds: float,
    *,
    times: int,
    languages: int,
    partials: bool,
) -> Load:
    """Return a load of ``times`` copies of a recorded meeting, at the rate of its busiest time.

    :param seconds: of a step; the busiest time is as long
    """
    texts = [one.text for one in meeting]
    span = max(one.t1 for one in meeting)
    width = min(seconds, span)
    ends = sorted(one.t1 for one in meeting)
    most = max(sum(at - width < end <= at for end in ends) for at in ends)
    rate = times * most / width
    return Load(
        told=f"{times} of a recorded meeting of {span:.0f} s, {rate:.3g} utterances a second when"
        f" busy, texts {_grow(partials)}",
        plan=_plan(rate, texts, seconds, meeting[0].lang, partials, None),
        lines=tuple(texts),
        languages=languages,
        lengths=tuple(float(len(one)) for one in texts),
        texts=len(set(texts)),
    )


def _plan(
    rate: float,
    texts: Sequence[str],
    seconds: float,
    lang: str,
    partials: bool,
    words: tuple[int, int] | None,
) -> Plan:
    if rate * seconds > MOST:
        raise ValueError(
            f"That would be more than {MOST:,} utterances in {seconds:g} s. Take fewer --seconds,"
            " or less at once."
        )
    people = math.ceil(rate * _spoken(texts, lang))
    return Plan(
        url="",
        langs=(),
        source=lang,
        rooms=min(ROOMS, max(1, people)),
        rate=rate,
        seconds=seconds,
        warm=min(2.0, seconds / 4),
        drain=8.0,
        partials=float(partials),
        words=words,
    )


def _spoken(texts: Sequence[str], lang: str) -> float:
    """Return the seconds that a text takes to be spoken, on average."""
    return mean([text.size(one, lang) for one in texts]) * 60 / Plan(url="", langs=()).pace


def _languages(number: float) -> str:
    return "1 language" if number == 1 else f"{number:.3g} languages"


def _grow(partials: bool) -> str:
    return "growing" if partials else "whole"
