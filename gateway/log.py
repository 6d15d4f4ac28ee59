"""What a room has decided, in order.

Owns: sequence numbers, when each event came, and how far back they can be replayed. Must not know:
who reads, encodings, where a log outlives its process.

Bound: `Limits.log` events and `Limits.log_bytes`; the oldest go first. A reader who asks for more
than is left is told so, and never given a part as the whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import chain, islice
from typing import NamedTuple

from msgspec.structs import replace

from gateway.limits import Limits
from gateway.messages import Cancelled, Edited, Failed, Final, Retracted, Settings, Source

Durable = Source | Final | Failed | Cancelled | Edited | Retracted | Settings
"""Events that carry a ``seq``."""

EVENT_BYTES = 256
"""What an event costs beside its text, roughly."""


class Entry(NamedTuple):
    """An event, and the seconds after the room's history began when it was decided."""

    event: Durable
    at: float


class Log:
    """The durable events of one room. ``epoch`` names this history: another one begins anew.

    :param began: when the history began, in seconds of the clock that `append` is told
    """

    __slots__ = ("_bytes", "_entries", "_limits", "began", "epoch", "seq")

    def __init__(self, epoch: str, limits: Limits, *, began: float = 0.0) -> None:
        self.epoch = epoch
        self.began = began
        self.seq = 0
        self._limits = limits
        self._entries: deque[Entry] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def next(self) -> int:
        """The number of the event that is about to be appended."""
        self.seq += 1
        return self.seq

    def append(self, event: Durable, now: float) -> None:
        """Keep an event that has the newest number."""
        assert event.seq == self.seq, "an event was numbered and not appended"
        self._keep(Entry(event, now - self.began))

    def restore(self, entries: Iterable[Entry]) -> None:
        """Begin with what an earlier process decided: events in order, without holes."""
        assert self.seq == 0, "a log that has begun is not restored"
        for entry in entries:
            assert entry.event.seq is not None
            self.seq = entry.event.seq
            self._keep(entry)

    def since(self, seq: int) -> list[Durable] | None:
        """The events after ``seq``, or None where the log does not reach back so far."""
        if seq > self.seq or seq < self.seq - len(self._entries):
            return None
        return [entry.event for entry in self.entries(seq)]

    def entries(self, seq: int = 0) -> list[Entry]:
        """Those of the entries after ``seq`` that are still there."""
        count = max(0, min(len(self._entries), self.seq - seq))
        return list(islice(reversed(self._entries), count))[::-1]

    def last(self, utterances: int) -> list[Durable]:
        """The events of so many utterances at most, the last ones that were said to their end."""
        ids: set[str] = set()
        kept: list[Durable] = []
        for entry in reversed(self._entries):
            if len(ids) >= utterances:
                break
            kept.append(entry.event)
            if isinstance(entry.event, Source):
                ids.add(entry.event.id)
        return [event for event in reversed(kept) if getattr(event, "id", None) in ids]

    def erase(self, ord: int) -> None:
        """Forget what an utterance said, and keep that there was one: numbers have no holes.

        By its position: its id may have been that of another before.
        """
        for n, (event, at) in enumerate(self._entries):
            if isinstance(event, Source | Final | Edited) and event.ord == ord and event.text:
                self._bytes -= len(event.text)
                self._entries[n] = Entry(replace(event, text=""), at)

    def _keep(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._bytes += _cost(entry.event)
        while len(self._entries) > self._limits.log or self._bytes > self._limits.log_bytes:
            self._bytes -= _cost(self._entries.popleft().event)


def _cost(event: Durable) -> int:
    match event:
        case Source() | Final() | Edited():
            return EVENT_BYTES + len(event.text)
        case Settings():
            terms = (event.glossary or {}).items()
            return EVENT_BYTES + len(event.context or "") + sum(map(len, chain(*terms)))
        case _:
            return EVENT_BYTES
