"""Requests and their answers, and what else comes of a gateway, over a connection that may break.

Owns: which answer is to which request, how captions ended, and the events that wait for the
program. Must not know: what one can ask, over which socket it goes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from gateway.client.reconnect import Notice, ReconnectingConnection
from gateway.client.state.captions import KEPT
from gateway.client.state.recovery import PendingRequests
from gateway.client.transport import Refused, Route, Transport
from gateway.protocol.messages import (
    Cancelled,
    ClientMessage,
    Edited,
    Error,
    Failed,
    Final,
    Retracted,
    Say,
    ServerMessage,
)

QUEUE = 1024
"""Events that wait for the program. One that has begun to iterate and is late makes the link stop
reading; for one that never iterates, the oldest are dropped."""

T = TypeVar("T", bound=msgspec.Struct)
Ending = Final | Edited | Failed | Cancelled | Retracted


class RequestTracker:
    """A conversation with a gateway: a `Conversation` over a `ReconnectingConnection`, whose
    options are those of that.

    :param answer_s: seconds to wait for an answer
    """

    def __init__(
        self,
        route: Route,
        line: Transport,
        answer_s: float,
        *,
        resume: bool,
        patience_s: float | None,
        notice: Notice,
    ) -> None:
        self._answer_s = answer_s
        self._ledger = PendingRequests()
        self._asked = 0
        self._answers: dict[str, asyncio.Future[ServerMessage | None]] = {}
        self._events: deque[ServerMessage] = deque()
        self._iterated = False
        self._arrived, self._taken, self._ended = (asyncio.Event() for _ in range(3))
        self._endings: dict[tuple[str, str | None], Ending] = {}
        self._era = 0  # counts how often events were missed
        self.link = ReconnectingConnection(
            route, line, self, resume=resume, patience_s=patience_s, notice=notice
        )

    # --- requests ---------------------------------------------------------------------------------

    def ref(self) -> str:
        """Another ``ref``, for a request."""
        self._asked += 1
        return f"r{self._asked}"

    async def ask(self, kind: type[T], *requests: ClientMessage) -> T:
        """Send frames that have one ref, and wait for the first answer to it.

        Raises `Refused`, `ConnectionLost` and `TimeoutError`.
        """
        ref = requests[0].ref
        assert ref is not None, "every request here has a ref"
        answer: asyncio.Future[ServerMessage | None]
        answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._answer_s):
                while not self._may(requests[0]):
                    await self.link.change()
                if self.link.lost is not None:
                    raise self.link.lost
                self._answers[ref] = answer
                self._ledger.note(ref, *requests)
                await self.link.send(*requests)
                event = await answer
        except TimeoutError as exc:
            raise TimeoutError(
                f"The gateway did not answer {type(requests[0]).__name__.lower()} within"
                f" {self._answer_s:g} s. A program that has begun to iterate has to go on."
            ) from exc
        finally:
            self._answers.pop(ref, None)
            self._ledger.drop(ref)
        if event is None:
            assert self.link.lost is not None, "answers stay away only at the end"
            raise self.link.lost
        if isinstance(event, Error):
            raise Refused(event)
        assert isinstance(event, kind), f"{event!r} is no {kind.__name__}"
        return event

    def _may(self, request: ClientMessage) -> bool:
        """Whether it can be sent now, if only to be told that all is over."""
        if self.link.lost is not None:
            return True
        # A gateway that is about to stop takes nothing new.
        new = isinstance(request, Say) and not self._ledger.growing(request.id)
        return self.link.ready and not (self.link.going and new)

    # --- for the program --------------------------------------------------------------------------

    def iterate(self) -> None:
        """From now on the program takes events, and none is dropped."""
        self._iterated = True

    async def next(self) -> ServerMessage:
        """The next event. Raises `StopAsyncIteration` after a normal close (1000), after any other
        `ConnectionLost`."""
        while not self._events:
            lost = self.link.lost
            if lost is not None:
                if lost.code == 1000:
                    raise StopAsyncIteration
                raise lost
            self._arrived.clear()
            await self._arrived.wait()
        self._taken.set()
        return self._events.popleft()

    async def ending(self, id: str, lang: str) -> Ending | None:
        """Wait for how a caption ended; None where that was missed. Raises `ConnectionLost`."""
        era = self._era
        while True:
            ending = self._endings.get((id, lang)) or self._endings.get((id, None))
            if ending is not None:
                return ending
            if self.link.lost is not None:
                raise self.link.lost
            if era != self._era:
                if not self._ledger.says(id):
                    return None
                era = self._era  # it is said again
            self._ended.clear()
            await self._ended.wait()

    async def close(self) -> None:
        """Leave. What nobody has taken may go."""
        self._iterated = False
        self._taken.set()
        await self.link.close()

    # --- what comes (see `Conversation`)
    # ------------------------------------------------------------------

    async def take(self, event: ServerMessage, *, fresh: bool, replayed: bool) -> None:
        if fresh:
            self._note(event)
        if replayed and (ref := self._ledger.replayed(event)) is not None:
            self._ledger.drop(ref)
            self._resolve(ref, event)
        if self._answer(event) and fresh:
            while self._iterated and len(self._events) >= QUEUE:
                self._taken.clear()
                await self._taken.wait()
            self._queue(event)

    def late(self, event: ServerMessage) -> None:
        self._answer(event)

    def switch(self, whole: bool) -> None:
        if not whole:
            self._era += 1
        self._queue(self.link.welcome)
        self._ended.set()

    def repeat(self) -> Iterable[tuple[ClientMessage, ...]]:
        return self._ledger.repeat()

    def over(self) -> None:
        for ref in list(self._answers):
            self._resolve(ref, None)
        self._arrived.set()
        self._ended.set()

    def _note(self, event: ServerMessage) -> None:
        """Keep how captions ended."""
        self._ledger.heard(event)
        match event:
            case Final() | Failed() | Cancelled(seq=int()):
                self._end(event, event.lang)
            case Edited():
                self._endings.pop((event.id, event.lang), None)
                self._end(event, event.lang)
            case Retracted():
                for key in [key for key in self._endings if key[0] == event.id]:
                    del self._endings[key]
                self._end(event, None)

    def _end(self, event: Ending, lang: str | None) -> None:
        self._endings.setdefault((event.id, lang), event)
        if len(self._endings) > KEPT:
            del self._endings[next(iter(self._endings))]
        self._ended.set()

    def _answer(self, event: ServerMessage) -> bool:
        """Give an answer to who asked; whether the program shall see it, too."""
        ref = getattr(event, "ref", None)
        if isinstance(event, Error) and event.code == "rate":
            # The frame was not even read, so its ref is unknown. It is the oldest one unanswered,
            # as all are answered in order.
            ref = next(iter(self._answers), None)
        if ref is None:
            return True
        meant = self._ledger.answered(ref, event)
        if meant is not None:
            self._resolve(ref, meant)
        elif isinstance(event, Error) and event.retry:
            self.link.spawn(self._insist(ref, (event.retry_ms or 1000) / 1000))
        return meant is not None

    async def _insist(self, ref: str, seconds: float) -> None:
        """Say once more what the gateway had accepted, has lost, and has no place for now."""
        await asyncio.sleep(seconds)
        await self.link.send(*self._ledger.frames(ref))

    def _resolve(self, ref: str, event: ServerMessage | None) -> None:
        answer = self._answers.pop(ref, None)
        if answer is not None and not answer.done():
            answer.set_result(event)

    def _queue(self, event: ServerMessage) -> None:
        if not self._iterated and len(self._events) >= QUEUE:
            self._events.popleft()
        self._events.append(event)
        self._arrived.set()
