"""The load of meetings, and the work that it is for engines.

Owns: how much is said, and which growing texts are translated. Must not know: engines' speed, time.

Speech is that of `gateway bench load`: the same texts, pace and simulated recogniser. Which growing
texts are translated, and where long ones are cut, is decided by the gateway's own `Speech`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import NamedTuple

import msgspec

from caption_tools.loadtest.model import script
from caption_tools.loadtest.model.plan import Plan
from caption_tools.loadtest.model.script import Send
from caption_tools.report.stats import mean, percentile
from caption_tools.speech import text
from caption_tools.speech.recogniser import RecogniserRandom
from gateway.core.streaming.length_ratios import MARGIN
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.segmentation import part_id
from gateway.core.streaming.stability import WITHOUT_CHECKS
from gateway.core.utterances.speech import Speech

LANG = "en"  # language that is spoken
SAMPLE = 400  # utterances from which the work of one is computed


class MeetingLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Meetings that are held at the same time."""

    meetings: int = 10
    speakers: int = 4  # sockets of each meeting that speak. They read all of its languages
    readers: int = 20  # sockets of each meeting that only read. Each reads one of its languages
    languages: int = 3  # languages that each meeting is translated into
    talk: float = 0.8  # share of the time in which somebody speaks
    pace: float = 150.0  # words a minute of a speaker
    words: tuple[int, int] = (2, 40)  # least and most words of an utterance
    growing: bool = True  # True if texts are sent while they are spoken

    def checked(self) -> MeetingLoad:
        """Return the load. Raises `ValueError` with a sentence for impossible values."""
        if not self.talk:
            raise ValueError("--talk must be above 0: without speech there is nothing to plan.")
        self.plan(1.0, SAMPLE, self.meetings)
        return self

    def plan(self, rate: float, seconds: float, meetings: int) -> Plan:
        """Return this load as a plan of `gateway bench load`.

        :param rate: utterances a second of all these meetings

        Raises `ValueError` with a sentence for impossible values.
        """
        return Plan(
            url="",
            langs=tuple(f"l{number}" for number in range(self.languages)),
            source=LANG,
            rooms=meetings,
            speakers=self.speakers,
            readers=self.readers,
            rate=rate,
            seconds=seconds,
            partials=float(self.growing),
            pace=self.pace,
            words=self.words,
        ).checked()


class SourceText(NamedTuple):
    """A text to translate. ``due`` is the second at which it is known; ``id`` is that of its
    caption.
    """

    due: float
    id: str
    text: str
    final: bool

    @property
    def root(self) -> str:
        """Id of the utterance, of which the caption may be a part."""
        return self.id.partition(".")[0]

    @property
    def words(self) -> int:
        """Number of words."""
        return len(self.text.split())


class GrowingTranslation:
    """The words that an engine translates of a text that grows.

    Each translation is forced to begin with what the two before have in common, and ends where
    readers are shown no more: the rules of engines that do not check drafts, but may end early.
    """

    _committed = _last = 0

    def made(self, text: SourceText) -> int:
        """Return how many words of a text, the newest one, are translated."""
        # A final is translated whole, whatever was committed before.
        return text.words if text.final else max(1, _extent(text.words) - self._committed)

    def add(self, text: SourceText) -> None:
        """Note that a text has been translated."""
        end = _extent(text.words)
        # The last word may be incomplete.
        self._committed = max(self._committed, min(self._last, end) - 1)
        self._last = end


def _extent(words: int) -> int:
    """Return how many words of the translation of a growing text are wanted, see `LengthRatios`."""
    return max(WITHOUT_CHECKS.early + 1, ceil(MARGIN * words) - WITHOUT_CHECKS.mask)


class CaptionWork(msgspec.Struct, frozen=True, kw_only=True):
    """The work for captions in one language, if the engine does all of it at once."""

    parts: float  # captions of an utterance; a long one is cut into several
    words: float  # of a caption, on average
    typical: float  # words of the last caption of an utterance, median
    long: float  # the same, 95th percentile
    partials: float  # translations of growing text for a caption
    made: float  # words that are translated for a caption, in all its translations


def texts(sends: Iterable[Send]) -> Iterator[SourceText]:
    """Yield the texts of a speaker that are translated, as `Ingest` does."""
    speeches: dict[str, tuple[Speech, list[str]]] = {}
    for due, id, _, said, final in sends:
        speech, parts = speeches.setdefault(id, (Speech(id, "", StreamingOptions()), [id]))
        speech.text = said
        if final:
            del speeches[id]
            if rest := speech.remainder(LANG):
                yield SourceText(due, parts[-1], rest, True)
            continue
        speech.offer(LANG, due, due)
        while (head := speech.cut(LANG)) is not None:
            yield SourceText(due, parts[-1], head, True)
            parts.append(part_id(id, len(parts) + 1))
        at = speech.policy.due(due)
        # What is due between two updates is translated with the next: they come every 0.3 s.
        if at is not None and at <= due:
            yield SourceText(due, parts[-1], speech.policy.admit(due), False)


def caption_work(load: MeetingLoad, lines: Sequence[str], draw: RecogniserRandom) -> CaptionWork:
    """Return the work for one caption, from a sample of utterances."""
    plan = msgspec.structs.replace(load, speakers=1).plan(1.0, SAMPLE, 1)

    def said(draw: RecogniserRandom) -> str:
        return text.mixed(lines, draw, *load.words, LANG)

    lengths: list[float] = []
    last: dict[str, float] = {}  # words of the last caption of each utterance
    partials = made = 0
    growing: dict[str, GrowingTranslation] = {}
    for part in texts(script.sends(plan, 0, said, draw)):
        translation = growing.setdefault(part.id, GrowingTranslation())
        made += translation.made(part)
        translation.add(part)
        partials += not part.final
        if part.final:
            lengths.append(part.words)
            last[part.root] = part.words
    return CaptionWork(
        parts=len(lengths) / len(last),
        words=mean(lengths),
        typical=percentile([*last.values()], 0.5),
        long=percentile([*last.values()], 0.95),
        partials=partials / len(lengths),
        made=made / len(lengths),
    )
