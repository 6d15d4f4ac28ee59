"""A small client of the wire protocol, on asyncio: for programs, the command line and tests.

Owns: one socket of a gateway, and matching answers to requests. Must not know: how a gateway works.
Of the gateway it imports the messages alone, and is meant to be read beside ``docs/protocol.md``::

    async with connect("ws://127.0.0.1:8000", source="en", to=("de", "fr")) as client:
        id = await client.say("Good morning, everybody.")
        print((await client.caption(id, "de")).text)

Or, as they come: ``async for event in client``. `Captions` makes of the events what a reader sees.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal, Self, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
import websockets
from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection
from websockets.typing import Subprotocol

from gateway.messages import (
    EVENTS,
    Ack,
    AskStats,
    Bye,
    Cancel,
    Cancelled,
    ClientMessage,
    Delta,
    Edit,
    Edited,
    Error,
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
    Source,
    Stats,
    View,
    Want,
    Welcome,
)

QUEUE = 1024
"""Events that wait for ``async for``; see `Client`."""

KEPT = 1000
"""Ended captions remembered; a room remembers as many utterances."""

ANSWER_S = 30.0
"""Seconds to wait for an answer. Only ``bye`` takes as long as a translation."""

T = TypeVar("T", bound=msgspec.Struct)
Ending = Final | Edited | Failed | Cancelled | Retracted
State = Literal["open", "final", "failed", "cancelled"]


class Refused(Exception):
    """The gateway did not do what was asked. ``error`` says why, and whether to try again."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.msg + (f" {error.hint}" if error.hint else ""))
        self.error = error


class NotTranslated(Exception):
    """There is no caption: ``event`` is what ended it, or took it back."""

    def __init__(self, event: Failed | Cancelled | Retracted) -> None:
        match event:
            case Failed():
                why = event.code
            case Cancelled():
                why = "it was cancelled"
            case Retracted():  # pragma: no branch: there is no other
                why = "it was taken back"
        super().__init__(f"{event.id!r} was not translated: {why}.")
        self.event = event


class Lost(ConnectionError):
    """The socket is gone. ``reconnect``: whether the protocol says to come again."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"The connection to the gateway has ended ({code}). {reason}".strip())
        self.code = code
        self.reconnect = code in (1001, 1006, 1011, 1012, 1013) or 4000 <= code < 4400


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
    codec: Literal["json", "msgpack"] = "json",
    answer_s: float = ANSWER_S,
    **options: Any,
) -> AsyncGenerator[Client]:
    """Open a socket, and close it at the end; ``source`` is the protocol's ``from``.

    A ``url`` without a path gets ``/v1/ws``; ``http`` means ``ws``. Further ``options`` go to
    `websockets.asyncio.client.connect`.

    Raises `Refused` or `Lost` where the gateway turns it away, and `ConnectionError` where there
    is none.
    """
    query = {"room": room, "role": role, "from": source, "to": ",".join(to), "view": view}
    where = _address(url, query | {"speaker": speaker})
    try:
        socket = await websockets.connect(
            where, subprotocols=[Subprotocol(f"gw.v1.{codec}")], **options
        )
    except websockets.InvalidURI as exc:
        raise ValueError(f"{url!r} is not the address of a gateway: {exc}.") from exc
    except websockets.InvalidHandshake as exc:
        raise ConnectionError(f"There is no gateway at {url}: {exc}.") from exc
    except OSError as exc:
        raise ConnectionError(f"There is no gateway at {url}: {exc}. Is it running?") from exc
    async with socket:
        client = Client(socket, answer_s)
        await client._open()
        reader = asyncio.create_task(client._read())
        try:
            yield client
        finally:
            client._leave()
            await socket.close()
            await reader


class Client:
    """An open socket. Made by `connect`.

    Events after ``welcome``, answers among them, wait for ``async for`` in a queue of `QUEUE`. A
    program that has begun to iterate and is late makes the client stop reading: the gateway then
    merges what waits, and at last closes with 4008. For one that never iterates, the oldest are
    dropped. Events of a type that this version does not know are skipped.
    """

    welcome: Welcome

    def __init__(self, socket: ClientConnection, answer_s: float) -> None:
        self.socket = socket
        self._wire: Any = msgspec.json
        if socket.subprotocol == "gw.v1.msgpack":
            self._wire = msgspec.msgpack
        self._decoder = self._wire.Decoder(ServerMessage)
        self._answer_s = answer_s
        self._asked = 0
        self._answers: dict[str, asyncio.Future[ServerMessage | None]] = {}
        self._events: deque[ServerMessage] = deque(maxlen=QUEUE)
        self._iterated = False
        self._arrived, self._taken, self._ended = (asyncio.Event() for _ in range(3))
        self._endings: dict[tuple[str, str | None], Ending] = {}
        self._lost: Lost | None = None

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

        Returns its id, which the gateway makes where none is given. A long text that grows is cut:
        its beginning keeps the id, the next parts are ``u1.2``, ``u1.3``, and what is said goes on
        under ``u1``. Raises `Refused`.
        """
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
        return await self._ask(Settings, change)

    async def get(self, id: str) -> Snapshot:
        """One utterance as it stands. Raises `Refused` (``not_found``)."""
        return await self._ask(Snapshot, Get(ref=self._ref(), id=id))

    async def stats(self) -> Stats:
        """Counters of this socket."""
        return await self._ask(Stats, AskStats(ref=self._ref()))

    async def bye(self) -> Stats:
        """Let what is in flight finish, and have the last counters; the gateway then closes."""
        return await self._ask(Stats, Bye(ref=self._ref()))

    async def caption(self, id: str, lang: str) -> Final | Edited:
        """Wait for the finished caption in a language that this socket reads.

        Of a caption that was corrected since, this is the correction. ``lang`` is spelled as in the
        gateway's events. Raises `NotTranslated` and `Lost`.
        """
        while True:
            ending = self._endings.get((id, lang)) or self._endings.get((id, None))
            if isinstance(ending, Final | Edited):
                return ending
            if ending is not None:
                raise NotTranslated(ending)
            if self._lost is not None:
                raise self._lost
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

    def _leave(self) -> None:
        """Nobody is late any more: what still comes is read, so that the close gets through."""
        self._iterated = False
        self._taken.set()

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(self._answer_s):
                first = self._decode(await self.socket.recv())
        except websockets.ConnectionClosed as exc:
            raise self._loss() from exc
        if isinstance(first, Error):
            raise Refused(first)
        if not isinstance(first, Welcome):
            raise ConnectionError(f"This is no gateway: it began with {type(first).__name__}.")
        self.welcome = first

    async def _read(self) -> None:
        lost: Lost | None = None
        try:
            async for frame in self.socket:
                event = self._decode(frame)
                if event is not None:
                    self._settle(event)
                    while self._iterated and len(self._events) == QUEUE:
                        self._taken.clear()
                        await self._taken.wait()
                    self._events.append(event)
                    self._arrived.set()
        except websockets.ConnectionClosed:
            pass  # the close code says all
        except msgspec.MsgspecError as exc:
            lost = Lost(1007, f"It sent what is no event: {exc}.")
        finally:
            self._lost = lost or self._loss()
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_result(None)
            self._arrived.set()
            self._ended.set()

    def _settle(self, event: ServerMessage) -> None:
        """Tell those who wait for this event."""
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
        ref = getattr(event, "ref", None)
        if isinstance(event, Error) and event.code == "rate":
            # The frame was not even read, so its ref is unknown. It is the oldest one unanswered,
            # as all are answered in order.
            ref = next(iter(self._answers), None)
        answer = self._answers.pop(ref, None) if ref is not None else None
        if answer is not None and not answer.done():
            answer.set_result(event)

    def _end(self, event: Ending, lang: str | None) -> None:
        self._endings.setdefault((event.id, lang), event)
        if len(self._endings) > KEPT:
            del self._endings[next(iter(self._endings))]
        self._ended.set()

    async def _ask(self, kind: type[T], *requests: ClientMessage) -> T:
        """Send frames that have one ref, and wait for the first answer to it."""
        if self._lost is not None:
            raise self._lost
        ref = requests[0].ref
        assert ref is not None, "every request here has a ref"
        answer = self._answers[ref] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._answer_s):
                for request in requests:
                    frame = self._wire.encode(request)
                    await self.socket.send(frame, text=self._wire is msgspec.json)
                event = await answer
        except websockets.ConnectionClosed as exc:
            raise self._loss() from exc
        except TimeoutError as exc:
            raise TimeoutError(
                f"The gateway did not answer {type(requests[0]).__name__.lower()} within"
                f" {self._answer_s:g} s. A program that has begun to iterate has to go on."
            ) from exc
        finally:
            self._answers.pop(ref, None)
        if event is None:
            raise self._loss()
        if isinstance(event, Error):
            raise Refused(event)
        assert isinstance(event, kind), f"{event!r} is no {kind.__name__}"
        return event

    def _ref(self) -> str:
        self._asked += 1
        return f"r{self._asked}"

    def _loss(self) -> Lost:
        return Lost(self.socket.close_code or 1006, self.socket.close_reason or "")

    def _decode(self, frame: str | bytes) -> ServerMessage | None:
        """The event in a frame, or None for one of a type that this version does not know."""
        try:
            event: ServerMessage = self._decoder.decode(frame)
        except msgspec.ValidationError:
            if self._wire.decode(frame).get("type") in _TYPES:
                raise
            return None
        return event


_TYPES = frozenset(str(event.__struct_config__.tag) for event in EVENTS)


class Caption(msgspec.Struct):
    """One utterance in one language, as a reader sees it: ``stable`` text and its ``draft``."""

    rev: int = 0
    stable: str = ""
    draft: str = ""
    state: State = "open"
    gap: bool = False
    """Stable text is missing, as for one who came in the middle. The ``final`` has it all."""

    @property
    def text(self) -> str:
        return self.stable + self.draft


class Captions:
    """What all events so far add up to, by (id, lang). Pure.

    Leaving out every ephemeral event leads to the same captions in the end: rule 2 of the protocol.
    Of the captions that have ended, only the newest are kept: about ``kept`` in all, and as many
    ``originals``, by id, as they read now. What was taken back is gone.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self.originals: dict[str, Source] = {}
        self._captions: dict[tuple[str, str], Caption] = {}
        self._kept = kept

    def __getitem__(self, key: tuple[str, str]) -> Caption:
        """The caption; an empty one where nothing is known."""
        return self._captions.get(key) or Caption()

    def growing(self) -> list[tuple[tuple[str, str], Caption]]:
        """The captions that have not ended, oldest first."""
        return [(key, one) for key, one in self._captions.items() if one.state == "open"]

    def fold(self, event: ServerMessage) -> None:
        """Take one more event in; those that are not about captions change nothing."""
        match event:
            case Source():
                self.originals[event.id] = event
                if len(self.originals) > self._kept:
                    del self.originals[next(iter(self.originals))]
            case Delta():
                caption = self._open((event.id, event.lang))
                if caption.state == "open" and event.rev >= caption.rev:
                    caption.rev = event.rev
                    caption.stable = event.add if event.reset else caption.stable + event.add
                    caption.draft = caption.draft if event.draft is None else event.draft
                    caption.gap = len(caption.stable) != event.n
            case Final():
                self._end((event.id, event.lang), event.rev, "final", event.text)
            case Failed():
                self._end((event.id, event.lang), event.rev, "failed")
            case Cancelled():
                for key, _ in self.growing():
                    if key[0] == event.id and event.lang in (None, key[1]):
                        self._end(key, event.rev, "cancelled")
            case Edited():
                self._edit(event)
            case Retracted():
                self.originals.pop(event.id, None)
                for key in [key for key in self._captions if key[0] == event.id]:
                    del self._captions[key]
            case Snapshot():
                for line in event.lines:
                    key = (event.id, line.lang)
                    if line.state in ("final", "failed", "cancelled"):
                        text = line.text if line.state == "final" else ""
                        self._end(key, event.rev, line.state, text)  # type: ignore[arg-type]
                    else:
                        caption = Caption(event.rev, line.text, line.draft or "")
                        self._captions[key] = caption
            case _:
                pass

    def _edit(self, event: Edited) -> None:
        """Another text, of a caption or of the original, which everybody is told of."""
        key = event.id, event.lang
        original = self.originals.get(event.id)
        if original is not None and original.lang == event.lang:
            self.originals[event.id] = replace(original, text=event.text)
            if key not in self._captions:
                return
        self._end(key, event.rev, "final", event.text)

    def _open(self, key: tuple[str, str]) -> Caption:
        caption = self._captions.get(key)
        if caption is None:
            caption = self._captions[key] = Caption()
            if len(self._captions) > self._kept:
                ended = (key for key, one in self._captions.items() if one.state != "open")
                if (oldest := next(ended, None)) is not None:
                    del self._captions[oldest]
        return caption

    def _end(self, key: tuple[str, str], rev: int, state: State, text: str = "") -> None:
        caption = self._open(key)
        caption.rev, caption.stable, caption.draft = rev, text, ""
        caption.state, caption.gap = state, False


def _address(url: str, query: dict[str, str | None]) -> str:
    """The WebSocket address with its query. Raises `ValueError` for what is no address."""
    if "://" not in url:
        url = f"ws://{url}"
    scheme, place, path, given, _ = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(scheme, scheme)
    if scheme not in ("ws", "wss") or not place:
        raise ValueError(f"{url!r} is not the address of a gateway, such as ws://127.0.0.1:8000.")
    pairs = parse_qsl(given) + [(key, value) for key, value in query.items() if value]
    return urlunsplit((scheme, place, path.rstrip("/") or "/v1/ws", urlencode(pairs, safe=","), ""))
