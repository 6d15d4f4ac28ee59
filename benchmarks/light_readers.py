"""Readers that cost little: plain sockets, and frames that are only looked at.

Owns: the handshake, the division into frames, and what is noted of each. Must not know: where the
gateways run, what is said.

Thousands of them fit into a process, so that a measurement shows the gateways and not its clients.
"""

from __future__ import annotations

import resource
import selectors
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

from gateway.protocol.codec import Codec

KINDS = ("source", "delta", "final")
"""Events that are counted."""


class Place(NamedTuple):
    """The place of a reader."""

    port: int
    room: str
    lang: str
    codec: Codec = Codec.JSON


class LightReader:
    """A reader. ``counts`` are the events that it was sent, by type."""

    def __init__(self, place: Place) -> None:
        self.counts: Counter[str] = Counter()
        self._rest = bytearray()
        self.socket = socket.create_connection(("127.0.0.1", place.port), timeout=120)
        query = f"room={place.room}&role=view&to={place.lang}"
        self.socket.sendall(
            f"GET /v1/ws?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            f"Sec-WebSocket-Protocol: {place.codec.value}\r\n\r\n".encode()
        )
        answer = bytearray()
        while b"\r\n\r\n" not in answer:
            answer += self.socket.recv(4096)
        head, _, self._rest = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        self.socket.setblocking(False)

    def read(self, lags: list[float]) -> bool:
        """Read the frames that have come, and add the lag of each delta in milliseconds; False at
        the end.
        """
        data = self.socket.recv(65_536)
        now = time.monotonic_ns()
        self._rest += data
        for frame in self._frames():
            kind = next((kind for kind in KINDS if kind.encode() in frame[:24]), None)
            if kind is None:
                continue
            self.counts[kind] += 1
            if kind == "delta" and (at := frame.find(b" t") + 2) > 1:
                lags.append((now - int(frame[at : frame.index(b";", at)])) / 1e6)
        return bool(data)

    def _frames(self) -> Iterator[bytes]:
        """Remove the complete frames, and return their payloads."""
        data, at = self._rest, 0
        while len(data) - at >= 2:
            size, head = data[at + 1], 2
            if size >= 126:
                head = 4 if size == 126 else 10
                size = int.from_bytes(data[at + 2 : at + head])
            if len(data) < at + head + size:
                break
            yield bytes(data[at + head : at + head + size])
            at += head + size
        del data[:at]


def read(pipe: Connection, places: Sequence[Place]) -> None:
    """Read in all places until told to stop; send the lags, and the events of each reader."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    lags: list[float] = []
    readers = [LightReader(place) for place in places]
    selector = selectors.DefaultSelector()
    selector.register(pipe, selectors.EVENT_READ)
    for reader in readers:
        selector.register(reader.socket, selectors.EVENT_READ, reader)
    pipe.send("here")
    while True:
        for key, _ in selector.select():
            if key.data is None:
                pipe.recv()
                pipe.send((lags, [reader.counts for reader in readers]))
                return
            if not key.data.read(lags):
                selector.unregister(key.fileobj)
