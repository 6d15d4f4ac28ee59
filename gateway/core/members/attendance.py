"""The members of a room that are present or away, and their utterances in flight.

Owns: who is away, and until when their work goes on. Must not know: outboxes, captions, the log.

A member whose socket was lost is *away* for `Limits.grace_s`: nothing is sent to it, and its
utterances go on. Bound: only members with utterances in flight are away.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.core.members.member import Member
from gateway.core.utterances.collection import Utterances
from gateway.core.utterances.utterance import Utterance


class Attendance:
    """The present and the absent members of one room.

    :param present: members with a socket, by id; `gateway.core.members.subscribers` keeps it
    :param utterances: the utterances of the room, to find those in flight
    """

    def __init__(self, present: Mapping[str, Member], utterances: Utterances) -> None:
        self.present = present
        self.away: dict[str, Member] = {}
        self._deadlines: dict[str, float] = {}
        self._utterances = utterances

    @property
    def everybody(self) -> tuple[Member, ...]:
        """Members that are present or may come back."""
        return (*self.present.values(), *self.away.values())

    @property
    def deadline(self) -> float | None:
        """Time at which the next period of grace ends; None if nobody is away."""
        return min(self._deadlines.values(), default=None)

    def find(self, id: str) -> Member | None:
        """Return the member of this id, present or away."""
        return self.present.get(id) or self.away.get(id)

    def wait_for(self, member: Member, until: float) -> None:
        """Keep the work of an absent member going until a time in seconds."""
        self.away[member.id] = member
        self._deadlines[member.id] = until

    def release(self, id: str) -> Member | None:
        """Stop waiting for a member, which is returned if it was away."""
        self._deadlines.pop(id, None)
        return self.away.pop(id, None)

    def expire(self, now: float) -> list[Member]:
        """Stop waiting for the members whose period of grace is over, and return them."""
        # Collected first, because the work of these members is cancelled after the call.
        late = [id for id, until in self._deadlines.items() if until <= now]
        for id in late:
            del self._deadlines[id]
        return [self.away.pop(id) for id in late]

    def clear(self) -> None:
        """Stop waiting for anybody."""
        self.away.clear()
        self._deadlines.clear()

    def unfinished(self, member: Member | None = None) -> list[Utterance]:
        """Return the utterances in flight of one member, or of all, in order of their begin."""
        members = self.everybody if member is None else (member,)
        ids = (id for each in members for id in each.in_flight.utterances)
        unfinished = [self._utterances.by_id[id] for id in ids]
        return sorted(unfinished, key=lambda utterance: utterance.ord)
