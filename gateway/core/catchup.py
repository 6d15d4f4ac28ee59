"""A member that reads: where the room's log is told to it from, and what it missed.

Owns: how much of the log waits for it at once, and when there is room for more. Must not know:
frames, what else a member may do. What it is told is the business of `recall`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.auth.permissions import Role
from gateway.core.event_log import StreamPosition
from gateway.core.member import CatchUp, Member
from gateway.core.outbox import Outbox
from gateway.core.room import Room
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import PRIVATE, Resumed

PAGE = 500
"""Events of a log that are looked through at once for somebody who missed them."""
PAGE_BYTES = 65_536
"""Bytes that wait for him at most while he is told: enough to keep any connection busy."""


class Reader(Member):
    """A member of one room. It is behind for as long as it has a `CatchUp`.

    :param defer: called with it when `catch_up` is to be called, soon but not at once
    """

    __slots__ = ("_defer", "_limits", "room")

    def __init__(
        self,
        id: str,
        role: Role,
        outbox: Outbox,
        *,
        room: Room,
        limits: Limits,
        defer: Callable[[Reader], None],
    ) -> None:
        super().__init__(id, role, outbox)
        self.room = room
        self._limits = limits
        self._defer = defer

    def begin(
        self, langs: Sequence[str], since: StreamPosition | None
    ) -> tuple[int, Resumed | None, list[Envelope]]:
        """Where the log is told from: the number before that, whether it is what was asked for, and
        what is told at once.

        :param langs: those it reads, or is about to
        :param since: how far its client has come
        """
        log = self.room.log
        if since is not None and log.reaches(*since):
            self.backlog = CatchUp(since.seq)
            return since.seq, Resumed(ok=True, replayed=self.room.count(langs, since.seq)), []
        recalled = self._recalled(langs)
        first = getattr(recalled[0].message, "seq", 1) - 1 if recalled else log.seq
        if since is None:
            return first, None, recalled
        private = self.room.name.startswith(PRIVATE)
        path = None if private else f"/v1/rooms/{self.room.name}/transcript.json"
        lost = Resumed(ok=False, replayed=len(recalled), from_=log.oldest, transcript=path)
        return first, lost, recalled

    def _recalled(self, langs: Sequence[str]) -> list[Envelope]:
        """What was said before this socket came, as far back as it can take at once."""
        most = self._limits.backfill if langs else 0
        while most and not self.outbox.fits(recalled := self.room.recall(langs, most)):
            most //= 2
        return recalled if most else []

    def catch_up(self, now: float) -> None:
        """Tell what was missed: as much as may wait, and the rest when that has been taken.

        When all is told, what is in flight is shown; then life goes on.
        """
        backlog = self.backlog
        if backlog is None or self.outbox.closing is not None:
            return
        backlog.due = True  # what is taken meanwhile asks for nothing
        self.outbox.refill = self._ask
        missed = self.room.missed(self.langs, backlog.cursor, PAGE)
        if missed is None:
            self.outbox.discard()
            self.outbox.close(
                CloseCode.TOO_SLOW, "The room has forgotten what this socket has not read yet."
            )
            return
        for seq, envelopes in missed:
            if self.outbox.bytes >= min(PAGE_BYTES, self._limits.outbox_bytes // 4):
                break
            backlog.cursor = seq
            self._tell(envelopes, backlog.owed.pop(seq, None), now)
        backlog.due = False
        if backlog.cursor == self.room.log.seq:
            self._caught_up(now)
        elif not len(self.outbox):
            self._ask()

    def _tell(self, envelopes: list[Envelope], answer: Envelope | None, now: float) -> None:
        """Tell one event of the log, under each of its tags, as it was told when it was new."""
        lang = None if answer is None else getattr(answer.message, "lang", None)
        for envelope in envelopes:
            if answer is None or getattr(envelope.message, "lang", None) != lang:
                self.take(envelope, now)
        if answer is not None:
            self.take(answer, now)

    def _caught_up(self, now: float) -> None:
        self.backlog = None
        self.outbox.refill = None
        shots = self.room.in_flight(self)
        if self.outbox.fits(shots):  # else their ends alone tell the text
            for shot in shots:
                self.outbox.push(shot, now)
        self.ended(now)

    def _ask(self) -> None:
        """There is room for more of what was missed."""
        if self.backlog is not None and not self.backlog.due:
            self.backlog.due = True
            self._defer(self)
