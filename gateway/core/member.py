"""A socket as its room sees it.

Owns: what a member may do, what it reads, and what of it is in flight. Must not know: rooms.
"""

from __future__ import annotations

from gateway.auth.permissions import Role
from gateway.core.outbox import Outbox
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import Cancelled, Failed, Final, View

OWED = 64
"""Answers that are kept for somebody who is behind; later ones come without their ``ref``."""


class CatchUp:
    """How far a member has come that is told what it missed.

    ``cursor``  the number of the last durable event it was told, or had no part in
    ``due``     the next ones are about to be told: nobody has to ask
    ``owed``    events that answer a request of its own, by number, as it is to see them
    """

    __slots__ = ("cursor", "due", "owed")

    def __init__(self, cursor: int) -> None:
        self.cursor = cursor
        self.due = False
        self.owed: dict[int, Envelope] = {}


class Member:
    """Somebody in a room. `gateway.core.session.Session` is the only kind."""

    __slots__ = (
        "_backlog",
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
        self._backlog: CatchUp | None = None
        self.inflight: set[str] = set()
        self.finals = self.failed = self.cancelled = 0

    @property
    def backlog(self) -> CatchUp | None:
        """While it has one, it is told durable events out of the room's log, in order, and not as
        they are decided; and it is shown nothing that still changes."""
        return self._backlog

    @backlog.setter
    def backlog(self, backlog: CatchUp | None) -> None:
        self._backlog = backlog
        self.outbox.held = backlog is not None

    def hear(self, envelope: Envelope, now: float) -> None:
        """Take an event of the room."""
        if self.backlog is not None and getattr(envelope.message, "seq", None) is not None:
            return
        self.take(envelope, now)

    def answer(self, envelope: Envelope, now: float) -> None:
        """Take a durable event that answers this member."""
        if self.backlog is None:
            self.take(envelope, now)
        elif len(self.backlog.owed) < OWED:
            seq = getattr(envelope.message, "seq", None)
            assert seq is not None, "what is not in the log is answered at once"
            self.backlog.owed[seq] = envelope

    def take(self, envelope: Envelope, now: float) -> None:
        """Count an event of the room, and queue it."""
        match envelope.message:
            case Final():
                self.finals += 1
            case Failed():
                self.failed += 1
            case Cancelled():
                self.cancelled += 1
        self.outbox.push(envelope, now)

    def allow(self, now: float) -> None:
        """It begins something new. Raises `ClientFault` (``busy``) beyond its quota."""

    def ended(self, now: float) -> None:
        """An utterance of this member has ended."""
