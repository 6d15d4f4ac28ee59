"""CPU load of a thousand speaking sessions on one core.

    python -m benchmarks.active [--sessions 1000] [--pace 0.02] [--seconds 10]

A gateway with the scripted engine is pinned to one core. Each session is in a room of its own and
says its next utterance when the caption of the last has ended, so that it reads one delta in every
``pace`` seconds. CPU time is that of the whole server, from the scheduler. The server keeps up if
it uses less than its core and as many deltas arrive as should. Otherwise the exit status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time

import uvloop

from benchmarks import host
from benchmarks.speakers import WORDS, begin, invite

WARM_S = 3.0
KEEPS_UP = 0.98
"""Share of the due deltas that must arrive. Every utterance begins with a wait for its `say`."""


async def measure(server: host.Host, sessions: int, pace: float, seconds: float) -> bool:
    """Print the results, and return whether the server kept up."""
    speakers = await invite(server.port, sessions)
    await begin(speakers, pace * WORDS)  # not all at once
    await asyncio.sleep(WARM_S)
    for speaker in speakers:
        speaker.gaps.clear()
    deltas = sum(speaker.deltas for speaker in speakers)
    since, cpu, own = time.monotonic(), server.cpu(), time.process_time()
    await asyncio.sleep(seconds)
    taken = time.monotonic() - since
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
    core = host.settle(options.sessions)
    gc.freeze()
    with host.gateway(*host.paced(options.pace), *host.ROOMY, core=core) as server:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            kept_up = runner.run(measure(server, options.sessions, options.pace, options.seconds))
    print("met" if kept_up else "NOT MET", "one core keeps up", sep=": ")
    sys.exit(not kept_up)


if __name__ == "__main__":
    main()
