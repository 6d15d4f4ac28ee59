"""Requests, their answers, and the queue of events, over a connection that may break.

Owns: matching answers to requests, the outcome of captions, and the events that wait for the
program. Must not know: which requests there are, which socket is in use.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from gateway.client.reconnect import ReconnectingConnection
from gateway.client.state.captions import KEPT
from gateway.client.state.recovery import PendingRequests
from gateway.client.transport import Refused
from gateway.protocol import messages
from gateway.protocol.messages import ClientMessage, ServerMessage
from gateway.protocol.notices import Error

QUEUE = 1024
"""Number of events that can wait for the program. If it is reached, the client stops reading for a
program that has begun to iterate, and drops the oldest events for one that never did."""

T = TypeVar("T", bound=msgspec.Struct)
Ending = (
    messages.Final | messages.Edited | messages.Failed | messages.Cancelled | messages.Retracted
)
"""Events that end a caption or replace its text."""


class RequestTracker:
    """The listener of a `ReconnectingConnection`. Answers are awaited for ``answer_s``."""

    connection: ReconnectingConnection

    def __init__(self, answer_s: float) -> None:
        self.pending = PendingRequests()
        """Requests that may be lost, which are sent again on another socket."""
        self.iterated = False
        """True once the program reads events, so that none is dropped from then on."""
        self._answer_s = answer_s
        self._asked = 0
        self._answers: dict[str, asyncio.Future[ServerMessage | None]] = {}
        self._events: deque[ServerMessage] = deque()
        self._arrived, self._taken, self._ended = (asyncio.Event() for _ in range(3))
        self._endings: dict[tuple[str, str | None], Ending] = {}
        self._era = 0  # how often events were missed
        self.watch: Callable[[ServerMessage | None], None] | None = None
        """Function that is called with each new event, and with None if the socket has changed."""

    # --- requests ---------------------------------------------------------------------------------

    async def ask(self, kind: type[T], *requests: ClientMessage, patient: bool = False) -> T:
        """Send frames with the same new ``ref``, and return the first answer to it.

        :param kind: type of the answer
        :param patient: wait without a limit, because the answer takes as long as a recognition

        Raises `Refused` if the answer is an error, `ConnectionLost` if the connection has ended for
        good, `TimeoutError` if there is no answer in time.
        """
        self._asked += 1
        ref = f"r{self._asked}"
        frames = [replace(request, ref=ref) for request in requests]
        answer = asyncio.Future[ServerMessage | None]()
        try:
            async with asyncio.timeout(None if patient else self._answer_s):
                while not self._can_send(requests[0]):
                    await self.connection.change()
                if self.connection.lost is not None:
                    raise self.connection.lost
                self._answers[ref] = answer
                # Before it is sent: the socket may break in the middle of the write.
                self.pending.add(ref, *frames)
                await self.connection.send(*frames)
                event = await answer
        except TimeoutError as exc:
            raise TimeoutError(
                f"The gateway did not answer {type(requests[0]).__name__.lower()} within"
                f" {self._answer_s:g} s. A program that iterates over events must not stop."
            ) from exc
        finally:
            # A late answer must find nobody, and a request that nobody waits for is not repeated.
            self._answers.pop(ref, None)
            self.pending.drop(ref)
        if event is None:
            assert self.connection.lost is not None, "only `closed` resolves with None"
            raise self.connection.lost
        if isinstance(event, Error):
            raise Refused(event)
        assert isinstance(event, kind), f"{event!r} is no {kind.__name__}"
        return event

    def _can_send(self, request: ClientMessage) -> bool:
        """Tell whether a request need not wait for another socket."""
        if self.connection.lost is not None:
            return True  # there is none to wait for
        # A gateway that is about to stop refuses new utterances.
        new = isinstance(request, messages.Say) and not self.pending.is_growing(request.id)
        return self.connection.ready and not (self.connection.draining and new)

    # --- for the program --------------------------------------------------------------------------

    async def next(self) -> ServerMessage:
        """Return the next event. Raises `ConnectionLost`, `StopAsyncIteration` after code 1000."""
        while not self._events:
            if self.connection.lost is not None:
                if self.connection.lost.code == 1000:
                    raise StopAsyncIteration
                raise self.connection.lost
            self._arrived.clear()
            await self._arrived.wait()
        self._taken.set()
        return self._events.popleft()

    async def ending(self, id: str, lang: str) -> Ending | None:
        """Return the end of a caption, or None if it was missed. Raises `ConnectionLost`."""
        era = self._era
        while True:
            ending = self._endings.get((id, lang)) or self._endings.get((id, None))
            if ending is not None:
                return ending
            if self.connection.lost is not None:
                raise self.connection.lost
            if era != self._era:
                if not self.pending.will_repeat(id):
                    return None
                era = self._era  # the utterance is sent again, so there will be another end
            self._ended.clear()
            await self._ended.wait()

    async def close(self) -> None:
        """Close the connection. Events in the queue are dropped."""
        self.iterated = False
        self._taken.set()
        await self.connection.close()

    # --- called by the connection ----------------------------------------------------------------

    async def receive(self, event: ServerMessage, *, fresh: bool, replayed: bool) -> None:
        """Process an event of the newest socket. The next event waits until this returns.

        :param fresh: the event was not received before
        :param replayed: the event happened before this socket was opened
        """
        if fresh:
            # An event that is sent again after a reconnect is passed on once.
            self._note(event)
            if self.watch is not None:
                self.watch(event)
        # The answer to a request may have been lost with the old socket, but not the durable event
        # that it caused.
        if replayed and (ref := self.pending.answered_by(event)) is not None:
            self.pending.drop(ref)
            self._resolve(ref, event)
        if self.answer(event) and fresh:
            # Waiting here stops the reading of the socket, so that the gateway notices the delay.
            while self.iterated and len(self._events) >= QUEUE:
                self._taken.clear()
                await self._taken.wait()
            self._queue(event)

    def reconnected(self, whole: bool) -> None:
        """Note that another socket is in use. ``whole``: no event is missing in between."""
        # After missed events a waiting `ending` may wait for an event that never comes.
        if not whole:
            self._era += 1
        self._queue(self.connection.transport.welcome)
        self._ended.set()
        if self.watch is not None:
            self.watch(None)

    def closed(self) -> None:
        """Note that there will be no further socket, and wake everything that waits."""
        for ref in list(self._answers):
            self._resolve(ref, None)
        self._arrived.set()
        self._ended.set()
        if self.watch is not None:
            self.watch(None)

    def _note(self, event: ServerMessage) -> None:
        self.pending.record(event)
        match event:
            case messages.Final() | messages.Failed() | messages.Cancelled(seq=int()):
                self._end(event, event.lang)
            case messages.Edited():
                # A correction replaces the earlier end, while `_end` keeps the first one.
                self._endings.pop((event.id, event.lang), None)
                self._end(event, event.lang)
            case messages.Retracted():
                self._endings = {k: end for k, end in self._endings.items() if k[0] != event.id}
                self._end(event, None)

    def _end(self, event: Ending, lang: str | None) -> None:
        """Store the end of a caption, of all languages if ``lang`` is None."""
        self._endings.setdefault((event.id, lang), event)
        if len(self._endings) > KEPT:
            del self._endings[next(iter(self._endings))]
        self._ended.set()

    def answer(self, event: ServerMessage) -> bool:
        """Resolve the request that an event answers. Return whether to queue the event."""
        ref = getattr(event, "ref", None)
        if isinstance(event, Error) and event.code == "rate":
            # The gateway did not read the frame, so it does not know the ref. Frames are answered
            # in order, so it was the oldest one without an answer.
            ref = next(iter(self._answers), None)
        if ref is None:
            return True
        meant = self.pending.answered(ref, event)
        if meant is not None:
            self._resolve(ref, meant)
        elif isinstance(event, Error) and event.retry:
            # The caller has its answer already; the utterance is sent again without it.
            self.connection.spawn(self._insist(ref, (event.retry_ms or 1000) / 1000))
        return meant is not None

    async def _insist(self, ref: str, seconds: float) -> None:
        """Send an utterance again that the gateway had accepted, lost, and refuses for now."""
        await asyncio.sleep(seconds)
        await self.connection.send(*self.pending.frames(ref))

    def _resolve(self, ref: str, event: ServerMessage | None) -> None:
        """Finish a request, with None if there will be no answer."""
        answer = self._answers.pop(ref, None)
        if answer is not None and not answer.done():
            answer.set_result(event)

    def _queue(self, event: ServerMessage) -> None:
        """Queue an event for the program; drop the oldest if the program never reads."""
        # A program that only makes requests must not fill the memory with events.
        if not self.iterated and len(self._events) >= QUEUE:
            self._events.popleft()
        self._events.append(event)
        self._arrived.set()
