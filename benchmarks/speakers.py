"""Speakers of a benchmark: each says something, reads it, and says the next.

Owns: the sockets, and their counts. Must not know: what is measured. They only look for the types
of frames, so that a thousand of them cost a core little.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import cast

from benchmarks.client import HANDSHAKE

WORDS = 50
"""Words of an utterance. The scripted engine answers with one delta more."""
SAY = b" ".join(b"word%02d" % n for n in range(WORDS))
AT_ONCE = 50
START_S = 60.0
"""Seconds within which all sockets that connect together must be accepted."""


class Speaker(asyncio.Protocol):
    """One session in a room of its own."""

    def __init__(self) -> None:
        self.deltas = 0
        self.gaps: list[float] = []
        """Seconds between two deltas of one caption."""
        self.open = asyncio.get_running_loop().create_future()
        self._last = 0.0
        self._say = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(HANDSHAKE.format(query="from=en&to=de").encode())
        head = bytes((0x81, 0x80 | 126)) + len(SAY).to_bytes(2) + b"\0\0\0\0"
        self._say = head + SAY

    def data_received(self, data: bytes) -> None:
        if not self.open.done():
            if b'"type":"welcome"' in data:
                self.open.set_result(None)
            return
        deltas = data.count(b'"type":"delta"')
        if deltas:
            now = time.monotonic()
            self.deltas += deltas
            if self._last:
                self.gaps.append(now - self._last)
            self._last = now
        if b'"type":"final"' in data:
            self._last = 0.0
            self._transport.write(self._say)
        elif b'"type":"error"' in data or b'"type":"failed"' in data:
            raise ConnectionError(data.decode(errors="replace"))

    def begin(self) -> None:
        """Say the first utterance."""
        self._transport.write(self._say)

    def close(self) -> None:
        """Close the socket."""
        self._transport.abort()


async def invite(port: int, count: int) -> list[Speaker]:
    """Return connected speakers that have not begun.

    Raises `TimeoutError` if not all are accepted.
    """
    loop = asyncio.get_running_loop()
    speakers: list[Speaker] = []
    async with asyncio.timeout(START_S):
        for at in range(0, count, AT_ONCE):
            some = range(min(AT_ONCE, count - at))
            pairs = await asyncio.gather(
                *(loop.create_connection(Speaker, "127.0.0.1", port) for _ in some)
            )
            speakers += [speaker for _, speaker in pairs]
        await asyncio.gather(*(speaker.open for speaker in speakers))
    return speakers


async def begin(speakers: Sequence[Speaker], seconds: float) -> None:
    """Let all speakers begin, one after the other within these seconds."""
    for speaker in speakers:
        speaker.begin()
        await asyncio.sleep(seconds / len(speakers))
