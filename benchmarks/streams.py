"""A load for servers on a GPU: many streams at once from one process, in closed loop.

    python -m benchmarks.streams

A child of `benchmarks.gpu`: reads one command a line, `{"how": "socket" | "sse", "port", "name",
"streams", "count", "seed"}`, puts that load on the server, and answers with one line, a `Tally`.
Texts and lengths are the same for every server: prompts of 50 to 240 tokens, outputs of 10 to 199.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

BUSY_S = 0.05
"""Seconds after which a refused utterance is said again."""
FIRST = 3
"""Id of the first one-character token of `benchmarks.gpu.model`."""
MORE = 40
"""Characters, which are tokens, that a text has more than its output."""

WORDS = "we should have the next meeting about this report before they finish their work".split()
"""English words: a gateway refuses a text that is in another language than it was said to be."""


def lengths(count: int, seed: int) -> Iterator[tuple[str, int]]:
    """Return (text, output tokens)."""
    rng = random.Random(seed)
    for _ in range(count):
        tokens = rng.randrange(10, 200)
        words = (rng.choice(WORDS) for _ in range(MORE + tokens))
        yield " ".join(words)[: MORE + tokens - 1] + ".", tokens


def prompt(text: str) -> list[int]:
    """Return token ids of a text, for servers that take no text."""
    return [FIRST + ord(letter) % 90 for letter in text]


class Tally:
    """The results of the streams of one process. Times are in seconds."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.gaps: list[float] = []
        self.whole: list[float] = []
        self.tokens = 0
        self.pieces = 0
        """Messages with text: fewer than tokens if several are merged."""
        self.refused = 0
        """Utterances that were answered ``busy`` and said again."""
        self.wall = 0.0
        self.cpu = 0.0
        """CPU seconds of this process: at a full core the client itself was measured."""

    async def watch(self, pieces: AsyncIterator[Any], tokens: int) -> None:
        """Time an async iterator that yields whenever text arrives."""
        begun = last = time.perf_counter()
        first = True
        async for _ in pieces:
            now = time.perf_counter()
            (self.first if first else self.gaps).append(now - last)
            first, last = False, now
            self.pieces += 1
        self.whole.append(time.perf_counter() - begun)
        self.tokens += tokens

    async def run(
        self, streams: int, count: int, seed: int, one: Callable[[Any], Awaitable[None]]
    ) -> None:
        """Keep ``streams`` running until ``count`` are done: a closed loop."""
        jobs = lengths(count, seed)
        cpu, begun = time.process_time(), time.perf_counter()
        await asyncio.gather(*(one(jobs) for _ in range(streams)))
        self.wall = time.perf_counter() - begun
        self.cpu = time.process_time() - cpu


async def socket(port: int, streams: int, count: int, seed: int, **_: Any) -> Tally:
    """Open a WebSocket in this gateway's protocol."""
    from websockets.asyncio.client import connect

    tally = Tally()

    async def one(jobs: Iterator[tuple[str, int]]) -> None:
        url = f"ws://127.0.0.1:{port}/v1/ws?from=en&to=de"
        async with connect(url, compression=None, max_size=None, ping_interval=None) as ws:
            await ws.recv()

            async def pieces(text: str) -> AsyncIterator[Any]:
                await ws.send(text)
                async for frame in ws:
                    if '"delta"' in frame:
                        yield frame
                    elif '"final"' in frame:
                        return
                    elif '"busy"' in frame:
                        tally.refused += 1
                        await asyncio.sleep(BUSY_S)
                        await ws.send(text)
                    elif '"failed"' in frame or '"error"' in frame:
                        raise RuntimeError(frame)

            for text, tokens in jobs:
                await tally.watch(pieces(text), tokens)

    await tally.run(streams, count, seed, one)
    return tally


async def sse(port: int, name: str, streams: int, count: int, seed: int, **_: Any) -> Tally:
    """Stream from ``/v1/completions`` of vLLM's own servers."""
    tally = Tally()

    async def one(jobs: Iterator[tuple[str, int]]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def pieces(body: bytes) -> AsyncIterator[Any]:
            head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            tail = b""
            while not tail.endswith(b"0\r\n\r\n"):
                data = await reader.read(65_536)
                if not data:
                    raise ConnectionError
                tail = tail[-64:] + data
                if b'"text_completion"' in data:
                    yield data

        for text, tokens in jobs:
            body = {"model": name, "prompt": prompt(text), "max_tokens": tokens, "temperature": 0}
            body |= {"ignore_eos": True, "stream": True}
            await tally.watch(pieces(json.dumps(body).encode()), tokens)
        writer.close()

    await tally.run(streams, count, seed, one)
    return tally


def main() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        load = socket if command.pop("how") == "socket" else sse
        print(json.dumps(vars(asyncio.run(load(**command)))), flush=True)


if __name__ == "__main__":
    main()
