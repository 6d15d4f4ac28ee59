"""A single socket to a gateway.

Owns: the address and its query, the sub-protocol, the first frame, and the meaning of close codes.
Must not know: the requests and events on it.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
import websockets
from websockets.asyncio.client import ClientConnection
from websockets.typing import Subprotocol

from gateway.protocol.audio import AudioChunk
from gateway.protocol.handshake import SOCKET_PATH
from gateway.protocol.messages import EVENTS, ClientMessage, ServerMessage, Welcome
from gateway.protocol.notices import Error

CLOSE_S = 1.0
"""Seconds to wait for the close code of a socket that was refused."""

FINAL = frozenset((1000, 1003, 1007, 1008, 1009, 1010))
"""Close codes after which reconnecting is useless, besides 4400 to 4499."""


class Refused(Exception):
    """The gateway refused a request or a connection.

    ``error`` has the code and tells whether a retry may succeed.
    """

    def __init__(self, error: Error, code: int = 4400) -> None:
        super().__init__(error.msg + (f" {error.hint}" if error.hint else ""))
        self.error = error
        self.code = code
        """Close code of the socket, if a connection was refused."""


class ConnectionLost(ConnectionError):
    """The connection has ended, with a close ``code`` and ``reason``.

    ``reconnect`` is True if the protocol allows connecting again after this code.
    """

    def __init__(self, code: int, reason: str, *, reconnect: bool | None = None) -> None:
        super().__init__(f"The connection to the gateway has ended ({code}). {reason}".strip())
        self.code = code
        self.reason = reason
        if reconnect is None:
            reconnect = code not in FINAL and not 4400 <= code < 4500
        self.reconnect = reconnect


class Transport:
    """A socket and the codec of its frames."""

    welcome: Welcome

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.replay = 0  # number of missed events that are still to be received
        self.ended = asyncio.Event()
        self.fault: ConnectionLost | None = None
        # JSON is the default of a server that does not answer the offer.
        packed = socket.subprotocol == "gw.v1.msgpack"
        self._wire: Any = msgspec.msgpack if packed else msgspec.json
        self._decoder = self._wire.Decoder(ServerMessage)

    async def greet(self, answer_s: float) -> None:
        """Wait for ``welcome``.

        Raises `Refused` or `ConnectionLost` if the gateway refuses the connection,
        `ConnectionError` if the server is not a gateway, `TimeoutError` after ``answer_s`` seconds.
        """
        try:
            async with asyncio.timeout(answer_s):
                first = self.decode(await self.socket.recv())
        except websockets.ConnectionClosed as exc:
            raise self.loss() from exc
        except msgspec.MsgspecError as exc:
            raise ConnectionError(f"This is not a gateway: {exc}.") from exc
        # A refusal is an `error`, followed by a close with the code that says what to do.
        if isinstance(first, Error):
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self.socket.wait_closed()
            raise Refused(first, self.socket.close_code or 4400)
        # Some other WebSocket server.
        if not isinstance(first, Welcome):
            raise ConnectionError(f"This is not a gateway: it began with {type(first).__name__}.")
        self.welcome = first
        if first.resumed is not None and first.resumed.ok:
            self.replay = first.resumed.replayed

    async def send(self, *requests: ClientMessage | bytes) -> None:
        """Send frames; `bytes` are audio. Raises `websockets.ConnectionClosed`."""
        as_text = self._wire is msgspec.json
        for request in requests:
            if isinstance(request, bytes) and as_text:
                await self.socket.send(request)
                continue
            message = AudioChunk(data=request) if isinstance(request, bytes) else request
            await self.socket.send(self._wire.encode(message), text=as_text)

    def loss(self) -> ConnectionLost:
        """Return the reason for the end. The code is 1006 if the peer sent no close frame."""
        return self.fault or ConnectionLost(
            self.socket.close_code or 1006, self.socket.close_reason or ""
        )

    def decode(self, frame: str | bytes) -> ServerMessage | None:
        """Return the event in a frame, None for an unknown type. Raises `msgspec.MsgspecError`."""
        try:
            event: ServerMessage = self._decoder.decode(frame)
        except msgspec.ValidationError:
            # A newer gateway may send events that this version does not know.
            if self._wire.decode(frame).get("type") in TYPES:
                raise
            return None
        return event


@dataclass(repr=False)  # the key, and headers among the options, are secret
class Route:
    """Address, query, key and encoding of one client's sockets. Raises `ValueError`."""

    url: str
    query: dict[str, str | None]
    key: str | None
    codec: str
    answer_s: float
    options: dict[str, Any]
    """Further arguments of `websockets.asyncio.client.connect`."""

    def __post_init__(self) -> None:
        address(self.url, self.query)

    async def dial(self, more: dict[str, str | None]) -> Transport:
        """Open a socket and wait for ``welcome``. Raises as `Transport.greet`, and `ValueError`."""
        url, options = self.url, dict(self.options)
        # In a header, and not in the query, since URLs end up in logs.
        if self.key is not None:
            bearer = {"Authorization": f"Bearer {self.key}"}
            options["additional_headers"] = {**options.get("additional_headers", {}), **bearer}
        try:
            socket = await websockets.connect(
                address(url, self.query | more),
                subprotocols=[Subprotocol(f"gw.v1.{self.codec}")],
                **options,
            )
        except websockets.InvalidURI as exc:
            raise ValueError(f"{url!r} is not the address of a gateway: {exc}.") from exc
        except websockets.InvalidHandshake as exc:
            raise ConnectionError(f"There is no gateway at {url}: {_refusal(exc)}") from exc
        except ssl.SSLError as exc:
            raise ConnectionError(f"TLS with {url} failed: {_tls_fault(exc)}") from exc
        except OSError as exc:
            why = exc.strerror or exc
            raise ConnectionError(f"There is no gateway at {url}: {why}. Is it running?") from exc
        transport = Transport(socket)
        try:
            await transport.greet(self.answer_s)
        except BaseException:  # a cancelled caller must not leave a socket open either
            await socket.close()
            raise
        return transport


class _Fault(msgspec.Struct):
    """Body of a gateway's answer to a handshake that it refuses."""

    error: str


def _refusal(exc: websockets.InvalidHandshake) -> str:
    """Return the sentence in the body of a gateway's answer, or the error if there is none."""
    body = exc.response.body if isinstance(exc, websockets.InvalidStatus) else None
    try:
        return msgspec.json.decode(body or b"", type=_Fault).error
    except msgspec.MsgspecError:
        return f"{exc}."


def _tls_fault(exc: ssl.SSLError) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted ({exc.verify_message})."
    if exc.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "the server does not speak TLS. Use ws:// instead of wss://."
    return f"{exc.reason or exc}."


TYPES = frozenset(str(event.__struct_config__.tag) for event in EVENTS)


def address(url: str, query: dict[str, str | None]) -> str:
    """Return the WebSocket URL with its query. Raises `ValueError` if ``url`` is not an address.

    :param url: address of the gateway, which may be mounted below a path, or of its sockets
    """
    # People type a host and a port.
    if "://" not in url:
        url = f"ws://{url}"
    # Port 0 cannot be connected to, and is a typical mistake with `--port 0`.
    parts = urlsplit(url)
    scheme, place, path, given, _ = parts
    scheme = {"http": "ws", "https": "wss"}.get(scheme, scheme)
    try:
        known = scheme in ("ws", "wss") and place and parts.port != 0
    except ValueError:  # the port is not a number
        known = False
    if not known:
        raise ValueError(f"{url!r} is not the address of a gateway, such as ws://127.0.0.1:8000.")
    pairs = parse_qsl(given) + [(key, value) for key, value in query.items() if value is not None]
    path = path.rstrip("/").removesuffix(SOCKET_PATH) + SOCKET_PATH
    return urlunsplit((scheme, place, path, urlencode(pairs, safe=","), ""))
