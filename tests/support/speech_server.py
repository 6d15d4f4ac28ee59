"""A ``/v1/ws`` that hears a script in any audio, for tests of clients.

It keeps to `docs/reference/protocol/audio.md`: ten seconds of audio at once, and the rest as fast
as it is settled, which is when an utterance has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send

from gateway.errors import ErrorCode
from gateway.protocol.audio import Audio, AudioChunk, AudioInfo, AudioState, HeardSpeech
from gateway.protocol.codec import Codec, negotiate
from gateway.protocol.fields import LimitsInfo
from gateway.protocol.messages import (
    Ack,
    AskStats,
    Bye,
    Cancel,
    Cancelled,
    ClientMessage,
    Final,
    ServerMessage,
    Set,
    Source,
    Timing,
    Want,
    Welcome,
)
from gateway.protocol.notices import Error, Stats
from gateway.server.realtime.transcription import TranscriptionDialect
from gateway.server.realtime.translation import TranslationDialect
from gateway.server.routes.realtime import RealtimeEndpoint
from tests.support.frames import encode
from tests.support.live import until

INFO = AudioInfo(
    codecs=("pcm_s16le", "opus"),
    rates=(8000, 48_000),
    languages=("en",),
    recogniser="scripted",
    rate=1e6,
    burst=1e6,
    window=60.0,
)
WORD_S = 0.1
"""Seconds of audio in which a word is said."""


@dataclass
class Hearing:
    """A server that hears ``script``, one word after the other, and captions it in all languages.

    A text of the script is an utterance. ``refuse`` is the code with which `audio` is answered.
    """

    script: Sequence[str] = ("We meet again.", "On Thursday.")
    info: AudioInfo | None = INFO
    refuse: ErrorCode | None = None
    complain: Error | None = None
    """Answer to each frame of audio."""
    cut_after: float | None = None
    """Seconds of audio after which the first socket is cut."""
    asked: list[ClientMessage] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    sockets: int = 0
    url: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.sockets += 1
        await _Socket(self, scope, receive, send).serve()


class _Socket:
    def __init__(self, server: Hearing, scope: Scope, receive: Receive, send: Send) -> None:
        self._server = server
        self._codec = negotiate(scope["subprotocols"]) or Codec.JSON
        self._receive = receive
        self._send = send
        query = dict(pair.split("=") for pair in scope["query_string"].decode().split("&") if pair)
        self._langs = tuple(filter(None, query.get("to", "").replace("%2C", ",").split(",")))
        self._audio: Audio | None = None
        self._seconds = 0.0
        self._settled = 0.0
        self._seq = 0
        self._said = 0  # utterances that have ended
        self._words = 0  # heard of the next one

    async def serve(self) -> None:
        await self._receive()
        await self._send({"type": "websocket.accept", "subprotocol": self._codec.value})
        limits = LimitsInfo(frame=65_536, text=2000, inflight=16, targets=16, rate=50)
        await self._tell(
            Welcome(
                v=1, session=f"s{self._server.sockets}", room="~hearing", epoch="e", seq=0,
                resume=None, engine="scripted", languages=("de", "en", "fr"), limits=limits,
                audio=self._server.info,
            )
        )  # fmt: skip
        while (message := await self._receive())["type"] == "websocket.receive":
            frame = message.get("bytes")
            if frame is not None and self._codec is Codec.JSON:
                if await self._hear(frame):
                    return
                continue
            wire = msgspec.msgpack if frame is not None else msgspec.json
            asked = wire.decode(frame or message["text"], type=ClientMessage)
            self._server.asked.append(asked)
            if await self._do(asked):
                return

    async def _do(self, asked: ClientMessage) -> bool:
        match asked:
            case Audio() if self._server.refuse is not None:
                code = self._server.refuse
                await self._tell(
                    Error(code=code, fatal=False, retry=code.retry, msg="No.", ref=asked.ref)
                )
            case Audio(codec="none"):
                await self._finish()
                await self._state(asked.ref, "none")
            case Audio():
                self._audio, self._seconds, self._settled = asked, 0.0, 0.0
                await self._state(asked.ref, asked.codec)
            case AudioChunk():
                return await self._hear(asked.data)
            case Want():
                self._langs = asked.langs
            case Cancel():
                self._words = 0
                await self._tell(Cancelled(id=asked.id, rev=1, was="running", ref=asked.ref))
            case AskStats() | Set() | Bye():
                if isinstance(asked, Bye):
                    await self._finish()
                numbers = dict.fromkeys(Stats.__struct_fields__, 0)
                await self._tell(Stats(**{**numbers, "ref": asked.ref}))  # type: ignore[arg-type]
                if isinstance(asked, Bye):
                    await self._send({"type": "websocket.close", "code": 1000})
                    return True
        return False

    async def _hear(self, frame: bytes) -> bool:
        assert self._audio is not None
        self._server.frames.append(frame)
        if self._server.complain is not None:
            await self._tell(self._server.complain)
        opus = self._audio.codec == "opus"
        self._seconds += 0.02 if opus else len(frame) / 2 / self._audio.rate
        after = self._server.cut_after
        if after is not None and self._seconds > after:
            self._server.cut_after = None
            await self._send({"type": "websocket.close", "code": 4000})
            return True
        while self._said < len(self._server.script) and self._time() <= self._seconds + 0.001:
            self._words += 1
            await self._utter(final=self._words == len(self._text.split()))
        return False

    @property
    def _text(self) -> str:
        return self._server.script[self._said]

    def _time(self) -> float:
        """Return when the next word has been said."""
        before = sum(len(text.split()) for text in self._server.script[: self._said])
        return WORD_S * (before + self._words + 1)

    async def _finish(self) -> None:
        if self._words:
            await self._utter(final=True)

    async def _utter(self, *, final: bool) -> None:
        id, rev = f"s{self._server.sockets}-{self._said + 1}", self._words
        text = " ".join(self._text.split()[: self._words])
        t1 = round(self._time() - WORD_S, 3)
        t0 = round(t1 - WORD_S * self._words, 3)
        await self._tell(
            HeardSpeech(id=id, rev=rev, lang="en", text=text, t0=t0, t1=t1, final=final)
        )
        await self._tell(Ack(id=id, rev=rev, ord=self._said + 1))
        if not final:
            return
        self._said, self._words, self._settled = self._said + 1, 0, t1
        ms = Timing(queue=0, first=0, total=0)
        place: dict[str, Any] = {"id": id, "rev": rev, "ord": self._said, "t0": t0, "t1": t1}
        self._seq += 1
        await self._tell(Source(seq=self._seq, lang="en", text=text, **place))
        for lang in self._langs:
            self._seq += 1
            made = f"[{lang}] {text}"
            await self._tell(Final(seq=self._seq, lang=lang, text=made, by="mt", ms=ms, **place))
        await self._state(None, "pcm_s16le")

    async def _state(self, ref: str | None, codec: str) -> None:
        assert self._audio is not None
        await self._tell(
            AudioState(
                codec=codec, rate=self._audio.rate, from_="en", seconds=self._settled, ref=ref
            )
        )

    async def _tell(self, message: ServerMessage) -> None:
        payload = encode(self._codec, message)
        key = "text" if isinstance(payload, str) else "bytes"
        await self._send({"type": "websocket.send", key: payload})


@contextlib.asynccontextmanager
async def hearing(**options: object) -> AsyncIterator[Hearing]:
    """Serve a `Hearing` with these fields, and OpenAI's sockets in front of it."""
    server = Hearing(**options)  # type: ignore[arg-type]  # the fields are checked by the class
    app = Starlette(
        routes=[
            WebSocketRoute("/v1/ws", server),
            WebSocketRoute("/v1/realtime", RealtimeEndpoint(server, TranscriptionDialect)),
            WebSocketRoute(
                "/v1/realtime/translations", RealtimeEndpoint(server, TranslationDialect)
            ),
        ]
    )
    config = uvicorn.Config(
        app, port=0, log_level="warning", lifespan="off", ws="websockets-sansio"
    )
    running = uvicorn.Server(config)
    task = asyncio.create_task(running._serve())
    try:
        await until(lambda: running.started or task.done())
        port = next(iter(running.servers[0].sockets)).getsockname()[1]
        server.url = f"http://127.0.0.1:{port}"
        yield server
    finally:
        running.should_exit = True
        await task
