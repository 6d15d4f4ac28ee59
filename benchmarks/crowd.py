"""What a delta costs when many read it, and when many speak.

    python -m benchmarks.crowd [--cycles 20] [--readers 1000] [--sessions 10,100,500,2000]

Owns: two experiments, their statistics, their goals. Must not know: how a server or client works.

**Readers.** One speaker, and a room full of readers of one language. Beside the gateway stand the
raw server, which writes the same bytes, made beforehand, to as many sockets by `transport.write`,
and the same server by `os.write`: that is the kernel, and some 0.2 us of calling it. What the
gateway takes above that is its own, uvloop's, and the engine's step divided by the readers.

**Sessions.** So many private sessions, each with a stream, and 10,000 deltas a second over all of
them, in two shapes. `turns`: each millisecond ten streams have a token, so that a turn of the loop
is the same however many sessions there are, and only their number differs. `bursts`: all
streams have a token at once, as a batch steps in a model: more sessions share the costs of a turn.
Each number of sessions has a process of its own, which has no others, not even idle ones.

A machine that others share changes its speed from one second to the next. So all that is compared
takes turns in windows of half a second or less, forward in one cycle and backward in the next,
while the streams of the others stand still. Each is compared with its neighbours of the same cycle.
Of these ratios and differences the median is told, and the interval that has the true median in
95 % of such runs; a goal is met where the whole interval meets it, missed where none of it does,
and else the run has not told. Ends with status 1 where a goal is not met.
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
"""Most CPU for a reader and delta above the kernel's write."""
GOAL_SESSIONS = 1.15
"""Most CPU per delta at any number of sessions, in times that at the smallest; where turns of the
event loop are alike."""
RATE = 10_000
"""Deltas a second over all sessions."""
BATCH = 10
STEP_S = 0.02
"""Seconds between two deltas for all readers."""
READERS_S = 0.1
"""Seconds of a window: the shorter, the more alike are neighbours, and three times as many told
twice as much as windows of 0.3 s."""
SESSIONS_S = 0.5
"""Seconds of a window. The gateway looks after its sessions once a second: every other has that."""
MORE_READERS = 8
"""Cycles of the first experiment, whose windows are short, for each of the second."""
BURSTS = 4
"""Cycles of turns for each of bursts, from which no goal is read."""
SETTLE_S = 2.0
"""Seconds for what is said of who has come."""


LAST = 20
"""Looks, 10 ms apart, for what is still on its way at the end of a window."""
USABLE = 0.95
"""Share of a window's deltas that have to arrive each in a frame of its own."""
STEADY = 0.25
"""Share of a window's tokens that have to come in steps in which all streams run."""


class Scene:
    """A server, who speaks there and who reads.

    Each speaker says its next utterance when the caption of the last is there: at its own socket,
    or with a ``crowd`` of readers for every delta at the last of them.
    """

    def __init__(
        self, server: Child, speakers: Sequence[Socket], readers: Sequence[Socket], crowd: int = 1
    ) -> None:
        self.server = server
        self.speakers = speakers
        self.readers = readers
        self.crowd = crowd
        self.us: list[float] = []
        """CPU for a delta and reader in each window, microseconds."""
        self.user_us: list[float] = []
        """Of that outside the kernel, as the kernel's ticks tell it."""
        self.busy: list[float] = []
        """Share of its core that the client used."""
        self.lost = 0
        """Windows that were begun again."""
        self._talk: asyncio.Future[Any] | None = None

    async def window(self, plan: Plan, seconds: float) -> None:
        """Measure so many seconds. A window in which deltas merged, or in which some stream was
        nearly always missing, is begun again.

        Raises `RuntimeError` after `TRIES` of them, `ConnectionError` where a speaker failed.
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
        """What was measured so far was to warm up."""
        self.us, self.user_us, self.busy, self.lost = [], [], [], 0

    async def aclose(self) -> None:
        """Nobody speaks any more."""
        if self._talk is not None:
            self._talk.cancel()
            await asyncio.gather(self._talk, return_exceptions=True)


async def _talk(speaker: Socket, ear: Socket) -> None:
    while True:
        end = ear.wait("f")
        speaker.send(say()[1])
        await end


async def readers(cycles: int, count: int) -> dict[str, Any]:
    """CPU per delta and reader in microseconds, of the kernel, the raw server and the gateway."""
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
    """CPU per delta at so many sessions, as a ratio to the first number of them."""
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
    """A window of each scene in every cycle, forward and backward in turn."""
    for cycle in range(cycles + 1):
        for scene, plan in scenes if cycle % 2 else reversed(scenes):
            await scene.window(plan, seconds)
            if not cycle:  # to warm up
                scene.forget()


# --- statistics ---------------------------------------------------------------------------------


def interval(values: Sequence[float]) -> list[float]:
    """[median, from, to]: where the true median is, in 95 % of such samples or more.

    Below six values no interval is as sure as that, and it is from the least to the most.
    """
    ordered = sorted(values)
    n = len(ordered)
    cut = 0
    while 2 * sum(math.comb(n, k) for k in range(cut + 2)) <= 0.05 * 2**n:
        cut += 1
    return [statistics.median(ordered), ordered[cut], ordered[n - 1 - cut]]


def verdict(values: Sequence[float], most: float) -> str:
    """Whether an interval is within a goal."""
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
    """Print it; whether the goals are met."""
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
    """Both experiments."""
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
