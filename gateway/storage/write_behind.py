"""What of the rooms' logs a store has not written yet.

Owns: which rooms are followed, how far each log has been written, and which are to be deleted. Must
not know: files, rows, when anything is written, or how it went wrong.

There is no queue: the logs themselves hold what waits. What is kept here is a number of each.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from gateway.core.event_log import EventLog, LogEntry
from gateway.limits import Limits
from gateway.protocol.messages import Retracted
from gateway.protocol.messages import Settings as Changed
from gateway.storage.base import History


class FollowPhase(enum.Enum):
    """What is to come of a followed room."""

    LIVES = "lives"
    RELEASED = "released"
    ENDED = "ended"


@dataclass(slots=True, eq=False)
class FollowedRoom:
    """A room whose log is followed. ``began``: seconds since 1970; ``written``: the newest event
    that is in the file, or never will be; ``first``: the oldest that may be; ``stored``: the room
    itself is."""

    id: int
    began: float
    history: History
    written: int = 0
    first: int = 1
    stored: bool = False
    phase: FollowPhase = FollowPhase.LIVES
    log: EventLog = field(init=False)
    settings: Changed | None = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.history.log
        self.settings = self.history.settings

    @property
    def behind(self) -> int:
        """Events that are not written yet."""
        return self.log.seq - self.written


@dataclass(frozen=True, slots=True)
class RoomWrite:
    """What one transaction does for a room. The log begins after ``oldest``, ``entries`` end with
    ``until``; ``last``: with them the room is left."""

    room: FollowedRoom
    entries: Sequence[LogEntry]
    settings: Changed | None
    oldest: int
    until: int
    last: bool

    @property
    def retracted(self) -> list[int]:
        """Positions of the utterances that were taken back."""
        return [entry.event.ord for entry in self.entries if isinstance(entry.event, Retracted)]


class WriteBehind:
    """The rooms of one process, and what of each is left to write.

    :param limits: ``rooms`` bounds those that were left and wait for the disk, too
    :param keep: whether a room that has ended is kept; else it is deleted
    :param drop: told how many events were given up at once, for whoever has to say so
    """

    def __init__(self, limits: Limits, *, keep: bool, drop: Callable[[int], None]) -> None:
        self.lost = 0
        """Events that left a log, or the process, before they could be written."""
        self.doomed: set[int] = set()
        """Ids of the rooms that are to be deleted."""
        self._limits = limits
        self._keep = keep
        self._drop = drop
        self._rooms: dict[str, FollowedRoom] = {}
        self._leaving: list[FollowedRoom] = []

    @property
    def living(self) -> Mapping[str, FollowedRoom]:
        """The rooms that live in this process, by name."""
        return self._rooms

    @property
    def rooms(self) -> Sequence[FollowedRoom]:
        """All that are followed, those that were left among them."""
        return (*self._rooms.values(), *self._leaving)

    @property
    def behind(self) -> int:
        """Events that are not written yet."""
        return sum(room.behind for room in self.rooms)

    def follow(self, room: FollowedRoom) -> FollowedRoom:
        """Follow a room, unless one of its name lives already: that one then."""
        return self._rooms.setdefault(room.history.name, room)

    def find(self, name: str) -> FollowedRoom | None:
        """The newest room of a name: the one that lives, else the last that was left."""
        if name in self._rooms:
            return self._rooms[name]
        return next((one for one in reversed(self._leaving) if one.history.name == name), None)

    def release(self, name: str) -> None:
        """Nothing more is appended. What there is will be written, and the room left then."""
        room = self._rooms.pop(name, None)
        if room is not None:
            self._leave(room, FollowPhase.RELEASED)

    def end(self, name: str) -> None:
        """The room has ended: it is written to its end, or deleted."""
        room = self._rooms.pop(name, None)
        if room is not None and self._keep:
            self._leave(room, FollowPhase.ENDED)
        elif room is not None:
            self.doomed.add(room.id)

    def forget(self, name: str) -> bool:
        """Delete all rooms of a name, and follow them no more; whether there were any."""
        rooms = [room for room in self.rooms if room.history.name == name]
        self._rooms.pop(name, None)
        self._leaving = [room for room in self._leaving if room not in rooms]
        self.doomed |= {room.id for room in rooms}  # until they are gone
        return bool(rooms)

    def gather(self, most: int) -> list[RoomWrite]:
        """What is to be written, of all rooms together at most so many events; those that were
        left come first. What a log has dropped meanwhile is lost."""
        writes = []
        for room in (*self._leaving, *self._rooms.values()):
            log = room.log
            if log.seq == room.written and room.phase is FollowPhase.LIVES:
                continue
            oldest = log.seq - len(log)
            if oldest > room.written:
                self._lose(oldest - room.written)
                room.written = oldest
            if most:
                entries = log.entries(room.written)[:most]
                most -= len(entries)
                until = room.written + len(entries)
                last = room.phase is not FollowPhase.LIVES and until == log.seq
                settings = room.settings
                for entry in entries:
                    if isinstance(entry.event, Changed):
                        settings = folded(settings, entry.event)
                writes.append(RoomWrite(room, entries, settings, oldest, until, last))
        return writes

    def wrote(self, writes: Collection[RoomWrite], deleted: Collection[int]) -> None:
        """These are in the file, and those rooms no longer."""
        for one in writes:
            one.room.stored = True
            one.room.written = one.until
            one.room.settings = one.settings
            one.room.first = max(one.room.first, one.oldest + 1)
            if one.last:
                self.unfollow(one.room)
        self.doomed.difference_update(deleted)

    def unfollow(self, room: FollowedRoom) -> None:
        """Have no more to do with a room: it is written to its end, or another process's."""
        if self._rooms.get(room.history.name) is room:
            del self._rooms[room.history.name]
        self._leaving = [other for other in self._leaving if other is not room]

    def abandon(self) -> None:
        """Nothing more will be written: what is left is lost. It is not told: whoever abandons it
        knows."""
        self.lost += self.behind
        self._rooms.clear()
        self._leaving.clear()

    def _leave(self, room: FollowedRoom, phase: FollowPhase) -> None:
        room.phase = phase
        self._leaving.append(room)
        if len(self._leaving) > self._limits.rooms:  # the disk has been failing for long
            self._lose(self._leaving.pop(0).behind)

    def _lose(self, events: int) -> None:
        self.lost += events
        if events:
            self._drop(events)


_PERSONAL = frozenset(("from_", "speaker", "session", "ref"))
"""Fields of ``settings`` that are about one speaker, not about the room."""


def folded(settings: Changed | None, event: Changed) -> Changed:
    """What the room's settings are after an event."""
    before = {} if settings is None else msgspec.structs.asdict(settings)
    after = msgspec.structs.asdict(event).items()
    return Changed(
        **before | {k: v for k, v in after if v is not None and k not in _PERSONAL},
    )
