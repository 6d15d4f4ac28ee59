"""A small client of the wire protocol, on asyncio: for programs, the command line and tests.

Owns: the sockets of one conversation with a gateway, and matching answers to requests. Must not
know: how a gateway works. Of the gateway it imports the messages alone, and is meant to be read
beside ``docs/protocol.md``::

    async with connect("ws://127.0.0.1:8000", source="en", to=("de", "fr")) as client:
        id = await client.say("Good morning, everybody.")
        print((await client.caption(id, "de")).text)

Or, as they come: ``async for event in client``. `Captions` makes of the events what a reader sees.

A connection that breaks is made again, and goes on where it ended: every event comes once, and what
was said and may be lost is said again. Before a planned restart the next socket is opened while the
old one still works.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, Self, TypeVar

import msgspec
import websockets
from websockets.asyncio.client import ClientConnection

from gateway.captions import KEPT, Caption, Captions
from gateway.dial import Line, Lost, Refused, Route
from gateway.messages import (
    DURABLE,
    PRIVATE,
    Ack,
    AskStats,
    Auth,
    Authenticated,
    Bye,
    Cancel,
    Cancelled,
    ClientMessage,
    Edit,
    Edited,
    Error,
    Failed,
    Final,
    Get,
    Goaway,
    Retract,
    Retracted,
    Say,
    ServerMessage,
    Set,
    Settings,
    Snapshot,
    Stats,
    View,
    Want,
    Welcome,
)
from gateway.recovery import STABLE_S, Backoff, Ledger, Position, goes_on, own

__all__ = [
    "Broken",
    "Caption",
    "Captions",
    "Client",
    "Lost",
    "NotTranslated",
    "Refused",
    "connect",
]

log = logging.getLogger("gateway.client")

QUEUE = 1024
"""Events that wait for ``async for``; see `Client`."""

ANSWER_S = 30.0
"""Seconds to wait for an answer. Only ``bye`` takes as long as a translation."""

LEAVE_S = 5.0
"""Seconds until the old socket is closed, after the next one has taken over."""

T = TypeVar("T", bound=msgspec.Struct)
Ending = Final | Edited | Failed | Cancelled | Retracted


class NotTranslated(Exception):
    """There is no caption: ``event`` is what ended it, took it back, or began without it."""

    def __init__(self, event: Failed | Cancelled | Retracted | Welcome, id: str = "") -> None:
        id = id or getattr(event, "id", "")
        match event:
            case Failed():
                why = event.code
            case Cancelled():
                why = "it was cancelled"
            case Retracted():
                why = "it was taken back"
            case Welcome():  # pragma: no branch: there is no other
                why = "it is not known what became of it while there was no connection"
        super().__init__(f"{id!r} was not translated: {why}.")
        self.event = event


class Broken(msgspec.Struct, frozen=True):
    """There is no connection. ``wait``: seconds until the next attempt."""

    code: int
    reason: str
    wait: float


Notice = Callable[[Broken | Welcome], None]


@asynccontextmanager
async def connect(
    url: str,
    *,
    to: Iterable[str] = (),
    source: str | None = None,
    room: str | None = None,
    role: Literal["view", "speak", "moderate"] | None = None,
    view: View | None = None,
    speaker: str | None = None,
    key: str | None = None,
    codec: Literal["json", "msgpack"] = "json",
    answer_s: float = ANSWER_S,
    resume: bool = True,
    patience_s: float | None = None,
    notice: Notice = lambda _: None,
    **options: Any,
) -> AsyncGenerator[Client]:
    """Open a socket, and close it at the end; ``source`` is the protocol's ``from``.

    A ``url`` without a path gets ``/v1/ws``; ``http`` means ``ws``. Further ``options`` go to
    `websockets.asyncio.client.connect`.

    :param key: what the gateway asks for where it does not let everybody in
    :param resume: open another socket when this one breaks; else `Lost` is raised
    :param patience_s: seconds without a connection until that is given up; None: never
    :param notice: told when there is no connection, before every attempt, and of the ``welcome`` of
        every other socket, whose ``resumed`` says whether anything is lost

    Raises `Refused` or `Lost` where the gateway turns it away, and `ConnectionError` where there
    is none.
    """
    query = {"room": room, "role": role, "from": source, "to": ",".join(to) or None, "view": view}
    route = Route(url, query | {"speaker": speaker}, key, codec, answer_s, options)
    line = await route.dial({})
    client = Client(route, line, answer_s, resume=resume, patience_s=patience_s, notice=notice)
    try:
        yield client
    finally:
        await client._close()


class Client:
    """A conversation with a gateway, over one socket after the other. Made by `connect`.

    Events after the first ``welcome``, answers among them, wait for ``async for`` in a queue of
    `QUEUE`. A program that has begun to iterate and is late makes the client stop reading: the
    gateway then merges what waits, and at last closes with 4008. For one that never iterates, the
    oldest are dropped. Events of a type that this version does not know are skipped.

    While there is no connection, requests wait for the next one, for as long as they wait for an
    answer. The ``welcome`` of another socket is an event too: where its ``resumed`` is not ok,
    events were missed.
    """

    def __init__(
        self,
        route: Route,
        line: Line,
        answer_s: float,
        *,
        resume: bool,
        patience_s: float | None,
        notice: Notice,
    ) -> None:
        self.welcome = line.welcome
        """Of the newest socket."""
        self._route = route
        self._line = line
        self._answer_s = answer_s
        self._resume = resume
        self._patience_s = patience_s
        self._notice = notice
        self._name = line.welcome.session
        self._token = line.welcome.resume
        self._position = Position(line.welcome)
        self._ledger = Ledger()
        self._backoff = Backoff(random.random)
        self._gave_up = -math.inf  # when an attempt came to nothing
        self._ready = True  # what was asked before this connection has been sent again
        self._going = False  # the gateway is about to stop
        self._since: float | None = None  # there has been no connection
        self._asked = self._said = 0
        self._revs: dict[str, int] = {}
        self._answers: dict[str, asyncio.Future[ServerMessage | None]] = {}
        self._events: deque[ServerMessage] = deque()
        self._iterated = False
        self._turn = asyncio.Lock()  # one socket's events at a time
        self._arrived, self._taken, self._ended, self._changed = (asyncio.Event() for _ in range(4))
        self._endings: dict[tuple[str, str | None], Ending] = {}
        self._era = 0  # counts how often events were missed
        self._lost: Lost | None = None
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._readers: set[asyncio.Task[None]] = set()  # those of them that end with their sockets
        self._dialling: asyncio.Task[None] | None = None
        self._stable: asyncio.TimerHandle | None = None
        self._readers.add(self._spawn(self._read(line)))

    @property
    def socket(self) -> ClientConnection:
        """The newest socket."""
        return self._line.socket

    # --- what one can ask ------------------------------------------------------------------------

    async def say(
        self,
        text: str,
        *,
        id: str | None = None,
        rev: int | None = None,
        final: bool = True,
        lang: str | None = None,
        speaker: str | None = None,
        t0: float | None = None,
        t1: float | None = None,
    ) -> str:
        """Say an utterance, or the whole text so far of one that grows (``final=False``).

        Returns its id, which is made where none is given. A long text that grows is cut:
        its beginning keeps the id, the next parts are ``u1.2``, ``u1.3``, and what is said goes on
        under ``u1``. Raises `Refused`.
        """
        if id is None:
            self._said += 1
            id = f"{self._name}_{self._said}"
        if rev is None:
            rev = self._revs.get(id, 0) + 1
        # With both it can be said again, and is said once.
        self._revs[id] = rev
        if len(self._revs) > KEPT:
            del self._revs[next(iter(self._revs))]
        say = Say(
            ref=self._ref(),
            text=text,
            id=id,
            rev=rev,
            final=final,
            lang=lang,
            speaker=speaker,
            t0=t0,
            t1=t1,
        )
        return (await self._ask(Ack, say)).id

    async def cancel(self, id: str, lang: str | None = None) -> Cancelled:
        """Stop the work on an utterance, in one language or in all. Raises `Refused`.

        The answer is about its first part, where it was cut; there is one more for each that had
        not ended.
        """
        langs = None if lang is None else (lang,)
        return await self._ask(Cancelled, Cancel(ref=self._ref(), id=id, langs=langs))

    async def want(
        self, *langs: str, view: View | None = None, backfill: int | None = None
    ) -> None:
        """Read these languages from now on, and so many utterances of before in the new ones.

        Raises `Refused`.
        """
        want = Want(ref=self._ref(), langs=langs, view=view, backfill=backfill)
        # It has no answer but an error. Frames are answered in order, so that `stats` with the
        # same ref tells that there was none.
        await self._ask(Stats, want, AskStats(ref=want.ref))
        self._route.query["to"] = ",".join(langs)
        if view is not None:
            self._route.query["view"] = view

    async def edit(self, id: str, lang: str, text: str) -> Edited | Final:
        """Put a text in the place of a caption, or of the original; `caption` has it then.

        For moderators and who said it. Raises `Refused`.
        """
        event = await self._ask(msgspec.Struct, Edit(ref=self._ref(), id=id, lang=lang, text=text))
        assert isinstance(event, Edited | Final), event
        return event

    async def retract(self, id: str) -> Retracted:
        """Take an utterance back in all languages, all parts of it or, by its id, one.

        For moderators and who said it. Raises `Refused`.
        """
        return await self._ask(Retracted, Retract(ref=self._ref(), id=id))

    async def set(
        self,
        *,
        context: str | None = None,
        glossary: dict[str, str] | None = None,
        source: str | None = None,
        speaker: str | None = None,
        style: str | None = None,
    ) -> Settings:
        """Change settings of the room, or of this speaker. Raises `Refused`."""
        change = Set(
            ref=self._ref(),
            context=context,
            glossary=glossary,
            from_=source,
            speaker=speaker,
            style=style,
        )
        settings = await self._ask(Settings, change)
        if source is not None:
            self._route.query["from"] = source
        if speaker is not None:
            self._route.query["speaker"] = speaker
        return settings

    async def get(self, id: str) -> Snapshot:
        """One utterance as it stands. Raises `Refused` (``not_found``)."""
        return await self._ask(Snapshot, Get(ref=self._ref(), id=id))

    async def auth(self, key: str) -> Authenticated:
        """Show another key or token, before that of this connection expires. Raises `Refused`."""
        answer = await self._ask(Authenticated, Auth(ref=self._ref(), token=key))
        self._route.key = key
        return answer

    async def stats(self) -> Stats:
        """Counters of this socket."""
        return await self._ask(Stats, AskStats(ref=self._ref()))

    async def bye(self) -> Stats:
        """Let what is in flight finish, and have the last counters; the gateway then closes."""
        return await self._ask(Stats, Bye(ref=self._ref()))

    async def caption(self, id: str, lang: str) -> Final | Edited:
        """Wait for the finished caption in a language that this client reads.

        Of a caption that was corrected since, this is the correction. ``lang`` is spelled as in the
        gateway's events. Raises `NotTranslated` and `Lost`.
        """
        era = self._era
        while True:
            ending = self._endings.get((id, lang)) or self._endings.get((id, None))
            if isinstance(ending, Final | Edited):
                return ending
            if ending is not None:
                raise NotTranslated(ending)
            if self._lost is not None:
                raise self._lost
            if era != self._era:
                if not self._ledger.says(id):
                    raise NotTranslated(self.welcome, id)
                era = self._era  # it is said again
            self._ended.clear()
            await self._ended.wait()

    # --- what comes ------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        self._iterated = True
        return self

    async def __anext__(self) -> ServerMessage:
        """The next event. Ends after a normal close (1000); after any other raises `Lost`."""
        while not self._events:
            if self._lost is not None:
                if self._lost.code == 1000:
                    raise StopAsyncIteration
                raise self._lost
            self._arrived.clear()
            await self._arrived.wait()
        self._taken.set()
        return self._events.popleft()

    async def _read(self, line: Line) -> None:
        """Take what comes of a socket, to its end."""
        try:
            async for frame in line.socket:
                event = line.decode(frame)
                if event is not None:
                    await self._take(line, event)
        except websockets.ConnectionClosed:
            pass  # the close code says all
        except msgspec.MsgspecError as exc:
            line.fault = Lost(1007, f"It sent what is no event: {exc}.", reconnect=self._resume)
            await line.socket.close(1007)
        finally:
            line.ended.set()
            if line is self._line:
                self._break(line.loss())

    async def _take(self, line: Line, event: ServerMessage) -> None:
        async with self._turn:
            if line is not self._line:
                self._answer(event)  # the next one has all but that
                return
            replayed = line.replay > 0 and isinstance(event, DURABLE)
            if isinstance(event, Goaway) and self._resume:
                self._going = True
                self._redial()
            fresh = self._position.fresh(event)
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
        if replayed:
            line.replay -= 1
            if not line.replay:
                self._spawn(self._repeat(line))

    def _note(self, event: ServerMessage) -> None:
        """Keep how captions ended."""
        self._ledger.heard(event)
        match event:
            case Final() | Failed() | Cancelled(seq=int()):
                self._end_caption(event, event.lang)
            case Edited():
                self._endings.pop((event.id, event.lang), None)
                self._end_caption(event, event.lang)
            case Retracted():
                for key in [key for key in self._endings if key[0] == event.id]:
                    del self._endings[key]
                self._end_caption(event, None)

    def _end_caption(self, event: Ending, lang: str | None) -> None:
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
            self._spawn(self._insist(ref, (event.retry_ms or 1000) / 1000))
        return meant is not None

    def _resolve(self, ref: str, event: ServerMessage | None) -> None:
        answer = self._answers.pop(ref, None)
        if answer is not None and not answer.done():
            answer.set_result(event)

    def _queue(self, event: ServerMessage) -> None:
        if not self._iterated and len(self._events) >= QUEUE:
            self._events.popleft()
        self._events.append(event)
        self._arrived.set()

    # --- one socket after the other ---------------------------------------------------------------

    def _break(self, lost: Lost) -> None:
        """The newest socket has ended."""
        self._ready = self._going = False
        if self._stable is not None:
            self._stable.cancel()
        now = asyncio.get_running_loop().time()
        again = lost.reconnect or own(lost.code, now - self._gave_up)
        if self._closing or not self._resume or not again:
            self._end(lost)
            return
        log.info("no connection: %s", lost)
        self._since = now
        if self._dialling is None:
            self._redial()
        else:
            self._notice(Broken(lost.code, lost.reason, 0.0))

    def _redial(self) -> None:
        if self._dialling is None:
            self._dialling = self._spawn(self._dial())

    async def _dial(self) -> None:
        """Open the next socket, however long it takes; the old one may still be at work."""
        try:
            while self._lost is None:
                wait = self._backoff.wait()
                if self._since is not None:
                    lost = self._line.loss()
                    if self._impatient(wait):
                        self._end(lost)
                        return
                    self._notice(Broken(lost.code, lost.reason, wait))
                await asyncio.sleep(wait)
                try:
                    line = await self._route.dial(self._where())
                except Refused as exc:
                    if exc.error.retry:
                        continue
                    if self._token is None:
                        self._turned_away(Lost(exc.code, str(exc), reconnect=False))
                        return
                    self._token = None  # it is good no more: come as somebody new
                except Lost as exc:
                    if not exc.reconnect:
                        self._turned_away(exc)
                        return
                    self._gave_up = asyncio.get_running_loop().time()
                except OSError as exc:
                    self._gave_up = asyncio.get_running_loop().time()
                    log.debug("no connection yet: %s", exc)
                else:
                    await self._switch(line)
                    return
        finally:
            self._dialling = None

    def _where(self) -> dict[str, str | None]:
        """What the query of the next socket says, beside that of the first."""
        room = None if self.welcome.room.startswith(PRIVATE) else self.welcome.room
        more: dict[str, str | None] = {"room": room, "resume": self._token}
        if room is not None or self._token is not None:
            seq = self._position.since(several="," in (self._route.query["to"] or ""))
            more |= {"epoch": self._position.epoch, "seq": str(seq)}
        return more

    def _impatient(self, wait: float) -> bool:
        if self._patience_s is None or self._since is None:
            return False
        waited = asyncio.get_running_loop().time() - self._since
        return waited + wait > self._patience_s

    def _turned_away(self, lost: Lost) -> None:
        """There will be no next socket. An old one that is still at work may go on to its end."""
        if self._since is not None:
            self._end(lost)
        self._going = False
        self._changed.set()

    async def _switch(self, line: Line) -> None:
        """From now on the next socket is the one, once the old one has nothing that it lacks."""
        old = self._line
        try:
            if not goes_on(line.welcome):
                # Where no store keeps the rooms, captions in flight still end on the old one.
                await old.ended.wait()
        finally:
            if self._lost is not None or not (goes_on(line.welcome) or old.ended.is_set()):
                await line.socket.close()
        if self._lost is not None:
            return
        self._line, self.welcome = line, line.welcome
        self._token = line.welcome.resume or self._token
        self._ready = self._going = False
        self._since = None
        if not self._position.go_on(line.welcome):
            self._era += 1
        self._queue(line.welcome)
        self._notice(line.welcome)
        self._ended.set()
        self._stable = asyncio.get_running_loop().call_later(STABLE_S, self._backoff.reset)
        self._readers.add(self._spawn(self._read(line)))
        if not line.replay:
            self._spawn(self._repeat(line))
        if not old.ended.is_set():
            self._spawn(self._retire(old))

    async def _retire(self, line: Line) -> None:
        """Answers may still come of the old socket; the gateway is about to close it."""
        try:
            async with asyncio.timeout(LEAVE_S):
                await line.ended.wait()
        except TimeoutError:
            pass
        finally:
            await line.socket.close()

    async def _repeat(self, line: Line) -> None:
        """Ask again on a new socket for what may have been lost with the one before."""
        try:
            for frames in self._ledger.repeat():
                await line.send(*frames)
        except websockets.ConnectionClosed:
            return  # then on the next one
        if line is self._line:
            self._ready = True
            self._changed.set()

    async def _insist(self, ref: str, seconds: float) -> None:
        """Say once more what the gateway had accepted, has lost, and has no place for now."""
        await asyncio.sleep(seconds)
        with suppress(websockets.ConnectionClosed):
            await self._line.send(*self._ledger.frames(ref))

    def _end(self, lost: Lost) -> None:
        """There will be no other socket."""
        self._lost = lost
        for ref in list(self._answers):
            self._resolve(ref, None)
        for event in (self._arrived, self._ended, self._changed):
            event.set()

    async def _close(self) -> None:
        """Leave. What still comes is read, so that the close gets through."""
        self._closing = True
        self._iterated = False
        self._taken.set()
        if self._stable is not None:
            self._stable.cancel()
        line = self._line
        for task in self._tasks - self._readers:
            task.cancel()
        await line.socket.close()
        if self._lost is None and line.ended.is_set():
            self._end(line.loss())
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._readers.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            log.error("the client has a fault", exc_info=bug)
            self._end(Lost(1006, "The client has a fault."))

    # --- requests ---------------------------------------------------------------------------------

    async def _ask(self, kind: type[T], *requests: ClientMessage) -> T:
        """Send frames that have one ref, and wait for the first answer to it."""
        ref = requests[0].ref
        assert ref is not None, "every request here has a ref"
        answer: asyncio.Future[ServerMessage | None]
        answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._answer_s):
                while not self._may(requests[0]):
                    self._changed.clear()
                    await self._changed.wait()
                if self._lost is not None:
                    raise self._lost
                self._answers[ref] = answer
                self._ledger.note(ref, *requests)
                with suppress(websockets.ConnectionClosed):  # its end is seen where it is read
                    await self._line.send(*requests)
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
            assert self._lost is not None, "answers stay away only at the end"
            raise self._lost
        if isinstance(event, Error):
            raise Refused(event)
        assert isinstance(event, kind), f"{event!r} is no {kind.__name__}"
        return event

    def _may(self, request: ClientMessage) -> bool:
        """Whether it can be sent now, if only to be told that all is over."""
        if self._lost is not None:
            return True
        # A gateway that is about to stop takes nothing new.
        late = self._going and isinstance(request, Say) and not self._ledger.growing(request.id)
        return self._ready and not late

    def _ref(self) -> str:
        self._asked += 1
        return f"r{self._asked}"
