"""How a gateway ends: rooms are let go as they settle, and their sockets after them.

Owns: which rooms have settled, and until when is waited for the others. Must not know: engines,
signals, who asked for the end. What may still be said meanwhile is decided by the sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from gateway.core.room import Room
from gateway.core.session import Session
from gateway.errors import CloseCode
from gateway.protocol.messages import PRIVATE, Goaway
from gateway.storage.base import Store

OVERLAP_S = 1.0
"""Seconds after ``goaway`` in which sockets stay at least, for clients to open the next one."""
TURN_S = 0.05
"""Seconds between looks for rooms that have settled."""
FAREWELL_S = 0.3
"""Seconds that clients have to take their last frames: what they miss they get when they resume."""
STOPPING = "The server is about to stop; open the next socket now."


class Drain:
    """The end of a gateway with these rooms and sessions, which go on changing until then.

    :param act: carries out what the dispatcher decided
    """

    def __init__(
        self,
        rooms: Mapping[str, Room],
        sessions: Mapping[str, Session],
        store: Store | None,
        act: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self._rooms = rooms
        self._sessions = sessions
        self._store = store
        self._act = act
        self._now = now
        self._hurried = False

    def hurry(self) -> None:
        """Cut it short: somebody asked twice."""
        self._hurried = True

    async def run(self, seconds: float) -> None:
        """Let what is in flight end within ``seconds``, end the rest visibly, close every socket.

        Each room is let go as soon as nothing is under way in it, so that the next process can go
        on with it; its sockets stay for `OVERLAP_S`, in which clients open the next one.
        """
        begun = self._now()
        goaway = Goaway(in_ms=round(seconds * 1000), why=STOPPING)
        for session in list(self._sessions.values()):
            session.outbox.send(goaway, begun)
            session.drain()
        for room in self._rooms.values():
            for speaker in list(room.away.values()):  # who cannot go on speaking here
                room.hush(speaker, begun)
        settled = await self._settle(begun + min(OVERLAP_S, seconds), begun + seconds)
        busy = self._rooms.keys() - settled
        for name in busy:
            self._rooms[name].stop(self._now())
        self._act()
        self._let_go(busy)
        self._dismiss(set(self._rooms))
        await self._patience(lambda: not self._sessions, self._now() + FAREWELL_S)

    async def _settle(self, overlap: float, until: float) -> set[str]:
        """Let go of rooms as they settle, and of their sockets from ``overlap`` on; those rooms."""
        settled: set[str] = set()
        last = until

        def over() -> bool:
            nonlocal last
            now = self._now()
            new = {name for name, room in self._rooms.items() if room.settled} - settled
            self._let_go(new)
            settled.update(new)
            # A private room ends with its process: there is no next socket to wait for.
            due = {name for name in settled if now >= overlap or name.startswith(PRIVATE)}
            if self._dismiss(due):
                last = min(until, now + FAREWELL_S)
            busy = self._rooms.keys() - settled
            ended = not busy and (not self._sessions or (now >= overlap and now >= last))
            return ended or self._hurried

        await self._patience(over, until)
        return settled

    def _let_go(self, names: Collection[str]) -> None:
        """Nothing more is decided in these rooms here: another process may claim them."""
        for session in self._sessions.values():
            if session.room.name in names:
                session.dismiss()
        if self._store is not None:
            for name in names:
                self._store.release(name)

    def _dismiss(self, names: Collection[str]) -> bool:
        """Close the sockets of these rooms, once they have been sent all; whether any was open."""
        found = [s for s in self._sessions.values() if s.room.name in names]
        open = [session for session in found if session.outbox.closing is None]
        for session in open:
            session.outbox.close(CloseCode.GOAWAY, STOPPING)
        return bool(open)

    async def _patience(self, done: Callable[[], bool], until: float) -> None:
        """Wait for something, but no longer than that.

        It is looked for: it may come about by any frame, job or timer, and a drain is short.
        """
        while not done() and self._now() < until:  # noqa: ASYNC110  # no event tells it
            await asyncio.sleep(min(TURN_S, until - self._now()))
