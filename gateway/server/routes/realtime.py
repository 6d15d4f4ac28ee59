"""OpenAI's realtime sockets: ``/v1/realtime`` and ``/v1/realtime/translations``.

Owns: the translation between a client of these sockets and the endpoint of ``/v1/ws``, and the pace
of audio that comes faster than that endpoint reads it. Must not know: what events mean
(`gateway.server.realtime`), how a session works. A client of these sockets is a client of
``/v1/ws`` with another dialect: the same limits, keys, outboxes and close codes apply.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

import msgspec
from starlette.datastructures import QueryParams
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.client.state.audio_pace import AudioPace
from gateway.errors import ClientFault
from gateway.protocol.audio import AudioState
from gateway.protocol.codec import Codec
from gateway.protocol.handshake import BEARER_PREFIX, SOCKET_PATH
from gateway.protocol.messages import ServerMessage, Welcome
from gateway.server.realtime.dialect import Dialect, ServerEvent
from gateway.server.uvicorn.websocket import WRITER

KEY_PREFIX = "openai-insecure-api-key."
"""Prefix of the sub-protocol in which OpenAI's browser client sends its key."""
REALTIME = "realtime"
"""Sub-protocol that OpenAI's browser client offers, and expects in the answer."""

_decode = msgspec.json.Decoder(ServerMessage).decode


class RealtimeEndpoint:
    """The ASGI application of one of the sockets.

    :param socket: the application of ``/v1/ws``
    :param dialect: called with the query of each client
    """

    def __init__(self, socket: ASGIApp, dialect: Callable[[Mapping[str, str]], Dialect]) -> None:
        self._socket = socket
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        offered = list(scope.get("subprotocols", ()))
        dialect = self._dialect(QueryParams(scope["query_string"]))
        subprotocol = REALTIME if REALTIME in offered else None
        keys = [
            BEARER_PREFIX + name.removeprefix(KEY_PREFIX)
            for name in offered
            if name.startswith(KEY_PREFIX)
        ]
        inner = {
            **scope,
            "path": SOCKET_PATH,
            "query_string": urlencode(dialect.query).encode(),
            "subprotocols": [Codec.JSON.value, *keys],
            # Every frame must come through `send`, to be translated.
            "extensions": {
                key: value for key, value in scope.get("extensions", {}).items() if key != WRITER
            },
        }
        translated = _Translated(dialect, subprotocol, receive, send)
        await self._socket(inner, translated.receive, translated.send)


class _Translated:
    """The ``receive`` and ``send`` that the endpoint of ``/v1/ws`` is given.

    :param subprotocol: name in the answer to the handshake
    """

    def __init__(
        self, dialect: Dialect, subprotocol: str | None, receive: Receive, send: Send
    ) -> None:
        self._dialect = dialect
        self._subprotocol = subprotocol
        self._receive = receive
        self._send = send
        self._frames: deque[str | bytes] = deque()
        self._pace: AudioPace | None = None
        self._told = asyncio.Event()
        self._now = asyncio.get_running_loop().time

    async def receive(self) -> Message:
        """Return the next frame of the gateway's protocol that the client means."""
        while not self._frames:
            while self._dialect.ending:
                await self._news()
            message = await self._receive()
            if message["type"] != "websocket.receive":
                return message
            frame = message.get("text")
            await self._read(message["bytes"] if frame is None else frame)
        frame = self._frames.popleft()
        if isinstance(frame, str):
            return {"type": "websocket.receive", "text": frame}
        await self._wait(len(frame) / 2 / self._dialect.rate)
        return {"type": "websocket.receive", "text": None, "bytes": frame}

    async def send(self, message: Message) -> None:
        """Send what a message of the gateway becomes."""
        match message["type"]:
            case "websocket.accept":
                await self._send({**message, "subprotocol": self._subprotocol})
            case "websocket.send":
                event = _decode(message["text"])
                self._note(event)
                told = self._dialect.events(event)
                self._told.set()
                for one in told:
                    await self._tell(one)
            case _:
                await self._send(message)

    async def _read(self, frame: str | bytes) -> None:
        try:
            for meant in self._dialect.receive(frame):
                frames = meant if isinstance(meant, bytes) else msgspec.json.encode(meant).decode()
                self._frames.append(frames)
        except ClientFault as fault:
            await self._tell(self._dialect.refusal(fault, frame))
            await asyncio.sleep(0)  # a flood of them must not delay other sockets

    async def _wait(self, seconds: float) -> None:
        """Wait until a piece of audio may be passed on. Meanwhile TCP holds the client back."""
        pace = self._pace
        if pace is None:  # the session refuses audio, and says why
            return
        while pace.full:
            await self._news()
        await asyncio.sleep(pace.wait(self._now()))
        pace.sent(seconds, self._now())

    def _note(self, event: ServerMessage) -> None:
        match event:
            case Welcome(audio=info) if info is not None:
                self._pace = AudioPace(info, self._now())
            case AudioState() if self._pace is not None:
                if event.codec == "none":
                    self._pace.begin()
                else:
                    self._pace.settled(event.seconds)

    async def _news(self) -> None:
        """Wait until the gateway has sent something."""
        self._told.clear()
        await self._told.wait()

    async def _tell(self, event: ServerEvent) -> None:
        await self._send({"type": "websocket.send", "text": msgspec.json.encode(event).decode()})
