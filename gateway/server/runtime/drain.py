"""Drain of a gateway: rooms are released as they settle, and then their sockets are closed.

Owns: which rooms have settled, and how long the others may take. Must not know: engines, signals,
who asked for the end. Sessions decide what clients may still send in the meantime.

Requests for a translation (`Room.temporary`) are served as ever, new ones too: a proxy sends them
until it has noticed, and a refusal would be the answer to the client behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from gateway.core.room.room import Room
from gateway.core.session.session import Session
from gateway.errors import CloseCode
from gateway.protocol.messages import PRIVATE
from gateway.protocol.notices import Goaway
from gateway.server.runtime.fleet import Fleet

OVERLAP_S = 2.0
"""Seconds that sockets stay open after ``goaway`` at least, for clients to open the next one. A
proxy sends them back here until its next check, 0.6 s with `deploy/haproxy`, and they wait longer
after each attempt."""
POLL_S = 0.05
"""Seconds between two checks for rooms that have settled."""
FAREWELL_S = 0.3
"""Seconds for clients to read their last frames. They get those that they miss when they resume."""
PROBED_S = 15.0
"""Seconds since the last request of ``/readyz`` within which something is taken to ask regularly.
Kubernetes asks every 10 s unless it is told otherwise."""
STOPPING = "The server is about to stop; open the next socket now."


class Drain:
    """The drain of one gateway."""

    def __init__(self, fleet: Fleet, sessions: Mapping[str, Session]) -> None:
        self._fleet = fleet
        self._sessions = sessions
        self._now = fleet.host.now
        self._hurried = False
        self.probed_at = float("-inf")
        """Time at which somebody last asked whether this gateway is ready. A proxy that asks
        regularly sends requests until it asks again."""

    def hurry(self) -> None:
        """Cut the drain short, after a second signal."""
        self._hurried = True

    async def run(self, seconds: float) -> None:
        """Let captions in flight end within ``seconds``, cancel the rest, close every socket."""
        begun = self._now()
        goaway = Goaway(in_ms=round(seconds * 1000), why=STOPPING)
        for session in list(self._sessions.values()):
            if not session.room.temporary:
                session.outbox.send(goaway, begun)
                session.drain()
        for room in self._own():
            # Speakers who are away cannot return to this process.
            for speaker in list(room.attendance.away.values()):
                room.finish_speaking(speaker, begun)
        # A room is released as soon as nothing is in flight in it, so that the next process can
        # continue it. Its sockets stay open for `OVERLAP_S`, so that clients can open the next one.
        overlap = begun + min(OVERLAP_S, seconds)
        least = overlap if begun - self.probed_at < PROBED_S else begun
        settled = await self._settle_rooms(overlap, begun + seconds, least)
        rooms = self._fleet.places
        busy = rooms.keys() - settled
        for room in self._own():
            if room.name in busy:
                room.stop(self._now())
        self._fleet.host.act()
        self._release(busy)
        self._close_sockets(set(rooms))
        await self._poll(lambda: not self._sessions, self._now() + FAREWELL_S)

    async def _settle_rooms(self, overlap: float, until: float, least: float) -> set[str]:
        """Release rooms as they settle, and return them; close sockets from ``overlap`` on.

        It takes until ``least``, even if there are no sockets.
        """
        settled: set[str] = set()
        last = until

        def ended() -> bool:
            nonlocal last
            now = self._now()
            rooms = self._fleet.places
            heard = {session.room.name for session in self._sessions.values() if session.hearing}
            # A request may have further texts, so its room ends with it.
            new = {n for n, room in rooms.items() if room.settled and not room.temporary}
            new -= settled | heard
            self._release(new)
            settled.update(new)
            # A private room ends with its process: there is no next socket to wait for.
            due = {name for name in settled if now >= overlap or name.startswith(PRIVATE)}
            if self._close_sockets(due):
                last = min(until, now + FAREWELL_S)
            busy = rooms.keys() - settled
            rest = max(overlap, last) if self._sessions else least
            done = not busy and now >= rest
            return done or self._hurried

        await self._poll(ended, until)
        return settled

    def _own(self) -> list[Room]:
        """Return the rooms that nobody continues before this process has ended."""
        return [room for room in self._fleet.places.values() if isinstance(room, Room)]

    def _release(self, names: Collection[str]) -> None:
        """Stop changing these rooms, so that another process may claim them."""
        for session in self._sessions.values():
            if session.room.name in names:
                session.dismiss()
        for name in names:
            self._fleet.release(name)

    def _close_sockets(self, names: Collection[str]) -> bool:
        """Close the sockets of these rooms after their last frame; return whether any was open."""
        sessions = [s for s in self._sessions.values() if s.room.name in names]
        open = [session for session in sessions if session.outbox.closing is None]
        for session in open:
            session.outbox.close(CloseCode.GOAWAY, STOPPING)
        return bool(open)

    async def _poll(self, done: Callable[[], bool], until: float) -> None:
        """Wait until ``done`` returns True, but not beyond ``until``."""
        # It polls, because any frame, job or timer may bring the condition about, and a drain is
        # short.
        while not done() and self._now() < until:  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(min(POLL_S, until - self._now()))
