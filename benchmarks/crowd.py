"""What a delta costs when many read it, and when many speak.

    python -m benchmarks.crowd [--pairs 5] [--readers 1000] [--sessions 10,100,500,2000]

Owns: two experiments and their goals. Must not know: how a server or client works.

**Readers.** One speaker, and a room full of readers of one language. Beside the gateway stand the
raw server, which writes the same bytes, made beforehand, to as many sockets by `transport.write`,
and the same server by `os.write`: that is the kernel, and some 0.2 us of calling it. What the
gateway takes above that is its own, uvloop's, and the engine's step divided by the readers.

**Sessions.** So many private sessions, each with a stream, and 10,000 deltas a second over all of
them, in two shapes. `turns`: each millisecond ten streams have a token, so that a turn of the loop
is the same however many sessions there are, and only their number differs. `bursts`: all
streams have a token at once, as a batch steps in a model: more sessions share the costs of a turn.

Ends with status 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import sys
from collections.abc import Sequence
from typing import Any

import uvloop

from benchmarks import host
from benchmarks.client import Socket
from benchmarks.delta import Child, _range, _ratio, _spread, children, measure, sessions
from benchmarks.stepper import TOKENS, Plan

GOAL_READER_US = 1.5
"""Most CPU for a reader and delta above the kernel's write."""
GOAL_SESSIONS = 1.15
"""Most CPU per delta at any number of sessions, in times that at the smallest; where turns of the
event loop are alike."""
RATE = 10_000
"""Deltas a second over all sessions."""
BATCH = 10
ROUND = 20_000
"""Deltas of a round, about."""


async def readers(pairs: int, count: int) -> dict[str, Any]:
    """CPU per delta and reader in microseconds, of the kernel, the raw server and the gateway."""
    plan = Plan(step_s=0.05)
    costs: dict[str, dict[str, list[float]]] = {}
    with children("raw", "served") as (raw, served):
        async with contextlib.AsyncExitStack() as stack:
            rooms: dict[str, tuple[Child, list[Socket], list[Socket]]] = {}
            for name, server, more in (
                ("kernel", raw, "&kernel=1"),
                ("raw", raw, ""),
                ("served", served, ""),
            ):
                room = f"room={name}"
                rooms[name] = (
                    server,
                    await stack.enter_async_context(sessions(server, 1, f"from=en&{room}")),
                    await stack.enter_async_context(
                        sessions(server, count, f"role=view&to=de&{room}{more}")
                    ),
                )
                costs[name] = {"us": [], "user_us": []}
            await asyncio.sleep(2)  # for what is said of who has come
            for turn in range(pairs + 1):
                for name, (server, speakers, crowd) in rooms.items():
                    tally = await measure(server, speakers, crowd, plan, 1)
                    if turn:  # the first is to warm up
                        deltas = 1000 * tally.steady_tokens * count
                        costs[name]["us"].append(tally.steady_cpu / deltas)
                        costs[name]["user_us"].append(tally.steady_user / deltas)
    result: dict[str, Any] = {
        name: {key: _spread(values) for key, values in cost.items()} for name, cost in costs.items()
    }
    for theirs in ("kernel", "raw"):
        pairs_ = zip(costs["served"]["us"], costs[theirs]["us"], strict=True)
        result[f"above_{theirs}"] = _spread([ours - floor for ours, floor in pairs_])
    return result


async def crowds(pairs: int, counts: Sequence[int]) -> dict[str, Any]:
    """CPU per delta at so many sessions, as a ratio to the first number of them."""
    costs: dict[tuple[str, str, int], list[float]] = {}
    with children("raw", "served") as servers:
        async with contextlib.AsyncExitStack() as stack:
            most = max(counts)
            sockets = [await stack.enter_async_context(sessions(s, most)) for s in servers]
            for turn in range(pairs + 1):
                for count in counts:
                    for kind, server, all in zip(("raw", "served"), servers, sockets, strict=True):
                        for shape, plan in (
                            ("turns", Plan(streams=count, step_s=BATCH / RATE, batch=BATCH)),
                            ("bursts", Plan(streams=count, step_s=count / RATE)),
                        ):
                            some = all[:count]
                            volleys = max(1, ROUND // (count * TOKENS))
                            tally = await measure(server, some, some, plan, volleys)
                            if turn:
                                cost = tally.steady_cpu / tally.steady_tokens / 1000
                                costs.setdefault((shape, kind, count), []).append(cost)
    return {
        shape: {
            kind: {
                str(count): {
                    "us": _spread(costs[shape, kind, count]),
                    "to_first": _ratio(costs[shape, kind, count], costs[shape, kind, counts[0]]),
                }
                for count in counts
            }
            for kind in ("raw", "served")
        }
        for shape in ("turns", "bursts")
    }


def _report(result: dict[str, Any]) -> bool:
    """Print it; whether the goals are met."""
    rows = result["readers"]
    print(
        f"{result['count']} readers of one room: us of CPU for a reader and delta, median [range]"
    )
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
        print("  sessions  raw: us, ratio to the first       gateway: us, ratio to the first")
        for count in result["sessions"][shape]["raw"]:
            cells = [result["sessions"][shape][kind][count] for kind in ("raw", "served")]
            texts = [f"{cell['us'][0]:5.1f}  {_range(cell['to_first']):<18}" for cell in cells]
            print(f"  {count:>8}  {texts[0]}         {texts[1]}")
    above = rows["above_kernel"][0]
    growth = max(cell["to_first"][0] for cell in result["sessions"]["turns"]["served"].values())
    met = True
    print()
    for goal, value, most in (
        (
            f"a reader and delta at most {GOAL_READER_US:g} us above the kernel's write",
            above,
            GOAL_READER_US,
        ),
        (
            f"CPU per delta grows at most {GOAL_SESSIONS:g} times with sessions",
            growth,
            GOAL_SESSIONS,
        ),
    ):
        met = met and value <= most
        print(f"  {'met    ' if value <= most else 'NOT MET'}  {goal}: {value:.2f}")
    return met


async def run(pairs: int, count: int, counts: Sequence[int]) -> dict[str, Any]:
    """Both experiments."""
    gc.freeze()
    return {
        "count": count,
        "readers": await readers(pairs, count),
        "sessions": await crowds(pairs, counts),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=5, help="rounds that are compared")
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--sessions", default="10,100,500,2000")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there too")
    options = parser.parse_args()
    counts = [int(count) for count in options.sessions.split(",")]
    host.files(3 * options.readers + 2 * max(counts) + 500)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(run(options.pairs, options.readers, counts))
    met = _report(result)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
    sys.exit(not met)


if __name__ == "__main__":
    main()
