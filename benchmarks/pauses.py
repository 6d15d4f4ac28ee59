"""Pauses of the garbage collector.

    python -m benchmarks.pauses [--sessions 5000] [--speaking 200] [--seconds 20]

Two gateways with the scripted engine: one as it is, one with CPython's own collector settings. Many
clients connect to each and stay; then some of them speak, and read fifty deltas a second each.
Pauses are those of ``gateway_gc_pause_seconds``, in CPU time. The exit status is 1 if a goal is
missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import re
import sys

import uvloop

from benchmarks import host
from benchmarks.idle import connect
from benchmarks.speakers import begin, invite

GOAL_RAMP_MS = 20.0
GOAL_STEADY_MS = 5.0
PACE_S = 0.02
BUCKET = re.compile(r'gateway_gc_pause_seconds_bucket\{le="(.+)"\}')


class Pauses:
    """The pauses in the metrics at one moment."""

    def __init__(self, samples: dict[str, float]) -> None:
        self.longest = 1000 * samples["gateway_gc_pause_longest_seconds"]
        self.total = 1000 * samples["gateway_gc_pause_seconds_sum"]
        found = ((BUCKET.fullmatch(name), count) for name, count in samples.items())
        self.upto = {1000 * float(match[1]): count for match, count in found if match}

    def most(self, before: Pauses) -> float:
        """Return the longest since ``before``, or the next bound of the histogram above it."""
        if self.longest > before.longest:
            return self.longest
        steps = sorted(self.upto)
        new = [self.upto[step] - before.upto[step] for step in steps]
        return steps[new.index(new[-1])] if new[-1] else 0.0

    def count(self, before: Pauses) -> int:
        return round(max(self.upto.values()) - max(before.upto.values()))


async def measure(server: host.Host, options: argparse.Namespace) -> tuple[float, float]:
    """Print a line. Return the longest pauses in ms, while clients connect and afterwards."""
    start = Pauses(server.metrics())
    crowd = await connect(server.port, ["from=en&to=de"] * (options.sessions - options.speaking))
    speakers = await invite(server.port, options.speaking)
    there = Pauses(server.metrics())
    await begin(speakers, 1)
    begun = Pauses(server.metrics())
    await asyncio.sleep(options.seconds)
    end = Pauses(server.metrics())
    ramp, steady = there.most(start), end.most(begun)
    print(
        f"  {options.sessions} connect: {there.count(start)} pauses of"
        f" {there.total - start.total:.0f} ms in all, at most {ramp:.1f} ms\n"
        f"  {options.speaking} speak for {options.seconds:g} s: {end.count(begun)} pauses of"
        f" {end.total - begun.total:.0f} ms in all, at most {steady:.1f} ms",
        flush=True,
    )
    for socket in crowd:
        socket.close()
    for speaker in speakers:
        speaker.close()
    return ramp, steady


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sessions", type=int, default=5000)
    parser.add_argument("--speaking", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    core = host.settle(options.sessions)
    gc.freeze()
    for name, own in (("CPython's own collector", True), ("as it is", False)):
        print(name)
        with (
            host.gateway(*host.paced(PACE_S), *host.ROOMY, core=core, plain=own) as server,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            ramp, steady = runner.run(measure(server, options))
    met = ramp <= GOAL_RAMP_MS and steady <= GOAL_STEADY_MS
    goal = f"at most {GOAL_RAMP_MS:g} ms while clients connect, {GOAL_STEADY_MS:g} ms afterwards"
    print("met" if met else "NOT MET", goal, sep=": ")
    sys.exit(not met)


if __name__ == "__main__":
    main()
