"""The lower bound: the same frames, prepared, written by an `asyncio.Protocol`.

Owns: a server that does nothing but the handshake and `transport.write`. Must not know: what is
measured. No gateway in Python can cost less: there is no HTTP server, no room, no id, no text.

With ``kernel=1`` in the query a reader is written to by `os.write` instead: the kernel's cost of a
frame, and some 0.2 us of calling it.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha1
from itertools import count
from typing import cast
from urllib.parse import parse_qs, urlsplit

from benchmarks.stepper import SOURCE, Stepper
from gateway.errors import EngineFault
from gateway.job import Chunk, Job

Write = Callable[[bytes], object]


class Frames:
    """The frames of every stream. ``first`` has the engine's time in the place of ``stamp``."""

    def __init__(
        self,
        welcome: bytes,
        before: Sequence[bytes],
        deltas: Sequence[bytes],
        stamp: bytes,
        after: bytes,
    ) -> None:
        self.welcome = welcome
        self.before = before
        self.deltas = deltas
        self.stamp = stamp
        self.after = after


class Floor:
    """The server: its streams, and the readers of each room."""

    def __init__(self, stepper: Stepper, frames: Frames) -> None:
        self.stepper = stepper
        self.frames = frames
        self.rooms: dict[str, list[Write]] = {}
        self.jobs = count(1)

    def __call__(self) -> Raw:
        return Raw(self)


class Stream:
    """The `Sink` of one stream: frame after frame to all its readers."""

    __slots__ = ("_frames", "_n", "_writes")

    def __init__(self, frames: Frames, writes: Sequence[Write]) -> None:
        self._frames = frames
        self._writes = writes
        self._n = 0

    def chunk(self, chunk: Chunk) -> None:
        frame = self._frames.deltas[self._n]
        if not self._n:
            frame = frame.replace(self._frames.stamp, chunk.text.encode())
        self._n += 1
        for write in self._writes:
            write(frame)

    def end(self, fault: EngineFault | None) -> None:
        if fault is None:
            for write in self._writes:
                write(self._frames.after)


class Raw(asyncio.Protocol):
    """One socket. Any frame is an utterance."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._open = False
        self._writes: list[Write] = []
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._open:
            self._shake(data)
            return
        frames = self._floor.frames
        for write in self._writes:
            for frame in frames.before:
                write(frame)
        job = Job(id=f"raw{next(self._floor.jobs)}", text=SOURCE, source="en", target="de")
        self._floor.stepper.submit(job, Stream(frames, self._writes))

    def _shake(self, data: bytes) -> None:
        head, *lines = data.decode("latin-1").split("\r\n")
        key = next(v for k, _, v in (line.partition(": ") for line in lines) if k.endswith("-Key"))
        accept = b64encode(sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest())
        self._transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Protocol: gw.v1.json\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        self._transport.write(self._floor.frames.welcome)
        self._open = True
        query = parse_qs(urlsplit(head.split(" ")[1]).query)
        write: Write = self._transport.write
        if "kernel" in query:
            write = partial(os.write, self._transport.get_extra_info("socket").fileno())
        if "room" in query:
            self._writes = self._floor.rooms.setdefault(query["room"][0], [])
            if "to" in query:
                self._writes.append(write)
        else:
            self._writes = [write]
