"""The durable events of a room, in order.

Owns: sequence numbers, the time of each event, and how far back events can be replayed. Must not
know: readers, encodings, where a log is stored beyond the life of the process.

Bound: `Limits.log` events and `Limits.log_bytes`; the oldest are dropped first. A reader that asks
for more than is left is told so, and is never sent a part as if it were the whole.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from operator import attrgetter
from sys import getsizeof
from typing import NamedTuple

import msgspec
from msgspec import inspect
from msgspec.inspect import LiteralType
from msgspec.structs import astuple

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
from gateway.protocol.personal import erased, personal_fields

Durable = Source | Final | Failed | Cancelled | Edited | Retracted | Settings
"""Events that carry a ``seq``."""

ENTRY_BYTES = 144
"""Bytes that a log takes for an event beside the event itself: its `LogEntry`, its cost, and its
places in three lists."""
AUTHOR_BYTES = 104
"""Bytes of an entry in a dictionary, in the worst moment of its growth."""
SMALL = 256
"""Largest integer of which CPython keeps a single object."""


class LogEntry(NamedTuple):
    """An event, and the seconds between the begin of the log and it."""

    event: Durable
    at: float


class StreamPosition(NamedTuple):
    """The last event of a log that a reader has."""

    epoch: str
    seq: int


class EventLog(msgspec.Struct, eq=False):
    """The durable events of one room."""

    epoch: str
    """Name of this log; a log that begins anew has another one."""
    limits: Limits
    began: float = 0.0
    """Time at which the log began, in seconds of the clock that `append` is told."""
    before: StreamPosition | None = None
    """Position in an earlier log, which ended in a crash, up to which both are the same: a reader
    that has come no further there can continue here."""
    settings: Settings | None = None
    """Settings of the room before the oldest event, if there were any."""
    seq: int = 0
    bytes: int = 0
    """Memory that the events take."""
    originals: set[int] = set()
    """Numbers of the events that corrected an original and not a caption."""
    authors: dict[int, str] = {}
    """Sessions that have said something, by the number of its ``source``; other clients are not
    told them."""
    grew: Callable[[int], None] = lambda _: None
    """Called with the bytes of each event that is appended."""
    _entries: deque[LogEntry] = msgspec.field(default_factory=deque)
    _costs: deque[int] = msgspec.field(default_factory=deque)
    """Memory of each entry, as it was counted."""
    _seqs: dict[str | None, array[int]] = {}
    """Numbers by `concerns`; the first of them may be dropped already."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> int:
        """Number of the first event that is left, or of the next one if none is."""
        return self.seq - len(self._entries) + 1

    def reaches(self, epoch: str, seq: int) -> bool:
        """Tell whether all events after number ``seq`` of ``epoch`` are here."""
        before = self.before
        known = epoch == self.epoch or (
            before is not None and epoch == before.epoch and seq <= before.seq
        )
        return known and self.oldest - 1 <= seq <= self.seq

    def copied(self, now: float) -> EventLog:
        """Return a log of the same events, which can be changed. An empty one begins now."""
        return EventLog(
            self.epoch,
            self.limits,
            self.began if self.seq else now,
            seq=self.seq,
            bytes=self.bytes,
            originals=self.originals.copy(),
            authors=self.authors.copy(),
            _entries=self._entries.copy(),
            _costs=self._costs.copy(),
            _seqs={lang: seqs[:] for lang, seqs in self._seqs.items()},
        )

    def append(self, event: Durable, now: float) -> None:
        """Append the event with the newest number."""
        assert event.seq == self.seq + 1, "the numbers of a log have no holes"
        self.seq += 1
        self._keep(LogEntry(event, now - self.began))

    def restore(self, entries: Iterable[LogEntry], authors: Mapping[int, str]) -> None:
        """Begin with the events of an earlier process, in order and without holes."""
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
            if event.seq in authors:
                self.authors[event.seq] = authors[event.seq]
            self._keep(entry)

    def since(self, seq: int, most: int | None = None) -> list[Durable] | None:
        """Return the first ``most`` events after ``seq``; None if the log does not reach back."""
        # A number beyond the newest is of a log that this process does not know.
        first = seq + 1 - self.oldest
        if seq > self.seq or first < 0:
            return None
        last = len(self._entries) if most is None else min(first + most, len(self._entries))
        return [self._entries[n].event for n in range(first, last)]

    def concerns(self, event: Durable) -> str | None:
        """Return the language whose readers an event concerns; None if it concerns everybody."""
        if isinstance(event, _EVERYBODY) or event.seq in self.originals:
            return None
        return event.lang

    def count(self, lang: str | None, seq: int) -> int:
        """Return how many events after ``seq`` concern the readers of a language, or everybody.
        Takes no longer for two hours than for a second, since many readers come back at once.
        """
        seqs = self._seqs.get(lang, ())
        return len(seqs) - bisect_right(seqs, max(seq, self.oldest - 1))

    def entries(self, seq: int = 0) -> list[LogEntry]:
        """Return the entries after ``seq`` that are left."""
        count = max(0, min(len(self._entries), self.seq - seq))
        return list(islice(reversed(self._entries), count))[::-1]

    def last(self, utterances: int) -> list[Durable]:
        """Return the events of the last complete utterances that stand, in order. Cancelled
        utterances are among them, beyond the number.
        """
        retracted: set[str] = set()
        cancelled: set[str] = set()
        ids: set[str] = set()
        kept: list[Durable] = []
        for entry in reversed(self._entries):
            if len(ids - cancelled) >= utterances:
                break
            event = entry.event
            kept.append(event)
            if isinstance(event, Retracted):
                retracted.add(event.id)
            elif isinstance(event, Cancelled) and event.lang is None:
                cancelled.add(event.id)
            elif isinstance(event, Source) and event.id not in retracted:
                ids.add(event.id)
        return [event for event in reversed(kept) if getattr(event, "id", None) in ids]

    def standing(self, most: int) -> list[str]:
        """Return the ids of the last complete utterances that stand, newest first."""
        events = self.last(most)
        cancelled = {e.id for e in events if isinstance(e, Cancelled) and e.lang is None}
        said = [event.id for event in reversed(events) if isinstance(event, Source)]
        return [id for id in said if id not in cancelled]

    def shed(self, size: int) -> None:
        """Drop the oldest events, until ``size`` bytes more are free."""
        least = max(0, self.bytes - size)
        while self.bytes > least:
            self._pop()

    def erase(self, ord: int) -> None:
        """Erase the texts of the utterance at a position; an id may have been used before. Its
        events stay, so that numbers have no holes.
        """
        # From the end: people retract what was said a moment ago.
        for n, (event, at) in enumerate(reversed(self._entries), 1):
            if _text_of(event) == ord:
                bare = erased(event)
                self.bytes += self._cost(bare) - self._costs[-n]
                self._entries[-n], self._costs[-n] = LogEntry(bare, at), self._cost(bare)
                if isinstance(event, Source):
                    return  # no event of the utterance is older

    def texts_of(self, ords: Iterable[int]) -> list[LogEntry]:
        """Return the entries with text of the utterances at some positions."""
        left, entries = set(ords), list[LogEntry]()
        wanted = frozenset(left)
        for entry in reversed(self._entries):  # from the end, as in `erase`
            if not left:
                break
            if _text_of(entry.event) in wanted:
                entries.append(entry)
                if isinstance(entry.event, Source):
                    left.discard(entry.event.ord)
        return entries[::-1]

    def _keep(self, entry: LogEntry) -> None:
        event = entry.event
        assert event.seq is not None, "an event of a log has a number"
        self._entries.append(entry)
        concerns = self.concerns(event)
        if concerns not in self._seqs:
            self._seqs[concerns] = array("q")
        self._seqs[concerns].append(event.seq)
        self._costs.append(self._cost(event))
        self.bytes += self._costs[-1]
        self.grew(self._costs[-1])
        # After the append, so that one large event drops as many as it needs.
        while len(self._entries) > self.limits.log or self.bytes > self.limits.log_bytes:
            self._pop()

    def _cost(self, event: Durable) -> int:
        author = self.authors.get(event.seq or 0)
        return cost(event) + (0 if author is None else AUTHOR_BYTES + memory(author))

    def _pop(self) -> None:
        event = self._entries.popleft().event
        self.bytes -= self._costs.popleft()
        lang = self.concerns(event)
        seqs = self._seqs[lang]
        # By halves, so that each number is moved once at most.
        if seqs[len(seqs) // 2] < self.oldest:
            del seqs[: bisect_left(seqs, self.oldest)]
            if not seqs:
                del self._seqs[lang]
        self.originals.discard(event.seq or 0)
        self.authors.pop(event.seq or 0, None)


def _text_of(event: Durable) -> int | None:
    """Return the position (``ord``) of the utterance that an event has text of, or None."""
    return event.ord if type(event) in _TEXTS else None  # type: ignore[union-attr]


_TEXTS = frozenset(
    kind for kind in DURABLE if "ord" in kind.__struct_fields__ and personal_fields(kind)
)
"""Types of events with text of an utterance."""

_EVERYBODY = (Source, Retracted, Settings)
"""Types of events that concern everybody. A union would be built anew at each of many calls."""


def cost(event: Durable) -> int:
    """Return the memory of an event in a log, in bytes, with the UTF-8 of its texts.

    Every text counts as if no other event shared it. ``tests/properties/test_memory.py`` compares
    it with the memory that events really take.
    """
    return ENTRY_BYTES + getsizeof(event) + _memory(_PARTS[type(event)](event))


def _memory(values: Iterable[object]) -> int:
    size = 0
    for value in values:
        if isinstance(value, str):
            size += memory(value)
        elif value is None or (isinstance(value, int) and value <= SMALL):
            pass  # CPython keeps a single object of each
        elif isinstance(value, dict):
            size += getsizeof(value) + _memory(value) + _memory(value.values())
        elif isinstance(value, tuple):
            size += getsizeof(value) + _memory(value)
        elif isinstance(value, Timing):
            size += getsizeof(value) + sum(map(getsizeof, astuple(value)))
        else:
            size += getsizeof(value)
    return size


def _parts(kind: type[Durable]) -> Callable[[Durable], tuple[object, ...]]:
    """Return a function that returns the fields of an event which take memory of their own. A
    literal takes none: there is one object of each in a process.
    """
    fields = inspect.type_info(kind).fields  # type: ignore[attr-defined]
    return attrgetter(*(part.name for part in fields if not isinstance(part.type, LiteralType)))


_PARTS = {kind: _parts(kind) for kind in DURABLE}
