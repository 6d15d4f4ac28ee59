"""One socket to a gateway: how it is opened, and how it ends.

Owns: the address and its query, the sub-protocol, the first frame, and what a close code means.
Must not know: what is said on it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
import websockets
from websockets.asyncio.client import ClientConnection
from websockets.typing import Subprotocol

from gateway.protocol.handshake import SOCKET_PATH
from gateway.protocol.messages import EVENTS, ClientMessage, Error, ServerMessage, Welcome

CLOSE_S = 1.0
"""Seconds to learn the close code of a socket that was turned away."""

FINAL = frozenset((1000, 1003, 1007, 1008, 1009, 1010))
"""Close codes after which the same would only happen again, beside 4400 to 4499."""


class Refused(Exception):
    """The gateway did not do what was asked. ``error`` says why, and whether to try again."""

    def __init__(self, error: Error, code: int = 4400) -> None:
        super().__init__(error.msg + (f" {error.hint}" if error.hint else ""))
        self.error = error
        self.code = code
        """With which the socket was closed, where it was turned away."""


class ConnectionLost(ConnectionError):
    """The connection has ended. ``reconnect``: whether the protocol says to come again."""

    def __init__(self, code: int, reason: str, *, reconnect: bool | None = None) -> None:
        super().__init__(f"The connection to the gateway has ended ({code}). {reason}".strip())
        self.code = code
        self.reason = reason
        if reconnect is None:
            reconnect = code not in FINAL and not 4400 <= code < 4500
        self.reconnect = reconnect


class Transport:
    """One socket. ``replay``: events that are still to come of what was missed."""

    welcome: Welcome

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.replay = 0
        self.ended = asyncio.Event()
        self.fault: ConnectionLost | None = None
        self._wire: Any = msgspec.json
        if socket.subprotocol == "gw.v1.msgpack":
            self._wire = msgspec.msgpack
        self._decoder = self._wire.Decoder(ServerMessage)

    async def greet(self, answer_s: float) -> None:
        """Wait for ``welcome``. Raises `Refused`, `ConnectionLost`, `ConnectionError`,
        `TimeoutError`."""
        try:
            async with asyncio.timeout(answer_s):
                first = self.decode(await self.socket.recv())
        except websockets.ConnectionClosed as exc:
            raise self.loss() from exc
        except msgspec.MsgspecError as exc:
            raise ConnectionError(f"This is no gateway: {exc}.") from exc
        if isinstance(first, Error):
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self.socket.wait_closed()
            raise Refused(first, self.socket.close_code or 4400)
        if not isinstance(first, Welcome):
            raise ConnectionError(f"This is no gateway: it began with {type(first).__name__}.")
        self.welcome = first
        if first.resumed is not None and first.resumed.ok:
            self.replay = first.resumed.replayed

    async def send(self, *requests: ClientMessage) -> None:
        """Raises `websockets.ConnectionClosed`."""
        for request in requests:
            frame = self._wire.encode(request)
            await self.socket.send(frame, text=self._wire is msgspec.json)

    def loss(self) -> ConnectionLost:
        """How it ended: by its close code, which is 1006 where the peer sent none."""
        return self.fault or ConnectionLost(
            self.socket.close_code or 1006, self.socket.close_reason or ""
        )

    def decode(self, frame: str | bytes) -> ServerMessage | None:
        """The event in a frame, or None for one of a type that this version does not know."""
        try:
            event: ServerMessage = self._decoder.decode(frame)
        except msgspec.ValidationError:
            if self._wire.decode(frame).get("type") in TYPES:
                raise
            return None
        return event


class Route:
    """Where the gateway is, and what is asked of it in the query."""

    def __init__(
        self,
        url: str,
        query: dict[str, str | None],
        key: str | None,
        codec: str,
        answer_s: float,
        options: dict[str, Any],
    ) -> None:
        address(url, query)  # an address that is none is told at once
        self.query = query
        self.key = key
        self._url = url
        self._codec = codec
        self._answer_s = answer_s
        self._options = options

    async def dial(self, more: dict[str, str | None]) -> Transport:
        """Open a socket that is welcome.

        Raises `Refused`, `ConnectionLost`, `ConnectionError`, `TimeoutError`, and `ValueError` for
        what is no address."""
        url, options = self._url, dict(self._options)
        if self.key is not None:
            bearer = {"Authorization": f"Bearer {self.key}"}
            options["additional_headers"] = {**options.get("additional_headers", {}), **bearer}
        try:
            socket = await websockets.connect(
                address(url, self.query | more),
                subprotocols=[Subprotocol(f"gw.v1.{self._codec}")],
                **options,
            )
        except websockets.InvalidURI as exc:
            raise ValueError(f"{url!r} is not the address of a gateway: {exc}.") from exc
        except websockets.InvalidStatus as exc:
            raise ConnectionError(f"There is no gateway at {url}: {_refusal(exc)}") from exc
        except websockets.InvalidHandshake as exc:
            raise ConnectionError(f"There is no gateway at {url}: {exc}.") from exc
        except OSError as exc:
            why = exc.strerror or exc
            raise ConnectionError(f"There is no gateway at {url}: {why}. Is it running?") from exc
        line = Transport(socket)
        try:
            await line.greet(self._answer_s)
        except BaseException:
            await socket.close()
            raise
        return line


class _Fault(msgspec.Struct):
    """The body of a gateway's answer to a handshake that it refuses."""

    error: str


def _refusal(exc: websockets.InvalidStatus) -> str:
    """The sentence in the body of the answer, or else its status."""
    try:
        return msgspec.json.decode(exc.response.body or b"", type=_Fault).error
    except msgspec.MsgspecError:
        return f"{exc}."


TYPES = frozenset(str(event.__struct_config__.tag) for event in EVENTS)


def address(url: str, query: dict[str, str | None]) -> str:
    """The WebSocket address with its query. Raises `ValueError` for what is no address."""
    if "://" not in url:
        url = f"ws://{url}"
    parts = urlsplit(url)
    scheme, place, path, given, _ = parts
    scheme = {"http": "ws", "https": "wss"}.get(scheme, scheme)
    try:
        known = scheme in ("ws", "wss") and place and parts.port != 0
    except ValueError:  # a port that is no number
        known = False
    if not known:
        raise ValueError(f"{url!r} is not the address of a gateway, such as ws://127.0.0.1:8000.")
    pairs = parse_qsl(given) + [(key, value) for key, value in query.items() if value is not None]
    return urlunsplit(
        (scheme, place, path.rstrip("/") or SOCKET_PATH, urlencode(pairs, safe=","), "")
    )
