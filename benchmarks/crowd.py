"""The cost of a delta with many readers, and with many speakers.

    python -m benchmarks.crowd [--cycles 20] [--readers 1000] [--sessions 10,100,500,2000]

Owns: two experiments, their statistics, their goals. Must not know: how a server or client works.

**Readers.** One speaker, and a room full of readers of one language. For comparison, the raw server
writes the same prepared bytes to as many sockets by `transport.write`, and by `os.write`: that is
the kernel, and some 0.2 us of calling it. The rest is the gateway's own, uvloop's, and the engine's
step divided by the readers.

**Sessions.** Many private sessions, each with a stream, and 10,000 deltas a second over all of
them, in two patterns. `turns`: each millisecond ten streams have a token, so that a turn of the
loop is the same for any number of sessions. `bursts`: all streams have a token at once, as a batch
in a model: more sessions share the costs of a turn. Each number of sessions has a process of its
own.

A shared machine changes its speed from one second to the next. So everything that is compared takes
turns in windows of half a second or less, forward in one cycle and backward in the next, while the
other streams stand still. Each is compared with its neighbours of the same cycle. The result is the
median of these ratios, with the interval that holds the true median in 95 % of such runs. A goal is
met if the whole interval meets it and missed if none of it does; else the run is undecided. The
exit status is 1 if a goal is not met.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import math
import operator
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import uvloop

from benchmarks import host
from benchmarks.client import Socket
from benchmarks.delta import TRIES, Child, _range, children, say, sessions
from benchmarks.stepper import Plan

GOAL_READER_US = 1.5
"""Most CPU for a reader and delta above the kernel's write, in microseconds."""
GOAL_SESSIONS = 1.15
"""Most CPU per delta at any number of sessions, relative to the smallest number, for the pattern
`turns`.
"""
RATE = 10_000
"""Deltas a second over all sessions."""
BATCH = 10
STEP_S = 0.02
"""Seconds between two deltas for all readers."""
READERS_S = 0.1
"""Seconds of a window. Short windows make neighbours alike: three times as many told twice as much
as windows of 0.3 s.
"""
SESSIONS_S = 0.5
"""Seconds of a window. The gateway checks its sessions once a second, so every other window has a
check.
"""
MORE_READERS = 8
"""Cycles of the first experiment, whose windows are short, for each of the second."""
BURSTS = 4
"""Cycles of `turns` for each of `bursts`, which has no goal."""
SETTLE_S = 2.0
"""Seconds in which presence messages of new sockets pass."""


LAST = 20
"""Checks, 10 ms apart, for frames that still arrive at the end of a window."""
USABLE = 0.95
"""Share of a window's deltas that must arrive in a frame of their own."""
STEADY = 0.25
"""Share of a window's tokens that must come in steps in which all streams run."""


class Scene:
    """A server with its speakers and readers.

    Each speaker says its next utterance when the caption of the last is there: at its own socket,
    or, with a ``crowd`` of readers for every delta, at the last of them.
    """

    def __init__(
        self, server: Child, speakers: Sequence[Socket], readers: Sequence[Socket], crowd: int = 1
    ) -> None:
        self.server = server
        self.speakers = speakers
        self.readers = readers
        self.crowd = crowd
        self.us: list[float] = []
        """CPU microseconds for a delta and reader in each window."""
        self.user_us: list[float] = []
        """The part of `us` outside the kernel, by the kernel's ticks."""
        self.busy: list[float] = []
        """Share of its core that the client used."""
        self.lost = 0
        """Windows that were begun again."""
        self._talk: asyncio.Future[Any] | None = None

    async def window(self, plan: Plan, seconds: float) -> None:
        """Measure for some seconds.

        A window is begun again if deltas merged in it, or if a stream was missing nearly always.
        Raises `RuntimeError` after `TRIES` of them, `ConnectionError` if a speaker failed.
        """
        for _ in range(TRIES):
            before = sum(reader.deltas for reader in self.readers)
            used, begun = time.process_time(), time.monotonic()
            self.server.begin(plan)
            if self._talk is None:
                ears = self.readers[self.crowd - 1 :]
                self._talk = asyncio.gather(*map(_talk, self.speakers, ears))
            await asyncio.sleep(seconds)
            tally = self.server.end()
            taken = time.monotonic() - begun
            due = tally.tokens * self.crowd
            deltas = 0
            for _ in range(LAST):
                deltas = sum(reader.deltas for reader in self.readers) - before
                if self._talk.done():
                    self._talk.result()
                if deltas >= USABLE * due and tally.steady_tokens > STEADY * tally.tokens:
                    each = 1000 * tally.steady_tokens * self.crowd
                    self.us.append(tally.steady_cpu / each)
                    self.user_us.append(tally.steady_user / each)
                    self.busy.append((time.process_time() - used) / taken)
                    return
                await asyncio.sleep(0.01)
            self.lost += 1
        raise RuntimeError(
            f"{self.server.kind}, {len(self.speakers)} speakers: {deltas} of {due} deltas arrived,"
            f" {tally.steady_tokens} of {tally.tokens} tokens came while all {plan.streams} ran."
            " The machine is too busy, or there are too many streams for it."
        )

    def forget(self) -> None:
        """Drop the results so far, which were the warm-up."""
        self.us, self.user_us, self.busy, self.lost = [], [], [], 0

    async def aclose(self) -> None:
        """Stop all speakers."""
        if self._talk is not None:
            self._talk.cancel()
            await asyncio.gather(self._talk, return_exceptions=True)


async def _talk(speaker: Socket, ear: Socket) -> None:
    while True:
        end = ear.wait("f")
        speaker.send(say()[1])
        await end


async def readers(cycles: int, count: int) -> dict[str, Any]:
    """Return the CPU microseconds per delta and reader of kernel, raw server and gateway."""
    plan = Plan(step_s=STEP_S, hold=True)
    scenes: dict[str, Scene] = {}
    async with contextlib.AsyncExitStack() as stack:
        kinds = {"kernel": "raw", "raw": "raw", "served": "served"}
        servers = stack.enter_context(children(*kinds.values()))
        for name, server in zip(kinds, servers, strict=True):
            query = f"role=view&to=de&room=r{'&kernel=1' if name == 'kernel' else ''}"
            speaker = await stack.enter_async_context(sessions(server, 1, "from=en&room=r"))
            crowd = await stack.enter_async_context(sessions(server, count, query))
            scene = scenes[name] = Scene(server, speaker, crowd, count)
            stack.push_async_callback(scene.aclose)
        await asyncio.sleep(SETTLE_S)
        await _turns([(scene, plan) for scene in scenes.values()], READERS_S, cycles)
    costs = {name: scene.us for name, scene in scenes.items()}
    return {
        **{name: _told(scene) for name, scene in scenes.items()},
        "above_kernel": interval(_each(operator.sub, costs["served"], costs["kernel"])),
        "above_raw": interval(_each(operator.sub, costs["served"], costs["raw"])),
    }


async def crowds(cycles: int, counts: Sequence[int]) -> dict[str, Any]:
    """Return the CPU per delta for each number of sessions, relative to the first number."""
    result: dict[str, Any] = {}
    kinds = ("raw", "served")
    async with contextlib.AsyncExitStack() as stack:
        cells = [(kind, count) for count in counts for kind in kinds]
        servers = stack.enter_context(children(*(kind for kind, _ in cells)))
        scenes: dict[tuple[str, int], Scene] = {}
        for (kind, count), server in zip(cells, servers, strict=True):
            sockets = await stack.enter_async_context(sessions(server, count))
            scene = scenes[kind, count] = Scene(server, sockets, sockets)
            stack.push_async_callback(scene.aclose)
        await asyncio.sleep(SETTLE_S)
        for shape, times in (("turns", cycles), ("bursts", max(1, cycles // BURSTS))):
            plans = {
                count: Plan(streams=count, step_s=BATCH / RATE, batch=BATCH, hold=True)
                if shape == "turns"
                else Plan(streams=count, step_s=count / RATE, hold=True)
                for count in counts
            }
            turns = [(scene, plans[count]) for (_, count), scene in scenes.items()]
            await _turns(turns, SESSIONS_S, times)
            us = {key: scene.us for key, scene in scenes.items()}
            result[shape] = {
                kind: {
                    str(count): {
                        **_told(scenes[kind, count]),
                        "to_first": interval(
                            _each(operator.truediv, us[kind, count], us[kind, counts[0]])
                        ),
                        "above_raw": interval(
                            _each(operator.sub, us[kind, count], us["raw", count])
                        ),
                    }
                    for count in counts
                }
                for kind in kinds
            }
            for scene in scenes.values():
                scene.forget()
    return result


async def _turns(scenes: Sequence[tuple[Scene, Plan]], seconds: float, cycles: int) -> None:
    """Run a window of each scene in every cycle, forward and backward in turn."""
    for cycle in range(cycles + 1):
        for scene, plan in scenes if cycle % 2 else reversed(scenes):
            await scene.window(plan, seconds)
            if not cycle:  # to warm up
                scene.forget()


# --- statistics ---------------------------------------------------------------------------------


def interval(values: Sequence[float]) -> list[float]:
    """Return [median, from, to]: the interval holds the true median in 95 % of samples or more.

    Below six values no interval is that sure, and it goes from the least to the most.
    """
    ordered = sorted(values)
    n = len(ordered)
    cut = 0
    while 2 * sum(math.comb(n, k) for k in range(cut + 2)) <= 0.05 * 2**n:
        cut += 1
    return [statistics.median(ordered), ordered[cut], ordered[n - 1 - cut]]


def verdict(values: Sequence[float], most: float) -> str:
    """Return whether an interval meets a goal."""
    _, low, high = values
    return "met" if high <= most else "NOT MET" if low > most else "not told"


def _each(
    how: Callable[[float, float], float], ours: Sequence[float], theirs: Sequence[float]
) -> list[float]:
    return [how(a, b) for a, b in zip(ours, theirs, strict=True)]


def _told(scene: Scene) -> dict[str, Any]:
    return {
        "us": interval(scene.us),
        "user_us": interval(scene.user_us),
        "client_busy": max(scene.busy),
        "lost": scene.lost,
    }


# --- the report ---------------------------------------------------------------------------------


def _report(result: dict[str, Any]) -> bool:
    """Print the results, and return whether the goals are met."""
    rows = result["readers"]
    print(f"{result['count']} readers of one room: us of CPU for a reader and delta,")
    print("median [95 % interval of it]")
    print("             all                 outside the kernel, by its ticks")
    for name in ("kernel", "raw", "served"):
        print(f"  {name:<8}  {_range(rows[name]['us']):<18}  {_range(rows[name]['user_us'])}")
    print(f"  the gateway above the kernel's write: {_range(rows['above_kernel'])}")
    print(f"  the gateway above the raw server:     {_range(rows['above_raw'])}")
    for shape, what in (
        ("turns", f"{BATCH} streams at a time have a token"),
        ("bursts", "all streams have a token at once"),
    ):
        print(f"\nSessions, {RATE:,} deltas a second over all of them; {what}")
        row = "  {:>8}  {:>5}  {:<18}  {:>7}  {:<18}  {}"
        print(row.format("", "raw", "", "gateway", "", ""))
        print(row.format("sessions", "us", "to the first", "us", "to the first", "above raw, us"))
        for count, raw in result["sessions"][shape]["raw"].items():
            ours = result["sessions"][shape]["served"][count]
            cells = [
                cell
                for one in (raw, ours)
                for cell in (f"{one['us'][0]:.1f}", _range(one["to_first"]))
            ]
            print(row.format(count, *cells, _range(ours["above_raw"])))
    growth = max(
        (cell["to_first"] for cell in result["sessions"]["turns"]["served"].values()),
        key=lambda values: values[0],
    )
    told = [rows[name] for name in ("kernel", "raw", "served")]
    told += [cell for kind in result["sessions"]["turns"].values() for cell in kind.values()]
    print(
        f"\nThe client used {max(cell['client_busy'] for cell in told):.0%} of its core at most;"
        f" {sum(cell['lost'] for cell in told)} windows were begun again."
    )
    met = True
    for goal, values, most in (
        (
            f"a reader and delta at most {GOAL_READER_US:g} us above the kernel's write",
            rows["above_kernel"],
            GOAL_READER_US,
        ),
        (
            f"CPU per delta grows at most {GOAL_SESSIONS:g} times with sessions",
            growth,
            GOAL_SESSIONS,
        ),
    ):
        found = verdict(values, most)
        met = met and found == "met"
        print(f"  {found:<8}  {goal}: {_range(values)}")
    return met


async def run(cycles: int, count: int, counts: Sequence[int]) -> dict[str, Any]:
    """Run both experiments."""
    gc.freeze()
    return {
        "count": count,
        "readers": await readers(MORE_READERS * cycles, count),
        "sessions": await crowds(cycles, counts),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cycles", type=int, default=20, help="windows of each that are compared")
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--sessions", default="10,100,500,2000")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there too")
    options = parser.parse_args()
    counts = [int(count) for count in options.sessions.split(",")]
    host.files(max(3 * options.readers, 2 * sum(counts)) + 500)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(run(options.cycles, options.readers, counts))
    met = _report(result)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
    sys.exit(not met)


if __name__ == "__main__":
    main()
