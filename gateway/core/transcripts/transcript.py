"""Transcript of a room, reduced from its log.

Owns: the text of an utterance that counts in each language, and the time of the utterance. Must not
know: file formats, the storage of the log.

``t0`` and ``t1`` are seconds of the speaker's own clock, which starts at any value. A text arrives
just after its last word, so the first text of a speaker sets the offset of that clock: its ``t1``
is the time of arrival in the room. From then on the speaker's own times are used. They do not
contain the delays of recognition and network, so speakers interleave as they spoke. The first text
is used, rather than the one with the smallest delay, because later texts must not change times that
a transcript has already shown. The offset is set again if the clock jumps: it goes backwards, or it
differs from the room's time by more than `JUMP_S` between two utterances. The speaker has then
returned with a new clock.

A text without times ends when it arrives, and begins earlier by the time it takes to say it. A
sentence never begins before the end of the speaker's previous one.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter

import msgspec

from gateway.core.history.event_log import LogEntry
from gateway.core.transcripts import cues
from gateway.protocol.fields import stated
from gateway.protocol.messages import (
    By,
    Cancelled,
    Edited,
    Failed,
    Final,
    Retracted,
    Settings,
    Source,
)
from gateway.text import languages

JUMP_S = 60.0
"""Seconds by which a speaker's clock may differ from the room's between two utterances. The delays
of recognition and of a bad connection are shorter, a meeting is longer."""
SPAN_S = 300.0
"""Maximum seconds of one utterance, twice the time to say `Limits.text` characters. If ``t1`` is
later, only ``t0`` is used."""


class EntryState(enum.Enum):
    """State of an utterance in one language."""

    FINAL = "final"
    EDITED = "edited"
    SAME = "same"  # the original is in this language
    FAILED = "failed"
    CANCELLED = "cancelled"
    MISSING = "missing"  # nobody read this language at that time

    @property
    def shown(self) -> bool:
        """True if there is a text."""
        return self in (EntryState.FINAL, EntryState.EDITED, EntryState.SAME)


class TranscriptCaption(msgspec.Struct, frozen=True, kw_only=True):
    """An utterance in one language."""

    state: EntryState
    text: str = ""
    by: By | None = None
    at: float | None = None  # time of the event, in seconds of the room
    code: str | None = None  # error code of a failed caption


_MISSING = TranscriptCaption(state=EntryState.MISSING)


class TranscriptEntry(msgspec.Struct, kw_only=True):
    """An original and its captions. It is only changed while `Transcript.of` reads the log.

    The fields are in the order of JSON. ``begin``, ``end`` and the arrival ``at`` are seconds of
    the room, which start with its history; ``t0`` and ``t1`` are begin and end in seconds of the
    speaker's clock, as they were sent.
    """

    id: str
    ord: int
    speaker: str | None
    lang: str
    text: str
    edited: bool = False  # the original was corrected
    begin: float
    end: float
    at: float
    t0: float | None = None
    t1: float | None = None
    captions: dict[str, TranscriptCaption] = msgspec.field(default_factory=dict)

    def read(self, lang: str) -> TranscriptCaption:
        """Return the caption for a reader of ``lang``, maybe one of another region."""
        if languages.same(lang, self.lang):
            return TranscriptCaption(state=EntryState.SAME, text=self.text, by="same", at=self.at)
        known = languages.match(lang, tuple(self.captions))
        return _MISSING if known is None else self.captions[known]


class Transcript(msgspec.Struct, frozen=True):
    """The utterances of a room."""

    utterances: tuple[TranscriptEntry, ...]  # utterances in the order of their ``ord``
    complete: bool  # the log begins with the first event of the room

    @classmethod
    def of(cls, entries: Iterable[LogEntry]) -> Transcript:
        """Return the transcript of a log, without utterances whose original has left the log."""
        # A client may use an id again for a later utterance. Together with `ord` it is unique.
        utterances: dict[tuple[int, str], TranscriptEntry] = {}
        newest: dict[str, TranscriptEntry] = {}
        clocks: defaultdict[str | None, _SpeakerClock] = defaultdict(_SpeakerClock)
        first = 0
        for event, at in entries:
            first = first or event.seq or 0
            if isinstance(event, Source):
                begin, end = clocks[event.speaker].place(event, at)
                utterance = TranscriptEntry(
                    id=event.id,
                    ord=event.ord,
                    lang=event.lang,
                    text=event.text,
                    begin=begin,
                    end=end,
                    at=at,
                    **stated(event, TranscriptEntry),
                )
                utterances[event.ord, event.id] = newest[event.id] = utterance
            elif isinstance(event, Retracted):  # a transcript must not keep what was taken back
                utterances.pop((event.ord, event.id), None)
            elif isinstance(event, Cancelled):
                if event.lang is not None and event.id in newest:
                    caption = TranscriptCaption(state=EntryState.CANCELLED, at=at)
                    newest[event.id].captions[event.lang] = caption
            elif not isinstance(event, Settings) and (event.ord, event.id) in utterances:
                _apply(utterances[event.ord, event.id], event, at)
        kept = sorted(utterances.values(), key=attrgetter("ord"))
        return cls(tuple(kept), first <= 1)

    @property
    def spoken(self) -> list[TranscriptEntry]:
        """Utterances in the order in which they began."""
        return sorted(self.utterances, key=attrgetter("begin", "ord"))

    @property
    def langs(self) -> list[str]:
        """Spoken languages, and languages with at least one caption, sorted by tag."""
        captions = (item for u in self.utterances for item in u.captions.items())
        shown = {lang for lang, caption in captions if caption.state.shown}
        return sorted(shown | {u.lang for u in self.utterances})


def _apply(utterance: TranscriptEntry, event: Final | Failed | Edited, at: float) -> None:
    """Change an utterance; the last event about it and a language counts."""
    if isinstance(event, Failed):
        caption = TranscriptCaption(state=EntryState.FAILED, at=at, code=event.code)
        utterance.captions[event.lang] = caption
    elif isinstance(event, Edited) and languages.same(event.lang, utterance.lang):
        utterance.text, utterance.edited = event.text, True
    elif isinstance(event, Edited) or event.by != "same":  # else it only repeats the original
        state = EntryState.FINAL if isinstance(event, Final) else EntryState.EDITED
        caption = TranscriptCaption(state=state, at=at, text=event.text, by=event.by)
        utterance.captions[event.lang] = caption


class _SpeakerClock(msgspec.Struct):
    """The offset of a speaker's clock, and the end of the speaker's last utterance."""

    end: float = 0.0
    offset: float | None = None
    t0: float = 0.0
    """Times of the last utterance that had any, by the speaker's clock and on arrival."""
    t1: float = 0.0
    at: float = 0.0

    def place(self, event: Source, at: float) -> tuple[float, float]:
        """Return begin and end of an utterance that arrived ``at``, in seconds of the room."""
        span = cues.speaking_seconds(event.text)
        begin, end = at - span, at
        if event.t0 is not None or event.t1 is not None:
            t0, t1 = _times(event.t0, event.t1, span)
            # The new offset must not move the utterance before the end of the previous one.
            if self.offset is None or self._jumped(t0, t1, at):
                self.offset = max(at - t1, self.end - t0)
            self.t0, self.t1, self.at = t0, t1, at
            begin, end = t0 + self.offset, t1 + self.offset
        # Recognisers report times that overlap by some tenths of a second.
        begin = max(begin, self.end)
        self.end = max(begin, end)
        return begin, self.end

    def _jumped(self, t0: float, t1: float, at: float) -> bool:
        """Tell whether the speaker has another clock than before."""
        return t0 < self.t0 or abs((t1 - self.t1) - (at - self.at)) > JUMP_S


def _times(t0: float | None, t1: float | None, span: float) -> tuple[float, float]:
    """Return both times if at least one is given. ``span`` is the time to say the text, in s."""
    if t0 is None:
        assert t1 is not None, "an utterance without times has none to complete"
        return max(0.0, t1 - span), t1
    return (t0, t1) if t1 is not None and t0 < t1 <= t0 + SPAN_S else (t0, t0 + span)
