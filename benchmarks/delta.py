"""The cost of a delta in the gateway, relative to a bare `asyncio.Protocol`.

``python -m benchmarks.delta`` prints ratios measured in one run; ``docs/figures/benchmarks.md``
explains
them. Owns: the experiments, the statistics, the goals. Must not know: how a server or client works.

Absolute times vary by half on a shared machine, from one minute to the next. So all servers run at
the same time, take turns round by round, and every round is compared with its neighbour.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import itertools
import json
import multiprocessing
import os
import platform
import random
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib.metadata import version
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import uvloop

from benchmarks.client import Socket
from benchmarks.servers import FRAME_BYTES, ID, KINDS, serve
from benchmarks.stepper import SOURCE, TOKENS, Plan, Tally

QUERY = "from=en&to=de"
PATIENCE_S = 60.0
"""Seconds a round may take before it counts as broken."""
TRIES = 10
"""Attempts at a round. If other processes hold the core, deltas wait and merge, and the round is
repeated.
"""
PACKAGES = ("uvicorn", "starlette", "websockets", "uvloop", "msgspec")

GOAL_CPU = 1.5
"""Most CPU per delta relative to the raw server's; the same holds for its latency."""
GOAL_STOCK = 1.15
"""Most CPU per delta on unchanged uvicorn, relative to a minimal Starlette handler's."""
GOAL_FIRST_MS = 5.0
GOAL_CANCEL_MS = 50.0


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The size of the measurement. ``sessions``: streams at once, and utterances of each in one
    round.
    """

    pairs: int = 7
    sessions: tuple[tuple[int, int], ...] = ((16, 2), (64, 1), (200, 1))
    first: int = 25
    cancels: int = 50


QUICK = Size(pairs=3, sessions=((16, 1), (200, 1)), first=10, cancels=10)


class Child:
    """A server in its own process."""

    def __init__(self, kind: str, core: int | None) -> None:
        self.kind = kind
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(kind, theirs), daemon=True)
        self._process.start()
        if core is not None:
            os.sched_setaffinity(self._process.pid or 0, {core})
        theirs.close()
        self.port: int = self._pipe.recv()

    def begin(self, plan: Plan) -> None:
        """Begin a round: nothing is sent before this returns."""
        self._pipe.send(plan)
        self._pipe.recv()

    def end(self) -> Tally:
        """Return the counts of the round."""
        self._pipe.send("end")
        tally = self._pipe.recv()
        assert isinstance(tally, Tally)
        return tally

    def stop(self) -> None:
        """End the process."""
        self._pipe.send("stop")
        self._process.join(10)
        self._process.kill()


@contextlib.contextmanager
def children(*kinds: str) -> Iterator[list[Child]]:
    """Start servers on the first core, with this process on the last, if there are two."""
    cores: list[int | None] = [None]
    if hasattr(os, "sched_getaffinity"):
        cores = [*sorted(os.sched_getaffinity(0))]
    servers: list[Child] = []
    try:
        servers.extend(Child(kind, cores[0] if len(cores) > 1 else None) for kind in kinds)
        if len(cores) > 1:
            os.sched_setaffinity(0, {cores[-1] or 0})
        yield servers
    finally:
        for server in servers:
            server.stop()
        if len(cores) > 1:
            os.sched_setaffinity(0, {core for core in cores if core is not None})


@contextlib.asynccontextmanager
async def sessions(server: Child, count: int, query: str = QUERY) -> AsyncIterator[list[Socket]]:
    """Open the sockets."""
    sockets = [await Socket.connect(server.port, query) for _ in range(count)]
    try:
        yield sockets
    finally:
        for socket in sockets:
            socket.close()


_numbers = itertools.count(1)


def say() -> tuple[str, str]:
    """Return the id and the frame of a new utterance."""
    id = ID.format(next(_numbers))
    return id, json.dumps({"type": "say", "id": id, "text": SOURCE})


async def volley(speakers: Sequence[Socket], readers: Sequence[Socket]) -> None:
    """Let all speakers say something at once; return when all readers have the caption."""
    ends = [reader.wait("f") for reader in readers]
    for speaker in speakers:
        speaker.send(say()[1])
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*ends)


async def measure(
    server: Child, speakers: Sequence[Socket], readers: Sequence[Socket], plan: Plan, volleys: int
) -> Tally:
    """Measure one round in which every token arrived in its own frame; other rounds are repeated.

    Raises `RuntimeError` after `TRIES` of them.
    """
    due = TOKENS * volleys * len(readers)
    for _ in range(TRIES):
        deltas = sum(reader.deltas for reader in readers)
        server.begin(plan)
        for _ in range(volleys):
            await volley(speakers, readers)
        tally = server.end()
        deltas = sum(reader.deltas for reader in readers) - deltas
        timed = speakers is not readers or lags(tally.steps, readers)
        if deltas >= 0.95 * due and tally.steady_tokens and timed:
            return tally
    raise RuntimeError(
        f"{server.kind}: {deltas} of {due} deltas arrived, {tally.steady_tokens} of them in steps"
        " in which all streams ran. The machine is too busy, or there are too many streams for it."
    )


def lags(steps: Sequence[int], readers: Sequence[Socket]) -> list[float]:
    """Return the milliseconds from the engine's step to the client.

    They are those of the last utterances' deltas while all of them run.
    """
    at = {step: n for n, step in enumerate(steps)}
    whole = [reader for reader in readers if len(reader.times) == TOKENS and reader.stamp in at]
    begun = [at[reader.stamp] for reader in whole]
    # While others begin or end, a delta waits for that, which is no part of what it costs itself.
    steady = range(max(begun, default=0) + 1, min(begun, default=0) + TOKENS - 1)
    return [
        (time - steps[n]) / 1e6
        for reader in whole
        for n, time in enumerate(reader.times, at[reader.stamp])
        if n in steady
    ]


async def cpu(size: Size) -> dict[str, Any]:
    """Return CPU and lag per delta, of all servers at several numbers of streams."""
    most = max(streams for streams, _ in size.sessions)
    rows: dict[str, Any] = {}
    with children(*KINDS) as servers:
        async with contextlib.AsyncExitStack() as stack:
            sockets = [await stack.enter_async_context(sessions(s, most)) for s in servers]
            for streams, volleys in size.sessions:
                plan = Plan(streams=streams)
                names = ("steady", "whole", "p50", "p99")
                runs: dict[str, dict[str, list[float]]] = {
                    kind: {name: [] for name in names} for kind in KINDS
                }
                used = []
                for turn in range(size.pairs + 1):
                    for kind, server, ours in zip(KINDS, servers, sockets, strict=True):
                        some = ours[:streams]
                        before = time.process_time(), time.monotonic()
                        tally = await measure(server, some, some, plan, volleys)
                        if not turn:  # to warm up
                            continue
                        spent = time.process_time() - before[0]
                        used.append(spent / (time.monotonic() - before[1]))
                        late = lags(tally.steps, some)
                        run = runs[kind]
                        run["steady"].append(tally.steady_cpu / tally.steady_tokens / 1000)
                        run["whole"].append(tally.cpu / tally.tokens / 1000)
                        run["p50"].append(_quantile(late, 0.5))
                        run["p99"].append(_quantile(late, 0.99))
                raw, bare = runs["raw"], runs["bare"]
                rows[str(streams)] = {
                    "noise": _ratio(raw["steady"][1:], raw["steady"][:-1]),
                    "client_busy": max(used),
                    "kinds": {
                        kind: {
                            "us": _spread(run["steady"]),
                            "p50_ms": _spread(run["p50"]),
                            "p99_ms": _spread(run["p99"]),
                            **{name: _ratio(run[name], raw[name]) for name in names},
                            "to_bare": _ratio(run["steady"], bare["steady"]),
                        }
                        for kind, run in runs.items()
                    },
                }
    return rows


async def first(size: Size, streams: int = 16) -> dict[str, Any]:
    """Return the time from the first token to the client, when all streams begin at once."""
    plan = Plan(streams=streams, step_s=0.005)
    bursts: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    with children(*KINDS) as servers:
        async with contextlib.AsyncExitStack() as stack:
            sockets = [await stack.enter_async_context(sessions(s, streams)) for s in servers]
            for turn in range(size.first + 3):
                for kind, server, ours in zip(KINDS, servers, sockets, strict=True):
                    await measure(server, ours, ours, plan, 1)
                    if turn >= 3:
                        bursts[kind].append([socket.lag / 1e6 for socket in ours])
    result: dict[str, Any] = {"streams": streams, "bursts": size.first}
    for kind in KINDS:
        all = [lag for burst in bursts[kind] for lag in burst]
        result[kind] = {
            "p50_ms": _quantile(all, 0.5),
            "last_ms": statistics.median(map(max, bursts[kind])),
            "p99_ms": _quantile(all, 0.99),
        }
        for name in ("p50", "last", "p99"):
            result[kind][name] = result[kind][f"{name}_ms"] / result["raw"][f"{name}_ms"]
    return result


async def cancel(size: Size, streams: int = 200, cancellers: int = 4) -> dict[str, Any]:
    """Return the time from ``cancel`` to ``cancelled``, alone and beside other streams."""
    result: dict[str, Any] = {"streams": streams}
    with children("served") as (server,):
        async with sessions(server, streams) as crowd, sessions(server, cancellers) as few:
            for name, beside in (("idle", crowd[:0]), ("busy", crowd)):
                server.begin(Plan(streams=streams))
                noise = asyncio.create_task(_chatter(beside))
                times = await asyncio.gather(*(_change_mind(one, size.cancels) for one in few))
                noise.cancel()
                await asyncio.gather(noise, return_exceptions=True)
                tally = server.end()
                taken = [ms for some in times for ms in some]
                result[name] = {
                    "p50_ms": _quantile(taken, 0.5),
                    "p99_ms": _quantile(taken, 0.99),
                    "most_ms": max(taken),
                    "stolen_ms": tally.stolen / 1e6,
                    "cancels": len(taken),
                    "aborts": tally.aborted,
                }
    return result


async def _chatter(sockets: Sequence[Socket]) -> None:
    while sockets:
        await volley(sockets, sockets)


async def _change_mind(socket: Socket, times: int) -> list[float]:
    """Return the milliseconds that each cancel took."""
    taken = []
    for _ in range(times):
        id, frame = say()
        begun = socket.wait("d")
        socket.send(frame)
        await begun
        await asyncio.sleep(random.uniform(0, 0.04))  # anywhere between two steps
        answer = socket.wait("c")
        sent = time.monotonic_ns()
        socket.cancel(id)
        taken.append((await answer - sent) / 1e6)
    return taken


# --- statistics ---------------------------------------------------------------------------------


def _spread(values: Sequence[float]) -> list[float]:
    """Return [median, least, most]."""
    return [statistics.median(values), min(values), max(values)]


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return [median, least, most] of the ratios of neighbours."""
    return _spread([a / b for a, b in zip(ours, theirs, strict=True)])


def _quantile(values: Sequence[float], at: float) -> float:
    return sorted(values)[min(int(len(values) * at), len(values) - 1)]


# --- the report ---------------------------------------------------------------------------------


def _verdicts(result: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """Yield (goal, measured, met)."""
    rows = result["cpu"].values()

    def worst(kind: str, name: str) -> float:
        return float(max(row["kinds"][kind][name][0] for row in rows))

    cpu, stock = worst("served", "steady"), worst("stock", "to_bare")
    late = max(worst("served", "p50"), worst("served", "p99"))
    ours, raw = result["first"]["served"]["p99_ms"], result["first"]["raw"]["p99_ms"]
    busy = result["cancel"]["busy"]
    idle = result["cancel"]["idle"]
    return [
        (f"CPU per delta as served at most {GOAL_CPU:g}x raw", f"{cpu:.2f}x", cpu <= GOAL_CPU),
        (f"latency, p50 and p99, at most {GOAL_CPU:g}x raw", f"{late:.2f}x", late <= GOAL_CPU),
        (
            f"on stock uvicorn at most {GOAL_STOCK:g}x a minimal Starlette handler",
            f"{stock:.2f}x",
            stock <= GOAL_STOCK,
        ),
        (
            f"first delta within {GOAL_FIRST_MS:g} ms",
            f"p99 {ours:.2f} ms (raw: {raw:.2f} ms)",
            ours <= GOAL_FIRST_MS,
        ),
        (
            f"cancelled within {GOAL_CANCEL_MS:g} ms",
            f"most {busy['most_ms']:.2f} ms (others held the core for up to"
            f" {busy['stolen_ms']:.0f} ms)",
            busy["most_ms"] <= GOAL_CANCEL_MS,
        ),
        (
            "every cancel aborts in the engine",
            f"{idle['aborts']} of {idle['cancels']}",
            idle["aborts"] == idle["cancels"],
        ),
    ]


def _report(result: dict[str, Any], line: Callable[[str], None]) -> None:
    about = result["about"]
    line(f"{about['python']}, {about['machine']}; {about['packages']}; {about['date']}")
    line(f"{TOKENS} deltas of {FRAME_BYTES:.0f} bytes for an utterance, a step every 20 ms")
    for streams, row in result["cpu"].items():
        line("")
        line(f"{streams} streams: CPU per delta and how late it is, as ratios to `raw`:")
        line("median [range of pairs]")
        line("            CPU               p50               p99               to bare   us")
        for kind, cells in row["kinds"].items():
            line(
                f"  {kind:<8}  {_range(cells['steady'])}  {_range(cells['p50'])}"
                f"  {_range(cells['p99'])}  {cells['to_bare'][0]:.2f}      {cells['us'][0]:.1f}"
            )
        raw = row["kinds"]["raw"]
        line(
            f"  raw itself: p50 {raw['p50_ms'][0]:.2f} ms, p99 {raw['p99_ms'][0]:.2f} ms;"
            f" raw to the raw round before: {_range(row['noise'])};"
            f" the client used {row['client_busy']:.0%} of its core"
        )
    line("")
    bursts = result["first"]
    line(f"First delta, {bursts['bursts']} bursts of {bursts['streams']}: ms (ratio to raw)")
    line("            median        last of a burst  p99 of all")
    for kind in KINDS:
        row = bursts[kind]
        cells = [f"{row[name + '_ms']:5.2f} ({row[name]:.2f})" for name in ("p50", "last", "p99")]
        line(f"  {kind:<8}  {cells[0]:<12}  {cells[1]:<15}  {cells[2]}")
    line("")
    line("Cancel, from sending it to having `cancelled`")
    for name, what in (
        ("idle", "alone"),
        ("busy", f"beside {result['cancel']['streams']} streams"),
    ):
        row = result["cancel"][name]
        line(
            f"  {what:<18} p50 {row['p50_ms']:.2f} ms, p99 {row['p99_ms']:.2f} ms,"
            f" most {row['most_ms']:.2f} ms; {row['aborts']} aborts for {row['cancels']} cancels;"
            f" others held the core for up to {row['stolen_ms']:.0f} ms"
        )
    line("")
    for goal, measured, met in _verdicts(result):
        line(f"  {'met    ' if met else 'NOT MET'}  {goal}: {measured}")


def _range(values: Sequence[float]) -> str:
    return f"{values[0]:.2f} [{values[1]:.2f}-{values[2]:.2f}]"


async def run(size: Size) -> dict[str, Any]:
    """Run all experiments, one after the other."""
    gc.freeze()
    return {
        "about": {
            "python": f"{platform.python_implementation()} {platform.python_version()}",
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "packages": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
            "date": time.strftime("%Y-%m-%d"),
            "frame_bytes": FRAME_BYTES,
        },
        "cpu": await cpu(size),
        "first": await first(size),
        "cancel": await cancel(size),
    }


def main() -> None:
    """Measure, print, and write the results to a file if one is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delta", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rounds")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there too")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(run(QUICK if options.quick else Size()))
    _report(result, print)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
