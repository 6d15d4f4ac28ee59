"""Write-behind state of a store: the events of rooms that are not written yet.

Owns: the rooms that are followed, the written part of each log, and the rooms to delete. Must not
know: files, rows, the time of writing, faults of the disk.

There is no queue: the logs themselves have the events that wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gateway.core.history.event_log import EventLog, LogEntry
from gateway.limits import Limits
from gateway.protocol.messages import Retracted
from gateway.protocol.messages import Settings as Changed


@dataclass(slots=True, eq=False)
class FollowedRoom:
    """A room whose log is written behind."""

    id: int
    began: float  # seconds since 1970
    name: str
    log: EventLog
    written: int = 0  # number of the newest event that is in the file, or that is lost
    stored: bool = False  # the row of the room is in the file
    left: bool = False  # no events come any more: it is unfollowed when all are written
    ended: bool = False  # it is kept as ended then; else another process may claim it
    settings: Changed | None = None  # sum of the `settings` events that are in the file

    @property
    def behind(self) -> int:
        """Number of events that are not written yet."""
        return self.log.seq - self.written


@dataclass(frozen=True, slots=True)
class RoomWrite:
    """The part of a transaction that concerns one room."""

    room: FollowedRoom
    entries: Sequence[LogEntry]
    settings: Changed | None  # of the room after ``entries``
    oldest: int  # number of the event before the first one in the log
    until: int  # number of the last of ``entries``
    last: bool  # the room is no longer followed afterwards

    @property
    def erased(self) -> list[LogEntry]:
        """Entries whose text was erased, because ``entries`` retract their utterances."""
        events = (entry.event for entry in self.entries)
        ords = {event.ord for event in events if isinstance(event, Retracted)}
        return self.room.log.texts_of(ords) if ords else []


class WriteBehind:
    """The rooms of one process, and the events of each that are still to be written.

    `Limits.rooms` also bounds the rooms that were released and wait for the disk. ``drop`` is
    called with the number of events whenever some are lost.
    """

    def __init__(self, limits: Limits, *, keep: bool, drop: Callable[[int], None]) -> None:
        self.lost = 0  # number of events that were lost before they were written
        self.doomed: set[int] = set()  # ids of the rooms to delete
        self._limits = limits
        self._keep = keep
        self._drop = drop
        self._rooms: dict[str, FollowedRoom] = {}
        self._leaving: list[FollowedRoom] = []

    @property
    def living(self) -> Mapping[str, FollowedRoom]:
        """Open rooms of this process, by name."""
        return self._rooms

    @property
    def rooms(self) -> Sequence[FollowedRoom]:
        """All followed rooms: released and ended ones, then open ones."""
        return (*self._leaving, *self._rooms.values())

    @property
    def behind(self) -> int:
        """Number of events that are not written yet."""
        return sum(room.behind for room in self.rooms)

    def follow(self, room: FollowedRoom) -> FollowedRoom:
        """Follow a room and return it, or return the open room of the same name."""
        return self._rooms.setdefault(room.name, room)

    def find(self, name: str) -> FollowedRoom | None:
        """Return the open room of a name, else the one that was released last, or None."""
        return next((room for room in reversed(self.rooms) if room.name == name), None)

    def release(self, name: str) -> None:
        """Release a room. It is followed until its log is written."""
        room = self._rooms.pop(name, None)
        if room is not None:
            self._leave(room)

    def end(self, name: str) -> None:
        """End a room. It is followed until its log is written, or deleted if none are kept."""
        room = self._rooms.pop(name, None)
        if room is not None and self._keep:
            room.ended = True
            self._leave(room)
        elif room is not None:
            # Its events need not be written at all.
            self.doomed.add(room.id)

    def forget(self, name: str) -> bool:
        """Mark all rooms of a name for deletion, and return whether there were any."""
        rooms = [room for room in self.rooms if room.name == name]
        for room in rooms:
            self.unfollow(room)
            self.doomed.add(room.id)  # until `wrote` reports its deletion
        return bool(rooms)

    def gather(self, most: int) -> list[RoomWrite]:
        """Return the next events to write, at most ``most`` of all rooms together."""
        writes = []
        # Another process may wait for the rooms that come first.
        for room in self.rooms:
            log = room.log
            if log.seq == room.written and not room.left:
                continue
            oldest = log.seq - len(log)
            # The log has dropped events before they were written, so they are lost.
            if oldest > room.written:
                self._lose(oldest - room.written)
                room.written = oldest
            # Even without room for its events a log is checked above, so that losses are reported.
            if most:
                entries = log.entries(room.written)[:most]
                most -= len(entries)
                until = room.written + len(entries)
                last = room.left and until == log.seq
                settings = room.settings
                for entry in entries:
                    if isinstance(entry.event, Changed):
                        settings = folded(settings, entry.event)
                writes.append(RoomWrite(room, entries, settings, oldest, until, last))
        return writes

    def wrote(self, writes: Collection[RoomWrite], deleted: Collection[int]) -> None:
        """Note that ``writes`` are in the file, and that rooms are deleted from it."""
        for write in writes:
            write.room.stored = True
            write.room.written = write.until
            write.room.settings = write.settings
            if write.last:
                self.unfollow(write.room)
        self.doomed.difference_update(deleted)

    def unfollow(self, room: FollowedRoom) -> None:
        """Stop following a room: it is written completely, or belongs to another process."""
        if self._rooms.get(room.name) is room:
            del self._rooms[room.name]
        self._leaving = [other for other in self._leaving if other is not room]

    def abandon(self) -> None:
        """Stop following all rooms. Events that are not written are lost, without ``drop``."""
        self.lost += self.behind
        self._rooms.clear()
        self._leaving.clear()

    def _leave(self, room: FollowedRoom) -> None:
        """Follow a room that is no longer open until it is written."""
        room.left = True
        self._leaving.append(room)
        # This happens only if the disk has failed for a long time. The memory must stay bounded.
        if len(self._leaving) > self._limits.rooms:
            self._lose(self._leaving.pop(0).behind)

    def _lose(self, events: int) -> None:
        self.lost += events
        if events:
            self._drop(events)


_PERSONAL = frozenset(("from_", "speaker", "session", "ref"))
"""Fields of ``settings`` that are about one speaker, not about the room."""


def folded(settings: Changed | None, event: Changed) -> Changed:
    """Return the settings of a room after an event."""
    before = {} if settings is None else msgspec.structs.asdict(settings)
    after = msgspec.structs.asdict(event).items()
    return Changed(**before | {k: v for k, v in after if v is not None and k not in _PERSONAL})
