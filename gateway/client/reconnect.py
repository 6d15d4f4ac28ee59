"""One connection to a gateway, over one socket after the other.

Owns: which socket is the newest, how far the room has come on it, when the next one is opened and
takes over, and the tasks of all that. Must not know: what is asked, nor what events mean.

A socket that breaks is replaced, and the next one goes on where it ended. Before a planned restart
the next one is opened while the old one still works: until that has ended, answers may come of it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import websockets
from websockets.asyncio.client import ClientConnection

from gateway.client.state.recovery import STABLE_S, Backoff, ResumePosition, goes_on
from gateway.client.transport import ConnectionLost, Refused, Route, Transport
from gateway.protocol.messages import (
    DURABLE,
    PRIVATE,
    ClientMessage,
    Goaway,
    ServerMessage,
    Welcome,
)

log = logging.getLogger("gateway.link")

LEAVE_S = 5.0
"""Seconds until the old socket is closed, after the next one has taken over."""


class Disconnected(msgspec.Struct, frozen=True):
    """There is no connection. ``wait``: seconds until the next attempt."""

    code: int
    reason: str
    wait: float


Notice = Callable[[Disconnected | Welcome], None]


class Conversation(Protocol):
    """What is said over a link."""

    async def take(self, event: ServerMessage, *, fresh: bool, replayed: bool) -> None:
        """An event of the newest socket; the next one comes when this has returned. ``fresh``: it
        did not come before; ``replayed``: it is of before this socket."""

    def late(self, event: ServerMessage) -> None:
        """An event of an earlier socket. The newest has it too, unless it is an answer."""

    def switch(self, whole: bool) -> None:
        """Another socket took over; ``whole``: no event was missed between the two."""

    def repeat(self) -> Iterable[tuple[ClientMessage, ...]]:
        """Requests that may be lost, to be sent again on another socket."""

    def over(self) -> None:
        """There will be no other socket."""


class ReconnectingConnection:
    """A connection that lasts, over sockets that do not. It begins with ``line``.

    :param resume: open another socket when this one breaks
    :param patience_s: seconds without a connection until that is given up; None: never
    :param notice: told when there is no connection, before every attempt, and of the ``welcome`` of
        every other socket
    """

    def __init__(
        self,
        route: Route,
        line: Transport,
        talk: Conversation,
        *,
        resume: bool,
        patience_s: float | None,
        notice: Notice,
    ) -> None:
        self.lost: ConnectionLost | None = None
        """How it ended, once there will be no other socket."""
        self.ready = True
        """Whether what was asked before this socket has been sent again."""
        self.going = False
        """Whether the gateway is about to stop: it takes nothing new."""
        self._route = route
        self._line = line
        self._talk = talk
        self._resume = resume
        self._patience_s = patience_s
        self._notice = notice
        self._token = line.welcome.resume
        self._position = ResumePosition(line.welcome)
        self._backoff = Backoff(random.random)
        self._attempts = 0  # to come back, however they ended
        self._since: float | None = None  # there has been no connection
        self._turn = asyncio.Lock()  # one socket's events at a time
        self._changed = asyncio.Event()
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._readers: set[asyncio.Task[None]] = set()  # those of them that end with their sockets
        self._dialling: asyncio.Task[None] | None = None
        self._stable: asyncio.TimerHandle | None = None
        self._readers.add(self.spawn(self._read(line)))

    @property
    def socket(self) -> ClientConnection:
        """The newest socket."""
        return self._line.socket

    @property
    def welcome(self) -> Welcome:
        """Of the newest socket."""
        return self._line.welcome

    async def send(self, *requests: ClientMessage) -> None:
        """Send frames on the newest socket. That it has ended is seen where it is read."""
        with suppress(websockets.ConnectionClosed):
            await self._line.send(*requests)

    async def change(self) -> None:
        """Wait until there may be something new of `ready`, `going` or `lost`."""
        self._changed.clear()
        await self._changed.wait()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that ends with the connection at the latest; a fault in it ends the connection."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def close(self) -> None:
        """Leave. What still comes is read, so that the close gets through."""
        self._closing = True
        if self._stable is not None:
            self._stable.cancel()
        line = self._line
        for task in self._tasks - self._readers:
            task.cancel()
        await line.socket.close()
        if self.lost is None and line.ended.is_set():
            self._end(line.loss())
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- one socket -------------------------------------------------------------------------------

    async def _read(self, line: Transport) -> None:
        """Take what comes of a socket, to its end."""
        try:
            async for frame in line.socket:
                event = line.decode(frame)
                if event is not None:
                    await self._take(line, event)
        except websockets.ConnectionClosed:
            pass  # the close code says all
        except msgspec.MsgspecError as exc:
            line.fault = ConnectionLost(
                1007, f"It sent what is no event: {exc}.", reconnect=self._resume
            )
            await line.socket.close(1007)
        finally:
            line.ended.set()
            if line is self._line:
                self._break(line.loss())

    async def _take(self, line: Transport, event: ServerMessage) -> None:
        async with self._turn:
            if line is not self._line:
                self._talk.late(event)
                return
            replayed = line.replay > 0 and isinstance(event, DURABLE)
            if isinstance(event, Goaway) and self._resume:
                self.going = True
                self._redial()
            fresh = self._position.fresh(event)
            await self._talk.take(event, fresh=fresh, replayed=replayed)
        if replayed:
            line.replay -= 1
            if not line.replay:
                self.spawn(self._repeat(line))

    async def _repeat(self, line: Transport) -> None:
        """Ask again on a new socket for what may have been lost with the one before."""
        try:
            for frames in self._talk.repeat():
                await line.send(*frames)
        except websockets.ConnectionClosed:
            return  # then on the next one
        if line is self._line:
            self.ready = True
            self._changed.set()

    # --- the next one -----------------------------------------------------------------------------

    def _break(self, lost: ConnectionLost) -> None:
        """The newest socket has ended."""
        self.ready = self.going = False
        if self._stable is not None:
            self._stable.cancel()
        now = asyncio.get_running_loop().time()
        if self._closing or not self._resume or not lost.reconnect:
            self._end(lost)
            return
        log.info("no connection: %s", lost)
        self._since = now
        if self._dialling is None:
            self._redial()
        else:
            self._notice(Disconnected(lost.code, lost.reason, 0.0))

    def _redial(self) -> None:
        if self._dialling is None:
            self._dialling = self.spawn(self._dial())

    async def _dial(self) -> None:
        """Open the next socket, however long it takes; the old one may still be at work."""
        try:
            while self.lost is None:
                wait = self._backoff.wait()
                if self._since is not None:
                    lost = self._line.loss()
                    if self._impatient(wait):
                        self._end(lost)
                        return
                    self._notice(Disconnected(lost.code, lost.reason, wait))
                await asyncio.sleep(wait)
                try:
                    line = await self._route.dial(self._where())
                except Refused as exc:
                    if exc.error.retry:
                        continue
                    if self._token is None:
                        self._turned_away(ConnectionLost(exc.code, str(exc), reconnect=False))
                        return
                    self._token = None  # it is good no more: come as somebody new
                except ConnectionLost as exc:
                    if not exc.reconnect:
                        self._turned_away(exc)
                        return
                except OSError as exc:
                    log.debug("no connection yet: %s", exc)
                else:
                    await self._switch(line)
                    return
        finally:
            self._dialling = None

    def _where(self) -> dict[str, str | None]:
        """What the query of the next socket says, beside that of the first."""
        room = None if self.welcome.room.startswith(PRIVATE) else self.welcome.room
        # One that was given up may be read by the gateway after a later one.
        self._attempts += 1
        more: dict[str, str | None] = {"room": room, "resume": self._token}
        more["attempt"] = str(self._attempts)
        if room is not None or self._token is not None:
            seq = self._position.since(several="," in (self._route.query["to"] or ""))
            more |= {"epoch": self._position.epoch, "seq": str(seq)}
        return more

    def _impatient(self, wait: float) -> bool:
        if self._patience_s is None or self._since is None:
            return False
        waited = asyncio.get_running_loop().time() - self._since
        return waited + wait > self._patience_s

    def _turned_away(self, lost: ConnectionLost) -> None:
        """There will be no next socket. An old one that is still at work may go on to its end."""
        if self._since is not None:
            self._end(lost)
        self.going = False
        self._changed.set()

    async def _switch(self, line: Transport) -> None:
        """From now on the next socket is the one, once the old one has nothing that it lacks."""
        old = self._line
        try:
            if not goes_on(line.welcome):
                # Where no store keeps the rooms, captions in flight still end on the old one.
                await old.ended.wait()
        finally:
            if self.lost is not None or not (goes_on(line.welcome) or old.ended.is_set()):
                await line.socket.close()
        if self.lost is not None:
            return
        self._line = line
        self._token = line.welcome.resume or self._token
        self.ready = self.going = False
        self._since = None
        self._talk.switch(self._position.go_on(line.welcome))
        self._notice(line.welcome)
        self._stable = asyncio.get_running_loop().call_later(STABLE_S, self._backoff.reset)
        self._readers.add(self.spawn(self._read(line)))
        if not line.replay:
            self.spawn(self._repeat(line))
        if not old.ended.is_set():
            self.spawn(self._retire(old))

    async def _retire(self, line: Transport) -> None:
        """Answers may still come of the old socket; the gateway is about to close it."""
        try:
            async with asyncio.timeout(LEAVE_S):
                await line.ended.wait()
        except TimeoutError:
            pass
        finally:
            await line.socket.close()

    def _end(self, lost: ConnectionLost) -> None:
        """There will be no other socket."""
        self.lost = lost
        self._talk.over()
        self._changed.set()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._readers.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            log.error("the client has a fault", exc_info=bug)
            self._end(ConnectionLost(1006, "The client has a fault."))
