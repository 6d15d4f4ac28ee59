"""A message from one process of a gateway to another: the format, and how it is read.

Owns: the bytes and descriptors of one message until it is complete. Must not know: what a message
is for.

A message is a kind (one byte), the length of the data (four bytes, big-endian) and the data. A
message that hands a connection over carries its descriptor as SCM_RIGHTS (unix(7)). Each message
has a connection of its own, so a sender that dies halfway leaves nothing half done.
"""

from __future__ import annotations

import array
import asyncio
import os
import socket
import struct
from collections.abc import Callable

BYTES = 131_072
"""Bytes that may have been read of a connection that is handed over: a head has 32 KiB at most, and
one read returns up to 64 KiB of what follows."""
RECEIVE_S = 2.0
"""Seconds in which a message has to arrive. Its sender has all of it when it begins."""

HAND = b"H"
"""Kind of a message that hands a connection over."""
ASK = b"A"
"""Kind of a message that asks for the answer of `gateway.server.cluster.fd_passing`."""
HEADER = struct.Struct("!cI")


class IncomingMessage:
    """A message that is being received.

    :param peer: the socket that it comes from, which this object owns until the end
    :param ended: called once, when the message is complete or cannot be completed any more
    """

    def __init__(self, peer: socket.socket, ended: Callable[[IncomingMessage], None]) -> None:
        self.peer = peer
        self.complete = False
        """True once all of the message has come. The receiver owns `descriptors` and `peer` then.
        """
        self.kind = b""
        self.data = b""
        self.descriptors: list[int] = []
        self._ended = ended
        self._buffer = bytearray()
        self._over = False
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.call_later(RECEIVE_S, self.discard)
        self._loop.add_reader(peer, self._read)

    def discard(self) -> None:
        """End an incomplete message, and close all that came with it. Idempotent."""
        if not self._over:
            self._stop_reading()
            self.peer.close()
            for descriptor in self.descriptors:
                os.close(descriptor)
            self._ended(self)

    def _stop_reading(self) -> None:
        self._over = True
        self._deadline.cancel()
        self._loop.remove_reader(self.peer)

    def _read(self) -> None:
        try:
            data, descriptors = _receive(self.peer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.discard()
            return
        self.descriptors += descriptors
        self._buffer += data
        if not data or len(self.descriptors) > 1:
            self.discard()
            return
        if len(self._buffer) < HEADER.size:
            return
        self.kind, size = HEADER.unpack_from(self._buffer)
        if size > BYTES or len(self._buffer) > HEADER.size + size:
            self.discard()
        elif len(self._buffer) == HEADER.size + size:
            self._stop_reading()
            self.data = bytes(self._buffer[HEADER.size :])
            self.complete = True
            self._ended(self)


def _receive(peer: socket.socket) -> tuple[bytes, list[int]]:
    """Read bytes and descriptors. Children of this process inherit none of the descriptors."""
    found = array.array("i")
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    # A sender that passes more than one descriptor is refused, but those that were received have to
    # be closed. Three fit here; the kernel closes any further ones itself.
    data, extra, _, _ = peer.recvmsg(65_536, socket.CMSG_LEN(3 * found.itemsize), flags)
    for level, kind, body in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(body[: len(body) - len(body) % found.itemsize])
    if not flags:  # macOS
        for descriptor in found:
            os.set_inheritable(descriptor, False)
    return data, found.tolist()


def tcp_connection(descriptors: list[int]) -> socket.socket | None:
    """Return the one descriptor as a socket if it is a TCP connection, else None.

    The descriptors stay open if the result is None.
    """
    if len(descriptors) != 1:
        return None
    try:
        made = socket.socket(fileno=descriptors[0])
    except OSError:  # a file
        return None
    try:
        if made.family not in (socket.AF_INET, socket.AF_INET6) or made.type != socket.SOCK_STREAM:
            made.detach()
            return None
        if made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):  # a listener
            made.detach()
            return None
        made.setblocking(False)
    except OSError:
        made.detach()
        return None
    return made
