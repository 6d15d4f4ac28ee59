"""A member of a room, as the room sees it.

Owns: what a member may do and reads, what it has in flight, and the events it is sent. Must not
know: rooms, frames, sockets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from gateway.auth.permissions import Role
from gateway.core.base.validation import AUTO
from gateway.core.delivery.outbox import Outbox
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import Cancelled, Failed, Final, View

OWED = 64
"""Answers that are kept for a member that is behind; later ones come without their ``ref``."""


class MemberListener(Protocol):
    """The one listener of a member: its session."""

    def charge(self, now: float) -> None:
        """Count a new utterance of the member. Raises `ClientFault` (``busy``) over its quota."""

    def ended(self, now: float) -> None:
        """Note that an utterance of the member has ended, or that it has caught up."""


class CatchUp(msgspec.Struct, eq=False):
    """The progress of a member that is sent events it missed."""

    cursor: int
    """Number of the last durable event that it was sent, or that did not concern it."""
    due: bool = False
    """The next events are about to be sent already."""
    owed: dict[int, Envelope] = {}
    """Events that answer requests of its own, by number, as it is to see them."""


class InFlight(msgspec.Struct, eq=False):
    """The work in flight of one session, whichever of its sockets has begun it."""

    utterances: set[str] = set()
    """Ids of utterances that have not ended."""
    pending: int = 0
    """Requests without an answer that name none of `utterances`. They count like utterances, since
    each of them may begin one."""

    def __len__(self) -> int:
        return len(self.utterances) + self.pending

    def clear(self) -> None:
        """End everything. An account that counts this object counts nothing more."""
        self.utterances.clear()
        self.pending = 0


@dataclass(slots=True, eq=False)
class Member:
    """A participant of a room: a speaker, a reader or both. Its listener is told what becomes of
    its utterances, until it is set to None.
    """

    id: str
    role: Role
    outbox: Outbox
    listener: MemberListener | None = None
    speaker: str | None = None
    spoken: str = AUTO
    """Tags of the languages that it says it speaks, with commas; or `AUTO`."""
    langs: tuple[str, ...] = ()
    welcomed: bool = False
    """True if it was sent what had been said before it came."""
    view: View = "live"
    in_flight: InFlight = field(default_factory=InFlight)
    away_until: float = 0.0
    """End of its period of grace, in seconds, while it is away."""
    finals: int = 0
    failed: int = 0
    cancelled: int = 0
    _catch_up: CatchUp | None = None

    @property
    def catch_up(self) -> CatchUp | None:
        """Progress while it is behind; None if it is sent events as they happen. A member that is
        behind is sent durable events from the log, in order, and no deltas.
        """
        return self._catch_up

    @catch_up.setter
    def catch_up(self, catch_up: CatchUp | None) -> None:
        self._catch_up = catch_up
        self.outbox.hold(catch_up is not None)

    def hear(self, envelope: Envelope, now: float) -> None:
        """Send an event of the room, unless it will come from the log."""
        # The log has every durable event, and an event must not arrive twice or out of order.
        if self._catch_up is not None and getattr(envelope.message, "seq", None) is not None:
            return
        self.send(envelope, now)

    def answer(self, envelope: Envelope, now: float) -> None:
        """Send a durable event that answers this member, or keep it until the log comes to it."""
        if self._catch_up is None:
            self.send(envelope, now)
        # A member that is behind has it from the log, in order, with its `ref`.
        elif len(self._catch_up.owed) < OWED:
            seq = getattr(envelope.message, "seq", None)
            assert seq is not None, "an answer that is not in the log is sent at once"
            self._catch_up.owed[seq] = envelope

    def send(self, envelope: Envelope, now: float) -> None:
        """Count an event of the room, and queue it."""
        match envelope.message:
            case Final():
                self.finals += 1
            case Failed():
                self.failed += 1
            case Cancelled():
                self.cancelled += 1
        self.outbox.push(envelope, now)

    def charge(self, now: float) -> None:
        """Count a new utterance. Raises `ClientFault` (``busy``) over the quota."""
        if self.listener is not None:
            self.listener.charge(now)

    def ended(self, now: float) -> None:
        """Report that an utterance of this member has ended, or that it has caught up."""
        if self.listener is not None:
            self.listener.ended(now)


class Reply(NamedTuple):
    """The request of a member that an event answers. ``tag`` is the language as it was named."""

    member: Member
    ref: str | None
    tag: str | None = None
