"""What a room has decided, in order.

Owns: sequence numbers, when each event came, and how far back they can be replayed. Must not know:
who reads, encodings, where a log outlives its process.

Bound: `Limits.log` events and `Limits.log_bytes`; the oldest go first. A reader who asks for more
than is left is told so, and never given a part as the whole.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from operator import attrgetter
from sys import getsizeof
from typing import NamedTuple

from msgspec import inspect
from msgspec.inspect import LiteralType
from msgspec.structs import astuple, replace

from gateway.limits import Limits, memory
from gateway.protocol.messages import (
    DURABLE,
    Cancelled,
    Edited,
    Failed,
    Final,
    Retracted,
    Settings,
    Source,
    Timing,
)

Durable = Source | Final | Failed | Cancelled | Edited | Retracted | Settings
"""Events that carry a ``seq``."""

ENTRY_BYTES = 144
"""Memory that a log takes for an event beside the event itself: its `LogEntry`, its cost, and its
places in three lists."""
SMALL = 256
"""The largest number of which CPython has one object for all."""


class LogEntry(NamedTuple):
    """An event, and the seconds after the room's history began when it was decided."""

    event: Durable
    at: float


class StreamPosition(NamedTuple):
    """How far somebody has come in a history: its last event that he has."""

    epoch: str
    seq: int


class EventLog:
    """The durable events of one room. ``epoch`` names this history: another one begins anew.

    ``before``: up to where it is the same as one that ended in a crash; who has come no further in
    that may go on here. ``bytes``: what its events cost. ``originals``: the numbers of those that
    corrected what was said, and not a caption.

    :param began: when the history began, in seconds of the clock that `append` is told
    """

    __slots__ = (
        "_costs",
        "_entries",
        "_limits",
        "_seqs",
        "began",
        "before",
        "bytes",
        "epoch",
        "originals",
        "seq",
    )

    def __init__(self, epoch: str, limits: Limits, *, began: float = 0.0) -> None:
        self.epoch = epoch
        self.began = began
        self.before: StreamPosition | None = None
        self.seq = 0
        self._limits = limits
        self._entries: deque[LogEntry] = deque()
        self._costs: deque[int] = deque()  # of the entries, as they were counted
        self._seqs: dict[str | None, array[int]] = {}  # by `concerns`; the first may be forgotten
        self.originals: set[int] = set()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> int:
        """The number of the first event that is left, or of the next one where none is."""
        return self.seq - len(self._entries) + 1

    def reaches(self, epoch: str, seq: int) -> bool:
        """Whether all is here that came after event ``seq`` of ``epoch``."""
        if epoch != self.epoch and (
            self.before is None or epoch != self.before.epoch or seq > self.before.seq
        ):
            return False
        return self.oldest - 1 <= seq <= self.seq

    def next(self) -> int:
        """The number of the event that is about to be appended."""
        self.seq += 1
        return self.seq

    def append(self, event: Durable, now: float) -> None:
        """Keep an event that has the newest number."""
        assert event.seq == self.seq, "an event was numbered and not appended"
        self._keep(LogEntry(event, now - self.began))

    def restore(self, entries: Iterable[LogEntry]) -> None:
        """Begin with what an earlier process decided: events in order, without holes."""
        assert self.seq == 0, "a log that has begun is not restored"
        spoken: dict[int, str] = {}
        for entry in entries:
            event = entry.event
            assert event.seq is not None
            self.seq = event.seq
            if isinstance(event, Source):
                spoken[event.ord] = event.lang
            elif isinstance(event, Edited) and event.by == "human":
                if event.lang == spoken.get(event.ord):
                    self.originals.add(event.seq)
            self._keep(entry)

    def since(self, seq: int, most: int | None = None) -> list[Durable] | None:
        """The events after ``seq``, so many ``most``; None where the log does not reach back."""
        first = seq + 1 - self.oldest
        if seq > self.seq or first < 0:
            return None
        if most is None:
            return [entry.event for entry in self.entries(seq)]
        last = min(first + most, len(self._entries))
        return [self._entries[n].event for n in range(first, last)]

    def concerns(self, event: Durable) -> str | None:
        """The language whose readers an event is for; None: it is for everybody."""
        if isinstance(event, _EVERYBODY) or event.seq in self.originals:
            return None
        return event.lang

    def count(self, lang: str | None, seq: int) -> int:
        """How many of the events after ``seq`` that are left are for the readers of a language, or
        for everybody. As fast for two hours as for a second: many come back at once."""
        seqs = self._seqs.get(lang, ())
        return len(seqs) - bisect_right(seqs, max(seq, self.oldest - 1))

    def entries(self, seq: int = 0) -> list[LogEntry]:
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

    def shed(self, size: int) -> None:
        """Forget the oldest events, until so many bytes are free that were not."""
        least = max(0, self.bytes - size)
        while self.bytes > least:
            self._pop()

    def erase(self, ord: int) -> None:
        """Forget what an utterance said, and keep that there was one: numbers have no holes.

        By its position: its id may have been that of another before.
        """
        for n, (event, at) in enumerate(reversed(self._entries), 1):
            if isinstance(event, _TEXTS) and event.ord == ord:
                erased = replace(event, text="")
                self.bytes += cost(erased) - self._costs[-n]
                self._entries[-n], self._costs[-n] = LogEntry(erased, at), cost(erased)
                if isinstance(event, Source):
                    return  # nothing was said of it before

    def _keep(self, entry: LogEntry) -> None:
        event = entry.event
        assert event.seq is not None, "an event of a log has a number"
        self._entries.append(entry)
        concerns = self.concerns(event)
        if concerns not in self._seqs:
            self._seqs[concerns] = array("q")
        self._seqs[concerns].append(event.seq)
        self._costs.append(cost(event))
        self.bytes += self._costs[-1]
        while len(self._entries) > self._limits.log or self.bytes > self._limits.log_bytes:
            self._pop()

    def _pop(self) -> None:
        event = self._entries.popleft().event
        self.bytes -= self._costs.popleft()
        lang = self.concerns(event)
        seqs = self._seqs[lang]
        if seqs[len(seqs) // 2] < self.oldest:  # half of them at once: each is moved once
            del seqs[: bisect_left(seqs, self.oldest)]
            if not seqs:
                del self._seqs[lang]
        self.originals.discard(event.seq or 0)


_TEXTS = (Source, Final, Edited)


_EVERYBODY = (Source, Retracted, Settings)
"""A union would be built anew at each call, and there are many."""


def cost(event: Durable) -> int:
    """Return the memory of an event in a log, in bytes, with the UTF-8 of its texts.

    Every text counts as if no other event shared it. ``tests/properties/test_memory.py`` compares
    it with the memory that events really take.
    """
    return ENTRY_BYTES + getsizeof(event) + sum(map(_memory, _PARTS[type(event)](event)))


def _memory(value: object) -> int:
    if isinstance(value, str):
        return memory(value)
    if value is None or (isinstance(value, int) and value <= SMALL):
        return 0  # there is one object of each in a process
    if isinstance(value, dict):
        return getsizeof(value) + sum(map(memory, value)) + sum(map(memory, value.values()))
    if isinstance(value, tuple):
        return getsizeof(value) + sum(map(memory, value))
    if isinstance(value, Timing):
        return getsizeof(value) + sum(map(getsizeof, astuple(value)))
    return getsizeof(value)


def _parts(kind: type[Durable]) -> Callable[[Durable], tuple[object, ...]]:
    """Return a function that returns the fields of an event which take memory of their own.

    A literal takes none: there is one object of each in a process.
    """
    fields = inspect.type_info(kind).fields  # type: ignore[attr-defined]
    return attrgetter(*(one.name for one in fields if not isinstance(one.type, LiteralType)))


_PARTS = {kind: _parts(kind) for kind in DURABLE}
