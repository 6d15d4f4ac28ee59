"""A socket as its room sees it.

Owns: what a member may do, what it reads, and what of it is in flight. Must not know: rooms.
"""

from __future__ import annotations

import enum

from gateway.codec import Envelope
from gateway.messages import Cancelled, Failed, Final, View
from gateway.outbox import Outbox


class Role(enum.StrEnum):
    """What a socket may do. Each may also read."""

    VIEW = "view"
    SPEAK = "speak"
    MODERATE = "moderate"


class Member:
    """Somebody in a room. `gateway.session.Session` is the only kind."""

    __slots__ = (
        "cancelled",
        "failed",
        "finals",
        "id",
        "inflight",
        "langs",
        "outbox",
        "recalled",
        "role",
        "speaker",
        "view",
    )

    def __init__(self, id: str, role: Role, outbox: Outbox) -> None:
        self.id = id
        self.role = role
        self.outbox = outbox
        self.speaker: str | None = None
        self.langs: tuple[str, ...] = ()
        self.recalled = False
        """Whether it was shown what had been said before it came."""
        self.view: View = "live"
        self.inflight: set[str] = set()
        self.finals = self.failed = self.cancelled = 0

    def hear(self, envelope: Envelope, now: float) -> None:
        """Take a durable event of the room."""
        match envelope.message:
            case Final():
                self.finals += 1
            case Failed():
                self.failed += 1
            case Cancelled():
                self.cancelled += 1
        self.outbox.push(envelope, now)

    def ended(self, now: float) -> None:
        """An utterance of this member has ended."""
