"""OpenAI's realtime sockets: ``/v1/realtime`` and ``/v1/realtime/translations``.

Owns: the translation between a client of these sockets and the endpoint of ``/v1/ws``, whose
limits, keys, outboxes and close codes apply, and holding back a client whose audio comes too fast.
Must not know: what events mean (`gateway.server.realtime`), how a session works, when audio is too
fast.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

import msgspec
from starlette.datastructures import QueryParams
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.protocol.codec import Codec
from gateway.protocol.handshake import BEARER_PREFIX, SOCKET_PATH
from gateway.protocol.messages import ClientMessage, ServerMessage
from gateway.server.realtime.dialect import Dialect
from gateway.server.routes.websocket import HELD
from gateway.server.uvicorn.websocket import WRITER, WebSocketProtocol

KEY_PREFIX = "openai-insecure-api-key."
"""Prefix of the sub-protocol in which OpenAI's browser client sends its key."""
REALTIME = "realtime"
"""Sub-protocol that OpenAI's browser client offers, and expects in the answer."""

AHEAD = 65_536
"""Bytes that are read of a client that is held back, so that its end is seen: it stands behind
them. Beyond this TCP holds the client back."""
MESSAGE_BYTES = 512
"""Memory of a message beside its text."""

_decode = msgspec.json.Decoder(ServerMessage).decode


class RealtimeEndpoint:
    """The ASGI application of one of the sockets, around that of ``/v1/ws``."""

    def __init__(self, socket: ASGIApp, dialect: Callable[[Mapping[str, str]], Dialect]) -> None:
        self._socket = socket
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        dialect = self._dialect(QueryParams(scope["query_string"]))
        translated = _Translated(dialect, scope, receive, send)
        keys = [
            BEARER_PREFIX + name.removeprefix(KEY_PREFIX)
            for name in scope.get("subprotocols", ())
            if name.startswith(KEY_PREFIX)
        ]
        extensions = {**scope.get("extensions", {}), HELD: translated}
        extensions.pop(WRITER, None)  # every frame must come through `send`, to be translated
        inner = {
            **scope,
            "path": SOCKET_PATH,
            "query_string": urlencode(dialect.query).encode(),
            "subprotocols": [Codec.JSON.value, *keys],
            "extensions": extensions,
        }
        await self._socket(inner, translated.receive, translated.send)


class _Translated:
    """The ``receive`` and ``send`` that the endpoint of ``/v1/ws`` is given.

    The client is held back while the session takes no more audio.
    """

    def __init__(self, dialect: Dialect, scope: Scope, receive: Receive, send: Send) -> None:
        self._dialect = dialect
        self._subprotocol = REALTIME if REALTIME in scope.get("subprotocols", ()) else None
        self._receive = receive
        self._send = send
        self._protocol: WebSocketProtocol | None = scope.get("extensions", {}).get(WRITER)
        self._ahead: deque[Message] = deque()
        self._bytes = 0
        self._frames: deque[ClientMessage | str | bytes] = deque()
        self.delay: Callable[[], float] = float  # 0.0 until the session is open

    async def _message(self) -> Message:
        """Return the next message when the session has room for it; the end of the client at once.

        The last audio of a client is not heard if it leaves while it is held back.
        """
        while (delay := self.delay()) > 0:
            end = await self._read_ahead(delay)
            if end is not None:
                return end
        if not self._ahead:
            return await self._receive()
        message = self._ahead.popleft()
        self._bytes -= _size(message)
        return message

    async def _read_ahead(self, seconds: float) -> Message | None:
        """Read for some seconds; return the end of the client if it comes."""
        try:
            async with asyncio.timeout(seconds):
                while self._bytes < AHEAD:
                    message = await self._receive()
                    if message["type"] != "websocket.receive":
                        return message
                    self._ahead.append(message)
                    self._bytes += _size(message)
                await asyncio.sleep(seconds)
        except TimeoutError:
            pass
        if self._protocol is not None and self._protocol.transport.is_closing():
            # A client that is gone answers no ping, however much it has sent before.
            return {"type": "websocket.disconnect", "code": 1006}
        return None

    async def receive(self) -> Message:
        """Return the next frame of the gateway's protocol that the client means."""
        while not self._frames:
            message = await self._message()
            if message["type"] != "websocket.receive":
                return message
            frame = message.get("text")
            self._frames.extend(self._dialect.receive(message["bytes"] if frame is None else frame))
            # A flood of events that mean nothing must not delay other sockets.
            await asyncio.sleep(0)
        frame = self._frames.popleft()
        if isinstance(frame, bytes):
            return {"type": "websocket.receive", "text": None, "bytes": frame}
        text = frame if isinstance(frame, str) else msgspec.json.encode(frame).decode()
        return {"type": "websocket.receive", "text": text}

    async def send(self, message: Message) -> None:
        """Send the events that a message of the gateway becomes."""
        match message["type"]:
            case "websocket.accept":
                await self._send({**message, "subprotocol": self._subprotocol})
            case "websocket.send":
                for event in self._dialect.events(_decode(message["text"])):
                    text = msgspec.json.encode(event).decode()
                    await self._send({"type": "websocket.send", "text": text})
            case _:
                await self._send(message)


def _size(message: Message) -> int:
    return MESSAGE_BYTES + len(message.get("text") or message.get("bytes") or "")
