"""The run: one architecture after the other, each under every load.

Owns: the order, how long a cell takes, what is left out because it would take too long. Must not
know: the use of the cells, the command line.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from benchmarks.journey import cell, texts
from benchmarks.journey.cell import Cell
from benchmarks.journey.client import SOCKETS, Caller, Http, Loop, Socket, fetched
from benchmarks.journey.device import Cpus, Gpu, Sampler
from benchmarks.journey.plan import Plan
from benchmarks.journey.process import Server
from caption_tools.speech.text import Arrivals, arrivals

GROWTH = 1.3
"""Gain from more clients below which an architecture counts as saturated."""
WARM = 4
"""Requests, all at once, before the first cell of an architecture; and then one by itself."""


@dataclass
class Timeline:
    """The cells to measure.

    ``rates`` are multiples of what (a) manages in a closed loop, or, with ``absolute``, requests a
    second. A cell takes ``seconds`` at least; ``patience`` is the most that it may take to have
    enough answers, and about the most until all waiting requests are answered.
    """

    plan: Plan
    architectures: Sequence[str]
    loads: Sequence[texts.Load]
    clients: Sequence[int]
    rates: Sequence[float]
    absolute: bool = False
    arrivals: Arrivals = "poisson"
    seconds: float = 4.0
    patience: float = 30.0
    seed: int = 0
    flags: tuple[str, ...] = ()


@dataclass
class Found:
    """The results. ``notes`` are sentences about what was not measured."""

    device: str = ""
    cells: list[Cell] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    starts: dict[str, float] = field(default_factory=dict)
    """Seconds until an architecture was ready."""


class Run:
    """A run that measures the cells.

    :param said: the texts of each load
    :param logs: directory for the logs of the processes
    :param found: cells of an earlier run, to which these are added
    :param tell: prints a line of progress
    """

    def __init__(
        self,
        course: Timeline,
        said: Mapping[texts.Load, Sequence[str]],
        logs: Path,
        found: Found,
        tell: Callable[[str], None],
    ) -> None:
        self._course = course
        self._texts = said
        self._logs = logs
        self._found = found
        self._tell = tell

    async def run(self) -> None:
        """Measure all cells. An architecture that does not start is noted, and the rest goes on."""
        for letter in self._course.architectures:
            self._tell(f"({letter}) is started ...")
            plan = replace(self._course.plan, architecture=letter)
            server = Server(plan, self._logs / f"{letter}.log", self._course.flags)
            begun = time.monotonic()
            try:
                await server.start()
            except ChildProcessError as exc:
                self._note(f"({letter}): {exc}")
                continue
            try:
                self._found.starts[letter] = time.monotonic() - begun
                await self._measure(letter, server)
            except (OSError, EOFError) as exc:
                self._note(f"({letter}) was given up: {exc}")
            finally:
                await server.stop()

    async def _measure(self, letter: str, server: Server) -> None:
        ask = self._device(server.pid)
        sampler = Sampler(ask)
        sampler.start()
        try:
            await self._warm(letter, server)
            for load in self._course.loads:
                speed = before = 0.0
                for clients in self._course.clients:
                    # Only of an architecture that more clients make no faster can this be told.
                    saturated = speed and speed < GROWTH * before
                    if saturated and clients / speed > self._course.patience:
                        self._note(
                            f"({letter}) {load}, {clients} at once, was left out: at {speed:.2g}"
                            f" requests a second it would take {2 * clients / speed:.0f} s."
                        )
                        continue
                    made = await self._closed(letter, load, clients, server, sampler)
                    before, speed = speed, made.throughput
                for rate in self._rates(load):
                    await self._open(letter, load, rate, server, sampler)
        finally:
            sampler.stop()

    async def _warm(self, letter: str, server: Server) -> None:
        caller = await _caller(letter, server.port, WARM)
        try:
            for load in self._course.loads:
                some = self._texts[load][:WARM]
                await asyncio.gather(*(caller.call(text) for text in some))
                await caller.call(some[0])
        finally:
            await caller.aclose()

    async def _closed(
        self, letter: str, load: texts.Load, clients: int, server: Server, sampler: Sampler
    ) -> Cell:
        caller = await _caller(letter, server.port, clients)
        try:
            tokens = await _tokens(letter, server.port)
            loop, cpu = Loop(caller, self._texts[load]), time.process_time()
            until = await loop.closed(clients, self._course.seconds, self._course.patience)
            return await self._made(
                letter, load, loop, until, cpu, tokens, server, sampler, clients
            )
        finally:
            await caller.aclose()

    async def _open(
        self, letter: str, load: texts.Load, rate: float, server: Server, sampler: Sampler
    ) -> None:
        draw = random.Random(self._course.seed)  # the same arrivals for all
        seconds = max(self._course.seconds, 4 / rate)
        caller = await _caller(letter, server.port, SOCKETS)
        try:
            tokens = await _tokens(letter, server.port)
            loop, cpu = Loop(caller, self._texts[load]), time.process_time()
            until = await loop.open(arrivals(rate, seconds, self._course.arrivals, draw), seconds)
            await self._made(letter, load, loop, until, cpu, tokens, server, sampler, 0, rate)
        finally:
            await caller.aclose()

    async def _made(
        self,
        letter: str,
        load: str,
        loop: Loop,
        until: float,
        cpu: float,
        tokens: int | None,
        server: Server,
        sampler: Sampler,
        clients: int,
        rate: float = 0.0,
    ) -> Cell:
        spent = time.process_time() - cpu
        after = await _tokens(letter, server.port)
        made = cell.made(
            letter,
            load,
            loop.samples,
            until,
            clients=clients,
            offered=rate,
            client=spent / loop.now,
            tokens=None if tokens is None or after is None else after - tokens,
            usage=sampler.between(loop.began, loop.began + until),
        )
        self._found.cells.append(made)
        self._tell(
            f"{made.name}: {made.throughput:.3g} requests/s,"
            f" p50 {made.p50:.3g} s, p95 {made.p95:.3g} s"
            + (f", {made.failed} not answered" if made.failed else "")
        )
        return made

    def _rates(self, load: str) -> list[float]:
        """Return the rates of the open loop: multiples of the first architecture's highest rate."""
        if self._course.absolute:
            return list(self._course.rates)
        cells = [one for one in self._found.cells if (one.load, one.mode) == (load, "closed")]
        first = [one for one in cells if one.architecture == min(c.architecture for c in cells)]
        if not first:
            return []
        return [rate * first[-1].throughput for rate in self._course.rates if first[-1].throughput]

    def _device(self, pid: int) -> Callable[[], float]:
        if self._course.plan.backend == "vllm":
            try:
                gpu = Gpu()
            except OSError:
                pass  # vLLM on a CPU
            else:
                self._found.device = gpu.name
                return gpu.share
        cpus = Cpus(pid, self._course.plan.cpus)
        self._found.device = cpus.name
        return cpus.share

    def _note(self, text: str) -> None:
        self._found.notes.append(text)
        self._tell(text)


async def _caller(letter: str, port: int, clients: int) -> Caller:
    if letter != "f":
        return Http(port)
    caller = Socket(port, clients)
    await caller.open()
    return caller


async def _tokens(letter: str, port: int) -> int | None:
    """Return the tokens that the gateway's engine has made; others count them in their answers."""
    if letter != "f":
        return None
    for line in (await fetched(port, "/metrics")).splitlines():
        if line.startswith("gateway_tokens_total "):
            return int(float(line.split()[1]))
    return None
