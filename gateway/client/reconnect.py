"""A connection to a gateway that survives the end of its sockets.

Owns: the newest socket, the position in the room's events, opening the next socket and switching
to it, and the tasks for that. Must not know: the requests, the meaning of events.

If a socket breaks, the next one resumes where it ended. Before a planned restart the next socket is
opened while the old one still works; until that one has ended, answers may still arrive on it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import websockets

from gateway.client.state.backoff import STABLE_S, backoff
from gateway.client.state.recovery import ResumePosition, is_resumed
from gateway.client.transport import ConnectionLost, Refused, Route, Transport
from gateway.protocol.messages import DURABLE, PRIVATE, ClientMessage, ServerMessage, Welcome
from gateway.protocol.notices import Goaway

if TYPE_CHECKING:
    from gateway.client.requests import RequestTracker

log = logging.getLogger("gateway.link")

LEAVE_S = 5.0
"""Seconds after which the old socket is closed, once the next one is in use."""


class Disconnected(msgspec.Struct, frozen=True):
    """A notice that there is no connection."""

    code: int
    """Close code of the last socket; 1006 if there was none."""
    reason: str
    """Close reason of the last socket."""
    wait: float
    """Seconds until the next attempt."""


Notice = Callable[[Disconnected | Welcome], None]


class ReconnectingConnection:
    """A connection over one socket after the other, the first of which is open already.

    :param listener: is told of events
    :param resume: open another socket when one breaks
    :param patience_s: seconds without a connection before it is given up; None for no limit
    :param notice: called with `Disconnected` before every attempt to reconnect, and with the
        ``welcome`` of every further socket
    """

    def __init__(
        self,
        route: Route,
        transport: Transport,
        listener: RequestTracker,
        *,
        resume: bool,
        patience_s: float | None,
        notice: Notice,
    ) -> None:
        self.lost: ConnectionLost | None = None
        """Reason for the end, once there will be no further socket."""
        self.ready = True
        """True once requests from before this socket have been sent again."""
        self.draining = False
        """True while the gateway is about to stop and refuses new utterances."""
        self.transport = transport
        """The newest socket."""
        self._route = route
        self._listener = listener
        self._resume = resume
        self._patience_s = math.inf if patience_s is None else patience_s
        self._notice = notice
        self._token = transport.welcome.resume
        self._position = ResumePosition(transport.welcome)
        self._tries = 0  # number of attempts to reconnect since the last stable connection
        self._attempts = 0  # number of all attempts to reconnect
        self._now = asyncio.get_running_loop().time
        self._opened = self._now()  # when the newest socket was
        self._since: float | None = None  # when the last one has ended, if there is no connection
        self._turn = asyncio.Lock()  # events of one socket at a time
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._readers: set[asyncio.Task[None]] = set()  # the tasks that end with their sockets
        self._dialling: asyncio.Task[None] | None = None
        self._readers.add(self.spawn(self._read(transport)))

    async def send(self, *requests: ClientMessage | bytes) -> None:
        """Send frames on the newest socket, unless it has ended; `bytes` are audio."""
        with suppress(websockets.ConnectionClosed):
            await self.transport.send(*requests)

    async def change(self) -> None:
        """Wait until `ready`, `draining` or `lost` may have changed."""
        self._changed.clear()
        await self._changed.wait()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that is cancelled with the connection. An exception in it ends both."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def close(self) -> None:
        """Close the connection. The reading tasks go on until the close is answered."""
        # The end that follows is wanted, so no other socket is opened.
        self._resume = False
        transport = self.transport
        for task in self._tasks - self._readers:
            task.cancel()
        await transport.socket.close()
        # If the socket had ended before, no reading task is left that could report the end.
        if self.lost is None and transport.ended.is_set():
            self._end(transport.loss())
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- one socket -------------------------------------------------------------------------------

    async def _read(self, transport: Transport) -> None:
        """Read the events of a socket until it ends."""
        try:
            async for frame in transport.socket:
                event = transport.decode(frame)
                if event is not None:
                    await self._take(transport, event)
        except websockets.ConnectionClosed:
            pass  # `Transport.loss` reads the close code
        except msgspec.MsgspecError as exc:
            transport.fault = ConnectionLost(
                1007, f"It sent something that is not an event: {exc}.", reconnect=self._resume
            )
            await transport.socket.close(1007)
        finally:
            transport.ended.set()
            if transport is self.transport:
                self._break(transport.loss())

    async def _take(self, transport: Transport, event: ServerMessage) -> None:
        """Pass an event to the listener."""
        async with self._turn:
            if transport is not self.transport:
                # Only answers arrive on an earlier socket alone.
                self._listener.answer(event)
                return
            # The gateway sends missed events first, and only durable events can be missed.
            replayed = transport.replay > 0 and isinstance(event, DURABLE)
            if isinstance(event, Goaway) and self._resume:
                # The old socket still works for what is in flight, while new text waits for the
                # next one.
                self.draining = True
                self._redial()
            fresh = self._position.fresh(event)
            await self._listener.receive(event, fresh=fresh, replayed=replayed)
        # Requests are repeated after the missed events, which may contain the lost answers.
        if replayed:
            transport.replay -= 1
            if not transport.replay:
                self.spawn(self._repeat(transport))

    async def _repeat(self, transport: Transport) -> None:
        """Send requests again that may have been lost with the socket before."""
        try:
            for frames in self._listener.pending.all_frames():
                await transport.send(*frames)
        except websockets.ConnectionClosed:
            return  # the next socket repeats them
        if transport is self.transport:
            self.ready = True
            self._changed.set()

    # --- the next socket --------------------------------------------------------------------------

    def _break(self, lost: ConnectionLost) -> None:
        """Handle the end of the newest socket."""
        self.ready = self.draining = False
        if not (self._resume and lost.reconnect):
            self._end(lost)
            return
        log.info("no connection: %s", lost)
        self._since = self._now()
        if self._dialling is None:
            self._redial()
        else:
            # The next socket is being opened already because of a `goaway`.
            self._notice(Disconnected(lost.code, lost.reason, 0.0))

    def _redial(self) -> None:
        """Start to open the next socket, unless that is under way."""
        if self._dialling is None:
            # A gateway that accepts sockets and closes them at once must not be asked without
            # pause.
            if self._now() - self._opened >= STABLE_S:
                self._tries = 0
            self._dialling = self.spawn(self._dial())

    async def _dial(self) -> None:
        """Open the next socket, with as many attempts as needed. The old one may still be open."""
        try:
            while self.lost is None:
                wait = backoff(self._tries, random.random())
                self._tries += 1
                if self._since is not None:
                    lost = self.transport.loss()
                    # Asked before the wait, so that a program is not kept waiting for nothing.
                    if self._now() - self._since + wait > self._patience_s:
                        self._end(lost)
                        return
                    self._notice(Disconnected(lost.code, lost.reason, wait))
                # Also before the first attempt, since all clients of a restarted gateway try at
                # once.
                await asyncio.sleep(wait)
                try:
                    transport = await self._route.dial(self._resume_query())
                except Refused as exc:
                    if exc.error.retry:
                        continue  # the gateway is full for now
                    if self._token is None:
                        self._refused(ConnectionLost(exc.code, str(exc), reconnect=False))
                        return
                    self._token = None  # the resume token is invalid: connect as a new session
                except ConnectionLost as exc:
                    if not exc.reconnect:
                        self._refused(exc)
                        return
                except OSError as exc:
                    log.debug("no connection yet: %s", exc)
                else:
                    await self._switch(transport)
                    return
        finally:
            self._dialling = None

    def _resume_query(self) -> dict[str, str | None]:
        """Return the query parameters that the next socket has besides the first one's."""
        # A private room cannot be named. The resume token leads to it.
        joined = self.transport.welcome.room
        room = None if joined.startswith(PRIVATE) else joined
        # The gateway may read an attempt that was given up after a later one. The number tells it
        # which one is the latest.
        self._attempts += 1
        more = {"room": room, "resume": self._token, "attempt": str(self._attempts)}
        if room is not None or self._token is not None:
            seq = self._position.since(several="," in (self._route.query["to"] or ""))
            more |= {"epoch": self._position.epoch, "seq": str(seq)}
        return more

    def _refused(self, lost: ConnectionLost) -> None:
        """Give up opening the next socket. An old one that still works is used until its end."""
        if self._since is not None:
            self._end(lost)
        self.draining = False
        self._changed.set()

    async def _switch(self, transport: Transport) -> None:
        """Use ``transport`` from now on, as soon as the old socket has nothing that it lacks."""
        old = self.transport
        try:
            if not is_resumed(transport.welcome):
                # Without a store the new process does not know the room, so captions in flight
                # end on the old socket.
                await old.ended.wait()
        finally:
            if self.lost is not None or not (is_resumed(transport.welcome) or old.ended.is_set()):
                await transport.socket.close()
        if self.lost is not None:
            return
        self.transport = transport
        # A gateway without signing keys gives no new token. The old one may still work elsewhere.
        self._token = transport.welcome.resume or self._token
        self.ready = self.draining = False
        self._opened, self._since = self._now(), None
        self._listener.reconnected(self._position.reconnected(transport.welcome))
        self._notice(transport.welcome)
        self._readers.add(self.spawn(self._read(transport)))
        # With missed events to come, `_take` repeats the requests behind the last of them.
        if not transport.replay:
            self.spawn(self._repeat(transport))
        if not old.ended.is_set():
            self.spawn(self._retire(old))

    async def _retire(self, transport: Transport) -> None:
        """Wait for the gateway to close the old socket, since answers may still arrive on it."""
        try:
            async with asyncio.timeout(LEAVE_S):
                await transport.ended.wait()
        except TimeoutError:
            pass
        finally:
            await transport.socket.close()

    def _end(self, lost: ConnectionLost) -> None:
        self.lost = lost
        self._listener.closed()
        self._changed.set()

    def _done(self, task: asyncio.Task[None]) -> None:
        """Forget a finished task. An exception in it would otherwise be noticed by nobody."""
        self._tasks.discard(task)
        self._readers.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            log.error("a task of the client failed", exc_info=bug)
            self._end(ConnectionLost(1006, "A task of the client failed."))
