"""What was said in a room, and what it became: a fold over the room's log.

Owns: which text of an utterance counts in each language, and when the utterance was said. Must not
know: how a transcript is written down, where the log was kept.

When it was said. A speaker who sends ``t0`` and ``t1`` sends seconds of a clock of its own, which
began anywhere. A text arrives just after its last word, so the first one that arrives sets that
speaker's clock: its ``t1`` is the room's time of arrival. From then on the speaker's own times are
believed, since they have none of the delays of recognition and network, and speakers interleave as
they spoke. The first and not, say, the fastest, because it is known at once: what a transcript has
said is not moved by what comes later. A clock is set again where it jumps, that is, runs backwards
or goes apart from the room's by more than `JUMP_S` between two utterances: the speaker came back
with a new clock.

Without times a text ends when it arrives, and begins as much earlier as it takes to say it. Nobody
begins a sentence before the end of the one before.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from operator import attrgetter

import msgspec

from gateway.core.event_log import LogEntry
from gateway.protocol.messages import By, Cancelled, Edited, Failed, Final, Retracted, Source
from gateway.text import languages
from gateway.transcripts import cues

JUMP_S = 60.0
"""Seconds by which a speaker's clock and the room's may come apart between two utterances: more
than recognition and a bad connection take, less than a meeting."""
SPAN_S = 300.0
"""Seconds that one utterance may last: twice what `Limits.text` characters take. Of a longer one
only ``t0`` is believed."""


class EntryState(enum.Enum):
    """What there is of an utterance in a language."""

    FINAL = "final"
    EDITED = "edited"
    SAME = "same"  # it was said in this language
    FAILED = "failed"
    CANCELLED = "cancelled"
    MISSING = "missing"  # nobody read this language then

    @property
    def shown(self) -> bool:
        """Whether there is a text."""
        return self in (EntryState.FINAL, EntryState.EDITED, EntryState.SAME)


class TranscriptCaption(msgspec.Struct, frozen=True, kw_only=True):
    """An utterance in one language, and when (room's seconds) that was decided."""

    state: EntryState
    text: str = ""
    by: By | None = None
    at: float | None = None
    code: str | None = None
    """Why it failed."""


_MISSING = TranscriptCaption(state=EntryState.MISSING)


class TranscriptEntry(msgspec.Struct, kw_only=True):
    """The original and its captions. It changes only while `Transcript.of` reads the log.

    ``begin`` and ``end`` are when it was said and ``at`` when it arrived, in seconds after the
    room's history began; ``t0`` and ``t1`` are what the speaker sent. ``edited``: the original was
    corrected.
    """

    id: str
    ord: int
    lang: str
    text: str
    speaker: str | None
    begin: float
    end: float
    at: float
    t0: float | None = None
    t1: float | None = None
    edited: bool = False
    captions: dict[str, TranscriptCaption] = msgspec.field(default_factory=dict)

    def read(self, lang: str) -> TranscriptCaption:
        """What a reader of ``lang`` has of it; a caption of another region serves, too."""
        if languages.same(lang, self.lang):
            return TranscriptCaption(state=EntryState.SAME, text=self.text, by="same", at=self.at)
        found = languages.match(lang, tuple(self.captions))
        return _MISSING if found is None else self.captions[found]


class Transcript(msgspec.Struct, frozen=True):
    """Utterances in the order of their ``ord``; ``complete``: with the first one of the room."""

    utterances: tuple[TranscriptEntry, ...]
    complete: bool

    @classmethod
    def of(cls, entries: Iterable[LogEntry]) -> Transcript:
        """Read a log, or what is left of one.

        What is said last of an utterance and a language holds. Where the original has been given up
        already, the rest of that utterance is left out.
        """
        reading = _LogReading()
        for entry in entries:
            reading.take(entry)
        kept = sorted(reading.utterances.values(), key=attrgetter("ord"))
        return cls(tuple(kept), reading.first <= 1)

    @property
    def spoken(self) -> list[TranscriptEntry]:
        """The utterances in the order in which they began."""
        return sorted(self.utterances, key=attrgetter("begin", "ord"))

    @property
    def langs(self) -> list[str]:
        """The languages that were spoken, and those in which there is at least one caption."""
        return sorted(
            {u.lang for u in self.utterances}
            | {
                lang
                for u in self.utterances
                for lang, caption in u.captions.items()
                if caption.state.shown
            }
        )


class _LogReading:
    """A log, read so far."""

    def __init__(self) -> None:
        self.utterances: dict[tuple[int, str], TranscriptEntry] = {}
        self.first = 0
        self._newest: dict[str, TranscriptEntry] = {}
        self._clocks: dict[str | None, _SpeakerClock] = {}

    def take(self, entry: LogEntry) -> None:
        """The next entry."""
        event, at = entry
        self.first = self.first or event.seq or 0
        match event:
            case Source():
                self._begin(event, at)
            case Final() if event.by != "same":
                self._set(
                    event,
                    TranscriptCaption(state=EntryState.FINAL, text=event.text, by=event.by, at=at),
                )
            case Edited():
                self._edit(event, at)
            case Failed():
                self._set(event, TranscriptCaption(state=EntryState.FAILED, at=at, code=event.code))
            case Cancelled(lang=str(lang)):
                if event.id in self._newest:
                    caption = TranscriptCaption(state=EntryState.CANCELLED, at=at)
                    self._newest[event.id].captions[lang] = caption
            case Retracted():
                self.utterances.pop((event.ord, event.id), None)

    def _begin(self, event: Source, at: float) -> None:
        clock = self._clocks.setdefault(event.speaker, _SpeakerClock())
        begin, end = clock.place(event, at)
        utterance = TranscriptEntry(
            id=event.id,
            ord=event.ord,
            lang=event.lang,
            text=event.text,
            speaker=event.speaker,
            begin=begin,
            end=end,
            at=at,
            t0=event.t0,
            t1=event.t1,
        )
        self.utterances[event.ord, event.id] = self._newest[event.id] = utterance

    def _set(self, event: Final | Failed | Edited, caption: TranscriptCaption) -> None:
        # An id is free again when its room has forgotten the utterance; with its `ord` it is not.
        utterance = self.utterances.get((event.ord, event.id))
        if utterance is not None:
            utterance.captions[event.lang] = caption

    def _edit(self, event: Edited, at: float) -> None:
        utterance = self.utterances.get((event.ord, event.id))
        if utterance is not None and languages.same(event.lang, utterance.lang):
            utterance.text, utterance.edited = event.text, True
        else:
            self._set(
                event,
                TranscriptCaption(state=EntryState.EDITED, text=event.text, by=event.by, at=at),
            )


class _SpeakerClock:
    """A speaker's clock, and how far that speaker has come in the room's time."""

    __slots__ = ("_at", "_end", "_offset", "_t0", "_t1")

    def __init__(self) -> None:
        self._end = 0.0
        self._offset: float | None = None
        self._t0 = self._t1 = self._at = 0.0  # of the utterance before that had times

    def place(self, event: Source, at: float) -> tuple[float, float]:
        """When it began and ended, in the room's time."""
        span = cues.said(event.text)
        begin, end = at - span, at
        if event.t0 is not None or event.t1 is not None:
            t0, t1 = _times(event.t0, event.t1, span)
            if self._offset is None or self._jumped(t0, t1, at):
                self._offset = max(at - t1, self._end - t0)
            self._t0, self._t1, self._at = t0, t1, at
            begin, end = t0 + self._offset, t1 + self._offset
        begin = max(begin, self._end)
        self._end = max(begin, end)
        return begin, self._end

    def _jumped(self, t0: float, t1: float, at: float) -> bool:
        return t0 < self._t0 or abs((t1 - self._t1) - (at - self._at)) > JUMP_S


def _times(t0: float | None, t1: float | None, span: float) -> tuple[float, float]:
    """Both times, where one or both of them were given; ``span`` is what it takes to say it."""
    if t0 is None:
        assert t1 is not None, "an utterance without times has none to complete"
        return max(0.0, t1 - span), t1
    return (t0, t1) if t1 is not None and t0 < t1 <= t0 + SPAN_S else (t0, t0 + span)
