"""Client of the wire protocol on asyncio, for programs, the command line and tests.

Owns: the requests that a program can make. Must not know: how a gateway works, how answers are
matched to requests (`gateway.client.requests`), which socket is in use
(`gateway.client.reconnect`). Example::

    async with connect("ws://127.0.0.1:8000", source="en", to=("de", "fr")) as client:
        id = await client.say("Good morning, everybody.")
        print((await client.caption(id, "de")).text)

To read events as they arrive, iterate: ``async for event in client``. `Captions` turns events into
the captions that a reader sees. If the connection breaks, the client connects again and resumes:
every event is delivered once, and utterances that may have been lost are sent again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal, Self

import msgspec
from websockets.asyncio.client import ClientConnection

from gateway.client.audio import AudioSender
from gateway.client.reconnect import Notice, ReconnectingConnection
from gateway.client.requests import RequestTracker
from gateway.client.state.audio import (
    AudioBacklog,
    PcmPieces,
    opus_seconds,
    pcm_seconds,
)
from gateway.client.state.captions import KEPT
from gateway.client.transport import Route
from gateway.protocol import messages
from gateway.protocol.audio import OPUS, Audio
from gateway.protocol.fields import Translations
from gateway.protocol.messages import ServerMessage, View, Welcome
from gateway.protocol.notices import Authenticated, Stats

ANSWER_S = 30.0
"""Default seconds to wait for an answer. Only ``bye`` can take as long as a translation."""


class NotTranslated(Exception):
    """Absence of a caption.

    ``event`` is the event that ended the caption, withdrew the utterance, or began a connection
    after which the outcome is unknown.
    """

    def __init__(
        self,
        event: messages.Failed | messages.Cancelled | messages.Retracted | Welcome,
        id: str = "",
    ) -> None:
        id = id or getattr(event, "id", "")
        match event:
            case messages.Failed():
                why = event.code if event.msg is None else event.msg.removesuffix(".")
            case messages.Cancelled():
                why = "it was cancelled"
            case messages.Retracted():
                why = "it was withdrawn"
            case Welcome():  # pragma: no branch: there is no other type
                why = "the connection was lost and its outcome is unknown"
        super().__init__(f"{id!r} was not translated: {why}.")
        self.event = event


# More than eight parameters, because all but the address are keywords with defaults. Users of
# `websockets.connect`, which has more, expect them so. An object of options would be one more thing
# to import and to build.
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
    """Connect to a gateway, and disconnect at the end of the ``async with`` block.

    The parameters up to ``speaker`` are those of the protocol's query; ``source`` is its ``from``.

    :param url: address of the gateway. ``http`` means ``ws``, and ``/v1/ws`` is added if there is
        no path
    :param to: BCP 47 tags of the languages to read
    :param source: BCP 47 tag of the language to speak, or ``auto``; default: the gateway's
    :param room: room to join; None for a private room
    :param role: role in the room; default: ``speak``, or ``view`` if the key allows no more
    :param view: how much of unfinished captions to receive; default: ``live``
    :param speaker: display name
    :param key: API key, JWT or ticket, if the gateway requires one
    :param codec: encoding of the frames
    :param answer_s: seconds to wait for an answer before `TimeoutError` is raised
    :param resume: connect again if the connection breaks; else `ConnectionLost` is raised
    :param patience_s: seconds without a connection before `ConnectionLost` is raised; None for no
        limit
    :param notice: function that is called with `Disconnected` before every attempt to reconnect,
        and with the ``welcome`` of every further socket. Its ``resumed`` tells whether events are
        missing
    :param options: further arguments of `websockets.asyncio.client.connect`

    Raises `Refused` or `ConnectionLost` if the gateway refuses the connection, `ConnectionError` if
    there is no gateway at the address, `TimeoutError` if it does not answer, and `ValueError` if
    ``url`` is not an address.
    """
    # The query is kept for further sockets, and requests such as `want` change it.
    query = {"room": room, "role": role, "from": source, "to": ",".join(to) or None, "view": view}
    route = Route(url, query | {"speaker": speaker}, key, codec, answer_s, options)
    # The first connection is not tried again: a wrong address or key should fail at once.
    transport = await route.dial({})
    tracker = RequestTracker(answer_s)
    tracker.connection = ReconnectingConnection(
        route, transport, tracker, resume=resume, patience_s=patience_s, notice=notice
    )
    client = Client(route, tracker)
    try:
        yield client
    finally:
        await tracker.close()


class Client:
    """A connection to a gateway, created by `connect`.

    All events after the first ``welcome``, including answers, wait in a queue of
    1,024 events for ``async for``. If a program has begun to iterate and
    is slow, the client stops reading when the queue is full; the gateway then merges events, and
    finally closes with 4008. If a program never iterates, the oldest events are dropped. Events of
    unknown types are skipped.

    While there is no connection, requests wait for the next one, but not longer than for an answer.
    The ``welcome`` of a further socket is an event too. If its ``resumed`` is not ok, events are
    missing.

    Every request raises `Refused` if the gateway answers with an error, `ConnectionLost` if the
    connection has ended for good, and `TimeoutError` if there is no answer in time.
    """

    def __init__(self, route: Route, tracker: RequestTracker) -> None:
        self._route = route
        self._tracker = tracker
        self._ask = tracker.ask
        self._name = tracker.connection.transport.welcome.session
        self._said = 0
        self._revs: dict[str, int] = {}

    @property
    def socket(self) -> ClientConnection:
        """The newest socket."""
        return self._tracker.connection.transport.socket

    @property
    def welcome(self) -> Welcome:
        """The ``welcome`` of the newest socket."""
        return self._tracker.connection.transport.welcome

    # --- requests --------------------------------------------------------------------------------

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
        """Send an utterance, or a revision of one, and return its id.

        The gateway cuts a long growing text into parts with the ids ``u1``, ``u1.2``, ``u1.3``.
        Further revisions are still sent under ``u1``, with the whole text.

        :param text: the whole text so far
        :param id: id of the utterance, unique in the room; by default a new one
        :param rev: revision number; by default one more than the last under this id
        :param final: False if the utterance is still growing
        :param lang: BCP 47 tag of ``text``; default: the language of the connection
        :param speaker: display name; default: that of the connection
        :param t0: start of the utterance in seconds of the speaker's clock
        :param t1: end of the utterance in seconds of the speaker's clock

        Example::

            id = await client.say("We meet again", final=False)
            await client.say("We meet again on Thursday.", id=id)
        """
        if id is None:
            self._said += 1
            id = f"{self._name}_{self._said}"
        if rev is None:
            rev = self._revs.get(id, 0) + 1
        # With id and revision the gateway recognises an utterance that is sent again after a lost
        # connection.
        self._revs[id] = rev
        # A room keeps no more utterances either, so an older one cannot be revised anyway.
        if len(self._revs) > KEPT:
            del self._revs[next(iter(self._revs))]
        say = messages.Say(
            text=text, id=id, rev=rev, final=final, lang=lang, speaker=speaker, t0=t0, t1=t1
        )
        return (await self._ask(messages.Ack, say)).id

    async def send_audio(
        self,
        audio: bytes | AsyncIterable[bytes],
        *,
        codec: Literal["pcm_s16le", "opus"] = "pcm_s16le",
        rate: int = 16_000,
        source: str | None = None,
        t0: float = 0.0,
    ) -> None:
        """Send speech, and return when all of it is recognised.

        What is heard comes as events: ``heard`` with the growing text, and ``source``, ``delta``
        and ``final`` as for `say`. A recording is sent as fast as the gateway allows. If the
        connection breaks, what was not yet heard for good is sent again.

        :param audio: the samples, or an iterator of pieces of them as they are recorded. PCM may
            be cut anywhere; a piece of Opus is one packet
        :param codec: ``pcm_s16le`` (16 bit, little endian, mono) or ``opus``
        :param rate: samples per second of PCM, 8,000 to 48,000
        :param source: BCP 47 tag of the language that is spoken, several with commas between them,
            or ``auto``; default: the language of the connection
        :param t0: time of the first sample in seconds of the speaker's clock

        Raises `Refused` also while the audio is sent, if the gateway cannot read it. The event
        ``error`` with the code ``audio_too_fast`` says that a live source was dropped for a while.

        Example::

            await client.send_audio(wave.readframes(wave.getnframes()), rate=wave.getframerate())
        """
        seconds = opus_seconds if codec == OPUS else pcm_seconds(rate)
        begin = Audio(codec=codec, rate=rate, from_=source)
        sender = AudioSender(self._tracker, begin, AudioBacklog(seconds, t0))
        await sender.send(_frames(audio, None if codec == OPUS else PcmPieces(rate)))

    async def cancel(self, id: str, lang: str | None = None) -> messages.Cancelled:
        """Stop work on an utterance, in one language or in all.

        The answer is about the first part. For each further part that had not ended there is an
        event of its own.

        :param id: id of an utterance or of a part
        :param lang: BCP 47 tag; None for all languages
        """
        langs = None if lang is None else (lang,)
        return await self._ask(messages.Cancelled, messages.Cancel(id=id, langs=langs))

    async def want(
        self, *langs: str, view: View | None = None, backfill: int | None = None
    ) -> None:
        """Change the languages to read, and the view.

        :param langs: BCP 47 tags; they replace the present ones
        :param view: how much of unfinished captions to receive; None leaves it unchanged
        :param backfill: number of ended utterances to receive in the new languages; default: the
            gateway's setting
        """
        want = messages.Want(langs=langs, view=view, backfill=backfill)
        # `want` is only answered by errors. Frames are answered in order, so the answer to `stats`
        # shows that there was none.
        await self._ask(Stats, want, messages.AskStats())
        self._route.query["to"] = ",".join(langs)
        if view is not None:
            self._route.query["view"] = view

    async def edit(self, id: str, lang: str, text: str) -> messages.Edited | messages.Final:
        """Replace the text of a caption or of an original. Afterwards `caption` returns it.

        A corrected original is translated again. Allowed for moderators and for the speaker of the
        utterance.

        :param id: id of an utterance or of a part
        :param lang: BCP 47 tag of the caption, or that of the original to correct the original
        :param text: the new text
        """
        event = await self._ask(msgspec.Struct, messages.Edit(id=id, lang=lang, text=text))
        assert isinstance(event, messages.Edited | messages.Final), event
        return event

    async def retract(self, id: str) -> messages.Retracted:
        """Withdraw an utterance in all languages.

        Allowed for moderators and for the speaker of the utterance.

        :param id: id of an utterance, for all its parts, or of one part
        """
        return await self._ask(messages.Retracted, messages.Retract(id=id))

    async def set(
        self,
        *,
        context: str | None = None,
        glossary: Translations | None = None,
        source: str | None = None,
        speaker: str | None = None,
        style: str | None = None,
    ) -> messages.Settings:
        """Change settings of the room or of this speaker. None leaves a setting unchanged.

        :param context: description of the conversation for the model
        :param glossary: translations by term; each is a text, or texts by BCP 47 tag
        :param source: BCP 47 tag of the language that this speaker speaks
        :param speaker: display name of this speaker
        :param style: for example ``formal``, if the model supports it
        """
        change = messages.Set(
            context=context, glossary=glossary, from_=source, speaker=speaker, style=style
        )
        settings = await self._ask(messages.Settings, change)
        # The next socket has to begin with the changed values. Settings of the room stay there.
        if source is not None:
            self._route.query["from"] = source
        if speaker is not None:
            self._route.query["speaker"] = speaker
        return settings

    async def get(self, id: str) -> messages.Snapshot:
        """Return the present state of one utterance with all its captions."""
        return await self._ask(messages.Snapshot, messages.Get(id=id))

    async def auth(self, key: str) -> Authenticated:
        """Send a new key or token before that of this connection expires."""
        # Only an accepted key replaces the old one, which stays valid after a refusal.
        answer = await self._ask(Authenticated, messages.Auth(token=key))
        self._route.key = key
        return answer

    async def stats(self) -> Stats:
        """Return the counters of this socket."""
        return await self._ask(Stats, messages.AskStats())

    async def bye(self) -> Stats:
        """Wait until the utterances in flight are finished, and return the last counters.

        The gateway then closes the connection.
        """
        return await self._ask(Stats, messages.Bye())

    async def caption(self, id: str, lang: str) -> messages.Final | messages.Edited:
        """Wait for a finished caption and return it, or its correction if there is one.

        :param id: id of an utterance or of a part
        :param lang: a language that this client reads, spelled as in the gateway's events

        Raises `NotTranslated` if the caption failed, was cancelled or was withdrawn, and
        `ConnectionLost` if the connection has ended for good.
        """
        ending = await self._tracker.ending(id, lang)
        if isinstance(ending, messages.Final | messages.Edited):
            return ending
        raise NotTranslated(ending or self.welcome, id)

    # --- events ----------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        """Iterate over the events. From the first call on no event is dropped."""
        self._tracker.iterated = True
        return self

    async def __anext__(self) -> ServerMessage:
        """Return the next event.

        The iteration ends after a normal close (1000). After any other close it raises
        `ConnectionLost`.
        """
        return await self._tracker.next()


async def _frames(
    audio: bytes | AsyncIterable[bytes], pcm: PcmPieces | None
) -> AsyncGenerator[bytes]:
    """Yield the frames of audio; ``pcm`` cuts them if they may be cut anywhere."""
    async for part in _once(audio) if isinstance(audio, bytes) else audio:
        for frame in (part,) if pcm is None else pcm.cut(part):
            yield frame


async def _once(audio: bytes) -> AsyncGenerator[bytes]:
    yield audio
