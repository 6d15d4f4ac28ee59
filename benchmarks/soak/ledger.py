"""Checks for loss, duplication and contradiction among the readers of a room.

Owns: the durable events of each room as anybody saw them, what each reader saw of them, and the
comparison. Must not know: sockets, clocks, how an event is encoded.

Readers of one room see one history, each in its own languages. An event that one reader got and
another did not, although it reads that language, was lost, unless the other was told of a gap. A
byte for each event and reader: a day's meeting of 200 readers takes some megabytes.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

ALL = 1
"""Mark of an event that every reader must get; those of a language follow."""


class Kind(enum.Enum):
    """The effect of an event on a caption."""

    SAID = "said"
    """The original is complete."""
    END = "end"
    """One caption has ended, or without a language all of an utterance."""
    OTHER = "other"


@dataclass(frozen=True)
class Event:
    """A durable event: its number, its language (None: all readers), and its content."""

    seq: int
    lang: str | None
    kind: Kind
    id: str
    text: str


@dataclass
class Faults:
    """Counts of broken promises. ``examples`` describe the first ones, without texts."""

    lost: int = 0
    duplicated: int = 0
    contradicted: int = 0
    """Different events with one number."""
    ended_twice: int = 0
    unended: int = 0
    examples: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any((self.lost, self.duplicated, self.contradicted, self.ended_twice, self.unended))

    def note(self, example: str) -> None:
        if len(self.examples) < EXAMPLES:
            self.examples.append(example)


EXAMPLES = 20
"""Faults that are described one by one."""


class Epoch:
    """One history of a room, as its readers saw it."""

    def __init__(self, name: str, faults: Faults) -> None:
        self.name = name
        self.last = 0
        self._faults = faults
        self._langs: dict[str | None, int] = {None: ALL}
        self._marks = bytearray(1)  # by number: its language; 0 if no reader has seen it
        self._says = array("q", [0])
        self._said: dict[str, int] = {}
        self._ends: set[tuple[str, str | None]] = set()

    def see(self, event: Event) -> None:
        """Note an event that a reader got."""
        missing = event.seq + 1 - len(self._marks)
        if missing > 0:
            self._marks.extend(bytes(missing))
            self._says.extend([0] * missing)
        mark = self._langs.setdefault(event.lang, len(self._langs) + ALL)
        says = hash((event.kind, event.id, event.text))
        if self._marks[event.seq]:
            if (self._marks[event.seq], self._says[event.seq]) != (mark, says):
                self._faults.contradicted += 1
                self._faults.note(f"{self.name}: two events have the number {event.seq}")
            return
        self._marks[event.seq], self._says[event.seq] = mark, says
        self.last = max(self.last, event.seq)
        if event.kind is Kind.SAID:
            self._said[event.id] = event.seq
        elif event.kind is Kind.END:
            self._end(event)

    def _end(self, event: Event) -> None:
        if (event.id, event.lang) in self._ends:
            self._faults.ended_twice += 1
            self._faults.note(f"{self.name}: {event.id} in {event.lang} ended twice")
        self._ends.add((event.id, event.lang))

    def unended(self, langs: Collection[str], after: int) -> Iterator[tuple[str, str]]:
        """Return (id, language) of captions after a number that have not ended."""
        for id, seq in self._said.items():
            if seq > after and (id, None) not in self._ends:
                yield from ((id, lang) for lang in langs if (id, lang) not in self._ends)

    def due(self, langs: Collection[str], after: int, to: int) -> Iterator[int]:
        """Return the numbers in (after, to] that a reader of these languages must get."""
        entitled = {ALL, *(self._langs[lang] for lang in langs if lang in self._langs)}
        for seq in range(after + 1, min(to, len(self._marks) - 1) + 1):
            if self._marks[seq] in entitled:
                yield seq


class Room:
    """All histories of a room."""

    def __init__(self, name: str, faults: Faults) -> None:
        self.name = name
        self._faults = faults
        self.epochs: dict[str, Epoch] = {}

    @property
    def histories(self) -> int:
        """Return how many histories have events: an empty one may begin anew."""
        return sum(epoch.last > 0 for epoch in self.epochs.values())

    def epoch(self, name: str) -> Epoch:
        """Return the history of this name, and begin it if it is new."""
        if name not in self.epochs:
            self.epochs[name] = Epoch(f"{self.name}/{name}", self._faults)
        return self.epochs[name]


@dataclass
class Span:
    """A stretch of one history that a reader got, after ``start``.

    ``promised``: after this number it must get everything. None while unknown: a reader who comes
    late gets the last utterances, and not all that lies between.
    """

    epoch: Epoch
    start: int
    last: int
    promised: int | None = None
    seen: bytearray = field(default_factory=bytearray)


class Reader:
    """A reader of a room, over any number of sockets."""

    def __init__(self, name: str, room: Room, langs: Collection[str], faults: Faults) -> None:
        self.name = name
        self.langs = frozenset(langs)
        self._room = room
        self.faults = faults
        self.spans: list[Span] = []

    @property
    def cursor(self) -> tuple[str, int] | None:
        """Return the epoch and number from which it would go on."""
        if not self.spans:
            return None
        return self.spans[-1].epoch.name.rpartition("/")[2], self.spans[-1].last

    def enter(self, epoch: str, seq: int, *, resumed: bool) -> None:
        """Note that it was let in, after ``seq`` of ``epoch``.

        :param resumed: whether it was promised what came since its `cursor`
        """
        here = self._room.epoch(epoch)
        if resumed and self.spans:
            before = self.spans[-1]
            if before.epoch is not here:
                self.spans.append(Span(here, before.last, before.last))
            self.settle(before.last)
        else:
            self.spans.append(Span(here, seq, seq))

    def settle(self, seq: int) -> None:
        """Note the room's number at its arrival: it must get everything later."""
        span = self.spans[-1]
        if span.promised is None:
            span.promised = seq

    def hear(self, event: Event) -> None:
        """Note an event that it got."""
        span = self.spans[-1]
        span.epoch.see(event)
        if event.seq <= span.last:
            self.faults.duplicated += 1
            self.faults.note(f"{self.name} was told {event.seq} of {span.epoch.name} again")
            return
        span.seen.extend(bytes(event.seq - span.start - len(span.seen)))
        span.seen[-1] = 1
        span.last = event.seq

    def catch_up(self) -> None:
        """Count from now on as lost all events of the last epoch that it lacks."""
        if self.spans:
            span = self.spans[-1]
            span.last = max(span.last, span.epoch.last)

    @property
    def behind(self) -> int:
        """Return how many events of its last epoch it lacks that others have."""
        if not self.spans:
            return 0
        span = self.spans[-1]
        return sum(1 for _ in span.epoch.due(self.langs, span.last, span.epoch.last))

    def check(self) -> None:
        """Count the events that it lacks. Call it once, at the end."""
        for span in self.spans:
            if span.promised is None:
                continue
            for seq in span.epoch.due(self.langs, span.promised, span.last):
                at = seq - span.start - 1
                if not 0 <= at < len(span.seen) or not span.seen[at]:
                    self.faults.lost += 1
                    self.faults.note(f"{self.name} was not told {seq} of {span.epoch.name}")


def unended(langs: Collection[str], witness: Reader) -> list[tuple[str, str]]:
    """Return (id, language) of unended captions, of all that the witness must get of its last
    epoch.

    An utterance from before its arrival may have ended while no witness was there.
    """
    assert witness.langs >= set(langs), "a witness reads all that it is to witness"
    if not witness.spans or witness.spans[-1].promised is None:
        return []
    return list(witness.spans[-1].epoch.unended(langs, witness.spans[-1].promised))


def conclude(langs: Collection[str], witness: Reader, readers: Collection[Reader]) -> None:
    """Check the whole meeting: captions without an end in its last epoch, and readers' losses."""
    for id, lang in unended(langs, witness):
        witness.faults.unended += 1
        witness.faults.note(f"{witness.spans[-1].epoch.name}: {id} in {lang} never ended")
    for reader in readers:
        reader.check()
