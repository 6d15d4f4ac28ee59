"""The WebSocket protocol on uvicorn, where it leaves something out.

Owns: what becomes of a handshake that cannot be read, and of a frame that is not UTF-8. Must not
know: what is served. It is given to uvicorn as ``ws=``, a public option that takes a class.
"""

from __future__ import annotations

import logging

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class Upgrade(WebSocketsSansIOProtocol):
    """Answers a handshake that is too long, which uvicorn leaves without any answer for ever.

    websockets refuses a request line or header over 8 KiB, and too many headers, with 414 or 431.
    """

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()


def quiet(record: logging.LogRecord) -> bool:
    """Whether a record of uvicorn's is worth a line: a client's bad UTF-8 is no fault of ours."""
    return record.msg != "Invalid UTF-8 sequence received from client."
