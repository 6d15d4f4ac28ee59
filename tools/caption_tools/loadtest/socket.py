"""A WebSocket client with little overhead, on picows: no task and no queue for a socket.

Owns: joining fragments, the close code. Must not know: what messages mean, when
anything is sent.

picows parses and masks frames in C. A client in Python would do more work for each frame than the
gateway does to make it, and the client would be measured instead.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from picows import (
    WSCloseCode,
    WSError,
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    ws_connect,
)

MOST = 16_777_216  # largest message in bytes. No message of a gateway is near it
UNSENT = 1_048_576
"""Bytes that may wait to be sent. Beyond that the gateway does not read, and nothing more is sent.
"""
LOST = 1006  # close code if no close frame came (RFC 6455, section 7.1.5)


def tls(url: str) -> ssl.SSLContext | None:
    """Return the TLS context for an address, or None. All sockets of a process share it."""
    return ssl.create_default_context() if url.startswith(("wss:", "https:")) else None


class Socket(WSListener):
    """A WebSocket.

    :param heard: called with the payload of each message
    :param gone: called once with close code and reason when the open socket has ended, unless
        `close` was called before
    """

    def __init__(
        self,
        url: str,
        context: ssl.SSLContext | None,
        wire: str,
        bearer: str | None,
        heard: Callable[[bytes], None],
        gone: Callable[[int, str], None],
    ) -> None:
        self.open = False
        self.heard = heard
        self._url = url
        self._tls = context
        self._kind = WSMsgType.BINARY if wire == "gw.v1.msgpack" else WSMsgType.TEXT
        self._headers = {"Sec-WebSocket-Protocol": wire}
        if bearer is not None:
            self._headers["Authorization"] = f"Bearer {bearer}"
        self._on_closed = gone
        self._begun = b""
        self._ended = (LOST, "")
        self._closing = False
        self._transport: WSTransport

    async def connect(self) -> None:
        """Open the socket. Raises `OSError`, `ConnectionError` among them."""
        try:
            await ws_connect(
                lambda: self,
                self._url,
                ssl_context=self._tls,
                websocket_handshake_timeout=None,
                extra_headers=self._headers,
                max_redirects=0,
                max_frame_size=MOST,
                use_aiofastnet=False,
            )
        except WSError as exc:
            raise ConnectionError(f"There is no gateway, or it is full: {exc}.") from exc
        except asyncio.CancelledError:
            self._closing = True
            raise
        # picows reports a connection that ends before the handshake as success.
        if not hasattr(self, "_transport"):
            raise ConnectionError("The gateway hung up.")

    @property
    def full(self) -> bool:
        """True if the gateway has left so much unread that nothing more can be sent."""
        return self._transport.underlying_transport.get_write_buffer_size() > UNSENT

    def send(self, payload: bytes) -> None:
        """Send one message at once."""
        self._transport.send(self._kind, payload)

    def close(self) -> None:
        """Send a close frame and close, without waiting for the answer."""
        self._closing = True
        if self.open:
            self.open = False
            self._transport.send_close(WSCloseCode.OK)
            self._transport.disconnect()

    # --- picows.WSListener ----------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        self.open = not self._closing
        if self._closing:  # the wait for it has timed out
            transport.disconnect()

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if kind == WSMsgType.CLOSE:
            payload = frame.get_payload_as_bytes()
            # A close frame without a code is 1005 (RFC 6455, section 7.1.5).
            code = int.from_bytes(payload[:2]) if len(payload) > 1 else 1005
            self._ended = code, payload[2:].decode(errors="replace")
            self.open = False
            transport.send_close(WSCloseCode.OK)
            transport.disconnect()
        elif kind != WSMsgType.PONG and kind != WSMsgType.PING:
            payload = self._begun + frame.get_payload_as_bytes()
            self._begun = b"" if frame.fin else payload
            if frame.fin:
                self.heard(payload)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.open = False
        if not self._closing:
            self._on_closed(*self._ended)
