"""The events that a member missed, sent from the room's log as its socket takes them.

Owns: how much of the log waits for a member at once, and when the next page follows. Must not know:
frames, what else a member does, which events it is sent (`gateway.core.room.abstract_room`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import asdict

from gateway.core.history.event_log import StreamPosition
from gateway.core.members.member import CatchUp, Member
from gateway.core.room.abstract_room import AbstractRoom
from gateway.errors import ClientFault, CloseCode, ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import PRIVATE, Resumed, Sync, Synced

PAGE = 500
"""Events of a log that are searched at once for one member."""
PAGE_BYTES = 65_536
"""Bytes that wait for a member while it catches up: enough to keep any connection busy."""

Defer = Callable[["LogReader"], None]
"""Called with a reader whose `LogReader.advance` is to be called soon, but not at once."""


class LogReader(msgspec.Struct, eq=False):
    """The reading of a room's log for one member, which is behind while it has a `CatchUp`."""

    member: Member
    room: AbstractRoom
    limits: Limits
    defer: Defer

    def start(
        self, langs: Sequence[str], since: StreamPosition | None
    ) -> tuple[int, Resumed | None, list[Envelope]]:
        """Choose where to begin in the log. Returns the number of the last event before that, an
        answer if ``since`` was asked for, and events to send at once.
        """
        log, view = self.room.log, self.room.log_view
        # If the log reaches back it is sent from there; else the newest events have to do.
        if since is not None and log.reaches(*since):
            # From here on the member is sent durable events from the log alone, in order.
            self.member.catch_up = CatchUp(since.seq)
            replayed = view.count(langs, since.seq)
            return since.seq, Resumed(ok=True, replayed=replayed), []
        recent = self._recent(langs)
        first = getattr(recent[0].message, "seq", 1) - 1 if recent else log.seq
        if since is None:
            return first, None, recent
        # The transcript of a private room is nobody else's to read.
        private = self.room.name.startswith(PRIVATE)
        path = None if private else f"/v1/rooms/{self.room.name}/transcript.json"
        lost = Resumed(ok=False, replayed=len(recent), from_=log.oldest, transcript=path)
        return first, lost, recent

    def sync(self, sync: Sync, now: float) -> float:
        """Send again the events after a position; return the pages of the log that this takes.
        Raises `ClientFault` (``busy``) during an earlier replay.
        """
        member, outbox, log = self.member, self.member.outbox, self.room.log
        if member.catch_up is not None:
            raise ClientFault(
                ErrorCode.BUSY, "This socket is still being told what it missed before."
            )
        seq, resumed, recent = self.start(member.langs, StreamPosition(sync.epoch, sync.seq))
        assert resumed is not None, "a position was asked for"
        synced = Synced(epoch=log.epoch, seq=seq, ref=sync.ref, **asdict(resumed))
        outbox.send(synced, now)
        for envelope in recent:
            outbox.push(envelope, now)
        pages = (log.seq - seq) / PAGE if resumed.ok else 0.0
        # The client begins anew with these events, and `advance` shows it the captions in flight.
        if not resumed.ok:
            member.catch_up = CatchUp(log.seq)
        self.advance(now)
        return pages

    def advance(self, now: float) -> None:
        """Queue as many missed events as may wait; the next call follows when they were taken.
        After the last of them, captions in flight are shown, and the member is up to date.
        """
        member = self.member
        catch_up, outbox = member.catch_up, member.outbox
        if catch_up is None or outbox.closing is not None:
            return
        catch_up.due = True  # the outbox may run empty meanwhile, and must not ask for a page
        outbox.refill = self._ask
        # A page at a time, because a log of two hours must not stop all other sockets.
        missed = self.room.log_view.missed(member.langs, catch_up.cursor, PAGE)
        # The log may drop events while a slow reader catches up; a gap must not go unnoticed.
        if missed is None:
            outbox.discard()
            outbox.close(
                CloseCode.TOO_SLOW, "The room has forgotten what this socket has not read yet."
            )
            return
        for seq, envelopes in missed:
            # New events for this member need room beside the old ones.
            if outbox.bytes >= min(PAGE_BYTES, self.limits.outbox_bytes // 4):
                break
            catch_up.cursor = seq
            self._send(envelopes, catch_up.owed.pop(seq, None), now)
        catch_up.due = False
        if catch_up.cursor == self.room.log.seq:
            self._end(now)
        elif not len(outbox):  # the socket took all at once, so no refill will be reported
            self._ask()

    def _recent(self, langs: Sequence[str]) -> list[Envelope]:
        """Return the newest events, as many as the outbox has room for at once."""
        most = self.limits.backfill if langs else 0
        fits = self.member.outbox.fits
        while most and not fits(recent := self.room.log_view.recent(langs, most)):
            most //= 2
        return recent if most else []

    def _send(self, envelopes: list[Envelope], answer: Envelope | None, now: float) -> None:
        """Send one event of the log under each of its tags, as it was sent when it was new."""
        lang = None if answer is None else getattr(answer.message, "lang", None)
        for envelope in envelopes:
            if answer is None or getattr(envelope.message, "lang", None) != lang:
                self.member.send(envelope, now)
        if answer is not None:
            self.member.send(answer, now)

    def _end(self, now: float) -> None:
        member = self.member
        member.catch_up = None
        member.outbox.refill = None
        growing = self.room.in_flight(member.langs, member.view)
        # If they do not fit, the ends of these captions alone bring the text.
        if member.outbox.fits(growing):
            for envelope in growing:
                member.outbox.push(envelope, now)
        member.ended(now)

    def _ask(self) -> None:
        """Ask for a call of `advance`, unless one is due already."""
        catch_up = self.member.catch_up
        if catch_up is not None and not catch_up.due:
            catch_up.due = True
            self.defer(self)
