"""What a thousand speaking sessions cost one core.

    python -m benchmarks.active [--sessions 1000] [--pace 0.02] [--seconds 10]

A gateway with the scripted engine, pinned to one core; each session sits in a room of its own and
says its next utterance when the caption of the last has ended, so that it reads one delta in every
``pace``: fifty a second. CPU is the server's own, from the scheduler, over all that it does: the
engine, captions, frames, sockets. It keeps up where it uses less than its core and as many deltas
arrive as there should. Ends with status 1 where it does not.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import time
from typing import cast

import uvloop

from benchmarks import host
from benchmarks.client import HANDSHAKE

WORDS = 50
"""Of an utterance. The scripted engine answers with one delta more."""
SAY = b" ".join(b"word%02d" % n for n in range(WORDS))
AT_ONCE = 50
WARM_S = 3.0
KEEPS_UP = 0.98
"""Share of the deltas due that have to arrive: every utterance begins with a wait for its `say`."""


class Speaker(asyncio.Protocol):
    """Says something, reads it, says the next. It looks for types and reads nothing else."""

    def __init__(self) -> None:
        self.deltas = 0
        self.finals = 0
        self.gaps: list[float] = []
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
            self.finals += 1
            self._last = 0.0
            self._transport.write(self._say)
        elif b'"type":"error"' in data or b'"type":"failed"' in data:
            raise ConnectionError(data.decode(errors="replace"))

    def begin(self) -> None:
        self._transport.write(self._say)

    def close(self) -> None:
        self._transport.abort()


async def measure(server: host.Host, sessions: int, pace: float, seconds: float) -> bool:
    """Print what it took; whether the server kept up."""
    loop = asyncio.get_running_loop()
    speakers: list[Speaker] = []
    for at in range(0, sessions, AT_ONCE):
        pairs = await asyncio.gather(
            *(
                loop.create_connection(Speaker, "127.0.0.1", server.port)
                for _ in range(min(AT_ONCE, sessions - at))
            )
        )
        speakers += [speaker for _, speaker in pairs]
    async with asyncio.timeout(60):
        await asyncio.gather(*(speaker.open for speaker in speakers))
    for speaker in speakers:
        speaker.begin()
        await asyncio.sleep(pace * WORDS / sessions)  # they do not all begin at once
    await asyncio.sleep(WARM_S)
    for speaker in speakers:
        speaker.gaps.clear()
    deltas = sum(speaker.deltas for speaker in speakers)
    begun, cpu, own = time.monotonic(), server.cpu(), time.process_time()
    await asyncio.sleep(seconds)
    taken = time.monotonic() - begun
    cpu, own = server.cpu() - cpu, time.process_time() - own
    deltas = sum(speaker.deltas for speaker in speakers) - deltas
    gaps = sorted(gap for speaker in speakers for gap in speaker.gaps)
    for speaker in speakers:
        speaker.close()
    due = sessions / pace * taken
    print(f"{sessions} sessions, a delta every {1000 * pace:g} ms each, for {taken:.0f} s")
    print(f"  deltas    {deltas / taken:,.0f} a second, {deltas / due:.1%} of what was due")
    print(f"  server    {1e6 * cpu / deltas:.1f} us of CPU a delta, {cpu / taken:.0%} of its core")
    print(f"  between two deltas of one caption: {_quantiles(gaps)}")
    print(f"  memory    {server.memory() / sessions / 1000:.0f} KB a session, all in")
    print(f"  client    {own / taken:.0%} of its core")
    return deltas >= KEEPS_UP * due


def _quantiles(gaps: list[float]) -> str:
    p50, p99 = (1000 * gaps[int(len(gaps) * at)] for at in (0.5, 0.99))
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {1000 * gaps[-1]:.0f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--pace", type=float, default=0.02)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    host.files(options.sessions + 500)
    first, last = host.cores()
    if last is not None:
        os.sched_setaffinity(0, {last})
    engine = ("--scripted-pace", str(options.pace), "--scripted-delay", str(options.pace))
    gc.freeze()
    with host.gateway(*engine, *host.ROOMY, core=first) as server:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            kept_up = runner.run(measure(server, options.sessions, options.pace, options.seconds))
    print("met" if kept_up else "NOT MET", "one core keeps up", sep=": ")
    sys.exit(not kept_up)


if __name__ == "__main__":
    main()
