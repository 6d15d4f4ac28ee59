"""The members of a room that are present or away, and their utterances in flight.

Owns: who is away, and until when their work goes on; when ``presence`` is announced. Must not know:
outboxes, captions, the log.

A member whose socket was lost is *away* for `Limits.grace_s`: nothing is sent to it, and its
utterances go on. Bound: only members with utterances in flight are away.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

import msgspec

from gateway.core.members.member import Member
from gateway.core.members.subscribers import Subscribers
from gateway.core.scheduling.timer import RoomTimer
from gateway.core.utterances.collection import Utterances
from gateway.core.utterances.utterance import Utterance
from gateway.protocol.codec import Envelope


class Attendance(msgspec.Struct, eq=False):
    """The present (with a socket) and the absent members of one room."""

    present: Mapping[str, Member]
    utterances: Utterances
    away: dict[str, Member] = {}

    @property
    def everybody(self) -> tuple[Member, ...]:
        """Members that are present or may come back."""
        return (*self.present.values(), *self.away.values())

    @property
    def deadline(self) -> float | None:
        """Time at which the next period of grace ends; None if nobody is away."""
        return min((member.away_until for member in self.away.values()), default=None)

    def find(self, id: str) -> Member | None:
        """Return the member of this id, present or away."""
        return self.present.get(id) or self.away.get(id)

    def wait_for(self, member: Member, until: float) -> None:
        """Keep the work of an absent member going until a time in seconds."""
        self.away[member.id] = member
        member.away_until = until

    def release(self, id: str) -> Member | None:
        """Stop waiting for a member, which is returned if it was away."""
        return self.away.pop(id, None)

    def expire(self, now: float) -> list[Member]:
        """Stop waiting for the members whose period of grace is over, and return them."""
        # Collected first, because the work of these members is cancelled after the call.
        late = [id for id, member in self.away.items() if member.away_until <= now]
        return [self.away.pop(id) for id in late]

    def unfinished(self, member: Member | None = None) -> list[Utterance]:
        """Return the utterances in flight of one member, or of all, in order of their begin."""
        members = self.everybody if member is None else (member,)
        ids = (id for each in members for id in each.in_flight.utterances)
        return sorted((self.utterances.by_id[id] for id in ids), key=attrgetter("ord"))


class PresenceAnnouncer(msgspec.Struct, eq=False):
    """The announcements of one room, ``delay`` seconds after the first of several changes."""

    subscribers: Subscribers
    timer: RoomTimer
    delay: float
    _announced: bool = False
    _due: float | None = None

    def changed(self, now: float) -> None:
        """Announce later who is there."""
        # A member that is alone need not be told so, unless it was told of others.
        together = len(self.subscribers.members) > 1
        if together or self._announced:
            self._announced = together
            if self._due is None:
                self._due = now + self.delay
                self.timer.at(self._due)

    def on_timer(self, now: float) -> None:
        """Send the announcement that is due."""
        if self._due is not None and self._due <= now:
            self._due = None
            self.subscribers.tell(Envelope(self.subscribers.presence()), None, now)
        elif self._due is not None:
            self.timer.at(self._due)
