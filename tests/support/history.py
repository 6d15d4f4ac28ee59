"""Logs of rooms, written by a test without a meeting."""

from __future__ import annotations

from typing import Any

from gateway.core.history.event_log import EventLog
from gateway.core.transcripts.transcript import Transcript, TranscriptEntry
from gateway.limits import Limits
from gateway.protocol.messages import (
    Cancelled,
    Edited,
    Failed,
    Final,
    Retracted,
    Settings,
    Source,
    Timing,
)

MS = Timing(queue=1, first=2, total=3)
QUARTER = "x" * 15  # takes a second to say


class History:
    """A log that a test writes. Each method adds an event at a time in seconds."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.log = EventLog("e", limits if limits is not None else Limits())
        self.ords: dict[str, int] = {}

    def say(self, id: str, text: str = "Good morning.", at: float = 1.0, **more: Any) -> None:
        """Add the original text; ``ord`` rises unless it is given."""
        seq = self.log.seq + 1
        self.ords[id] = more.pop("ord", seq)
        fields = {"lang": "en", **more}
        self.log.append(Source(seq=seq, id=id, rev=1, ord=self.ords[id], text=text, **fields), at)

    def caption(self, id: str, lang: str, text: str, at: float = 2.0, by: Any = "mt") -> None:
        self._append(Final, id, at, lang=lang, text=text, by=by, ms=MS)

    def fail(self, id: str, lang: str, at: float = 3.0) -> None:
        self._append(Failed, id, at, lang=lang, code="timeout", retry=True)

    def edit(self, id: str, lang: str, text: str, at: float = 4.0, by: Any = "human") -> None:
        self._append(Edited, id, at, lang=lang, text=text, by=by)

    def retract(self, id: str, at: float = 5.0) -> None:
        seq = self.log.seq + 1
        self.log.append(Retracted(seq=seq, id=id, ord=self.ords[id]), at)

    def cancel(self, id: str, lang: str | None = None, at: float = 3.0) -> None:
        event = Cancelled(seq=self.log.seq + 1, id=id, rev=1, lang=lang, was="running")
        self.log.append(event, at)

    def settings(self) -> None:
        self.log.append(Settings(seq=self.log.seq + 1, version=1, context="A stand-up."), 0.0)

    def _append(self, kind: Any, id: str, at: float, **fields: Any) -> None:
        seq = self.log.seq + 1
        self.log.append(kind(seq=seq, id=id, rev=1, ord=self.ords.get(id, 999), **fields), at)

    def read(self) -> Transcript:
        return Transcript.of(self.log.entries())

    def only(self) -> TranscriptEntry:
        (utterance,) = self.read().utterances
        return utterance
