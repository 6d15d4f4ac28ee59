"""The load to tune for, as a plan of `gateway bench load`.

Owns: making the plan from a recorded meeting or a description, and what makes a load prove nothing.
Must not know: clocks, files, engines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec

from caption_tools.loadtest.model.plan import Plan
from caption_tools.replay.meeting.script import ScriptUtterance
from caption_tools.report.stats import mean, percentile
from caption_tools.speech import text
from caption_tools.speech.text import ArrivalRandom

UNIFORM = 2.0
"""A load is uniform if the longest tenth of its texts is less than this many times as long as the
shortest tenth. In meetings it is ten times and more.
"""

FEW = 20  # number of different texts below which the spread of lengths is not known
WORDS = (5, 40)  # least and most words of an utterance if a description does not say
ROOMS = 64  # rooms at most, each with one speaker. More speakers are simulated by the rate alone
SAMPLE = 500  # texts whose lengths are examined
MOST = 10_000  # utterances of a step at most. More could not be measured within minutes


Words = tuple[int, int] | None  # as in `Plan`


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A load to tune for."""

    told: str  # its source, in words
    plan: Plan  # plan of `gateway bench load`, without address and languages
    lines: tuple[str, ...]  # texts to say
    languages: int  # number that each utterance is translated into
    lengths: tuple[float, ...]  # characters of its texts
    texts: int  # number of different texts that it is known from

    @property
    def few(self) -> str:
        """A warning if the load is known from too few texts; else empty."""
        if self.texts >= FEW:
            return ""
        return (
            f"This load is known from {self.texts} different texts only. Take a longer recording,"
            " or more sentences with --text."
        )

    @property
    def uniform(self) -> str:
        """The reason why results for such lengths prove nothing; empty if they differ enough."""
        low, high = (percentile(self.lengths, share) for share in (0.1, 0.9))
        if high >= UNIFORM * low:
            return ""
        return (
            f"This load is uniform: nine of ten of its {len(self.lengths)} texts have at most"
            f" {high:.0f} characters, one of ten at most {low:.0f}, less than {UNIFORM:g} times"
            " apart. What is fastest with texts of one length is not fastest with speech. Give it"
            " real lengths (--describe '16 streams, 5-40 words') or say --force-uniform."
        )


_PART = re.compile(
    r"(?P<streams>[1-9]\d*) ?(streams?|speakers?|voices?)"
    r"|(?P<rate>\d+(\.\d+)?) ?(utterances? ?)?(/ ?s|(a|per) second)"
    r"|(?P<low>\d+)( ?(-|to) ?(?P<high>\d+))? ?words?"
    r"|(?P<languages>[1-9]\d*) ?languages?|(?P<partials>partials)|no partials"
)


def described(
    said: str, seconds: float, lines: Sequence[str], lang: str, draw: ArrivalRandom
) -> Load:
    """Return a load from words such as ``16 streams, 10-60 words, 3 languages, partials``.

    :param lines: sentences of its texts, in ``lang``, a canonical tag
    :param draw: randomness for the lengths that are examined

    Raises `ValueError` that names what is not understood.
    """
    given: dict[str, str] = {}
    for part in filter(None, map(str.strip, re.split(r",|\band\b", said.lower()))):
        match = _PART.fullmatch(" ".join(part.split()))
        if match is None:
            raise ValueError(
                f"{part!r} is not understood. Say e.g. '16 streams, 5-40 words, 3 languages,"
                " partials', or '4 a second' instead of the streams."
            )
        given |= {name: text for name, text in match.groupdict().items() if text}
    streams, rate = int(given.get("streams", 0)), float(given.get("rate", 0))
    if bool(streams) == bool(rate):
        raise ValueError("A load has either streams or a rate: '16 streams', '4 a second'.")
    words = int(given.get("low", WORDS[0])), int(given.get("high", given.get("low", WORDS[1])))
    if not 1 <= words[0] <= words[1] <= 1000:
        raise ValueError("Words go from the least to the most, between 1 and 1000.")
    texts = [text.mixed(lines, draw, *words, lang) for _ in range(SAMPLE)]
    number, grow = int(given.get("languages", 1)), "partials" in given
    who = f"{streams} streams" if streams else f"{rate:g} utterances a second"
    rate = rate or streams / _spoken(texts, lang)
    return Load(
        told=f"{who}, {words[0]} to {words[1]} words, {_told(number, grow)}",
        plan=_plan(rate, texts, seconds, lang, grow, words),
        lines=tuple(lines),
        languages=number,
        lengths=tuple(map(float, map(len, texts))),
        texts=len(set(lines)),
    )


def replayed(
    meeting: Sequence[ScriptUtterance], seconds: float, *, times: int, languages: int, grow: bool
) -> Load:
    """Return a load of ``times`` copies of a recorded meeting, at the rate of its busiest time."""
    texts = [said.text for said in meeting]
    ends = sorted(said.t1 for said in meeting)
    width = min(seconds, ends[-1])
    most = max(sum(at - width < end <= at for end in ends) for at in ends)
    rate = times * most / width
    return Load(
        told=f"{times} of a recorded meeting of {ends[-1]:.0f} s, {rate:.3g} utterances a second"
        f" when busy, {_told(languages, grow)}",
        plan=_plan(rate, texts, seconds, meeting[0].lang, grow, None),
        lines=tuple(texts),
        languages=languages,
        lengths=tuple(float(len(said)) for said in texts),
        texts=len(set(texts)),
    )


def _plan(
    rate: float, texts: Sequence[str], seconds: float, lang: str, grow: bool, words: Words
) -> Plan:
    if rate * seconds > MOST:
        raise ValueError(
            f"That would be more than {MOST:,} utterances in {seconds:g} s. Take fewer --seconds,"
            " or less at once."
        )
    return Plan(
        url="",
        langs=(),
        source=lang,
        rooms=min(ROOMS, max(1, math.ceil(rate * _spoken(texts, lang)))),
        rate=rate,
        seconds=seconds,
        warm=min(2.0, seconds / 4),
        drain=8.0,
        partials=float(grow),
        words=words,
    )


def _spoken(texts: Sequence[str], lang: str) -> float:
    """Return the seconds that a text takes to be spoken, on average."""
    return mean([text.size(said, lang) for said in texts]) * 60 / Plan(url="", langs=()).pace


def _told(languages: int, grow: bool) -> str:
    number = "1 language" if languages == 1 else f"{languages} languages"
    return f"{number}, texts {'growing' if grow else 'whole'}"
