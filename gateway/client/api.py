"""A small client of the wire protocol, on asyncio: for programs, the command line and tests.

Owns: what one can ask. Must not know: how a gateway works; which answer is to which request, the
business of `exchange`; over which socket it comes, that of `link`. Of the gateway these three know
the messages alone. It is meant to be read beside ``docs/protocol.md``::

    async with connect("ws://127.0.0.1:8000", source="en", to=("de", "fr")) as client:
        id = await client.say("Good morning, everybody.")
        print((await client.caption(id, "de")).text)

Or, as they come: ``async for event in client``. `Captions` makes of the events what a reader sees.

A connection that breaks is made again, and goes on where it ended: every event comes once, and what
was said and may be lost is said again. Before a planned restart the next socket is opened while the
old one still works.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal, Self

import msgspec
from websockets.asyncio.client import ClientConnection

from gateway.client.reconnect import Disconnected, Notice
from gateway.client.requests import RequestTracker
from gateway.client.state.captions import KEPT, Captions, ReaderCaption
from gateway.client.transport import ConnectionLost, Refused, Route
from gateway.protocol.messages import (
    Ack,
    AskStats,
    Auth,
    Authenticated,
    Bye,
    Cancel,
    Cancelled,
    Edit,
    Edited,
    Failed,
    Final,
    Get,
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

__all__ = [
    "Disconnected",
    "ReaderCaption",
    "Captions",
    "Client",
    "ConnectionLost",
    "NotTranslated",
    "Refused",
    "connect",
]

ANSWER_S = 30.0
"""Seconds to wait for an answer. Only ``bye`` takes as long as a translation."""


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
    :param resume: open another socket when this one breaks; else `ConnectionLost` is raised
    :param patience_s: seconds without a connection until that is given up; None: never
    :param notice: told when there is no connection, before every attempt, and of the ``welcome`` of
        every other socket, whose ``resumed`` says whether anything is lost

    Raises `Refused` or `ConnectionLost` where the gateway turns it away, and `ConnectionError`
    where there is none."""
    query = {"room": room, "role": role, "from": source, "to": ",".join(to) or None, "view": view}
    route = Route(url, query | {"speaker": speaker}, key, codec, answer_s, options)
    line = await route.dial({})
    exchange = RequestTracker(
        route, line, answer_s, resume=resume, patience_s=patience_s, notice=notice
    )
    client = Client(route, exchange)
    try:
        yield client
    finally:
        await exchange.close()


class Client:
    """A conversation with a gateway, over one socket after the other. Made by `connect`.

    Events after the first ``welcome``, answers among them, wait for ``async for`` in a queue of
    `gateway.client.requests.QUEUE`. A program that has begun to iterate and is late makes the
    client stop reading: the gateway then merges what waits, and at last closes with 4008. For one
    that never iterates, the oldest are dropped. Events of a type that this version does not know
    are skipped.

    While there is no connection, requests wait for the next one, for as long as they wait for an
    answer. The ``welcome`` of another socket is an event too: where its ``resumed`` is not ok,
    events were missed.
    """

    def __init__(self, route: Route, exchange: RequestTracker) -> None:
        self._route = route
        self._exchange = exchange
        self._ask, self._ref = exchange.ask, exchange.ref
        self._name = exchange.link.welcome.session
        self._said = 0
        self._revs: dict[str, int] = {}

    @property
    def socket(self) -> ClientConnection:
        """The newest socket."""
        return self._exchange.link.socket

    @property
    def welcome(self) -> Welcome:
        """Of the newest socket."""
        return self._exchange.link.welcome

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
        gateway's events. Raises `NotTranslated` and `ConnectionLost`.
        """
        ending = await self._exchange.ending(id, lang)
        if isinstance(ending, Final | Edited):
            return ending
        raise NotTranslated(ending or self.welcome, id)

    # --- what comes ------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        self._exchange.iterate()
        return self

    async def __anext__(self) -> ServerMessage:
        """The next event. Ends after a normal close (1000); after any other raises
        `ConnectionLost`."""
        return await self._exchange.next()
