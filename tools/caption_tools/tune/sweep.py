"""The steps of a search: the settings, the engines, and their order.

Owns: the settings that an engine can be tuned by, starting and closing engines, a gateway around
them, the order of the steps. Must not know: what makes a step better, where results go.

A step is `gateway bench load` on a gateway in this process. Two settings are searched, one after
the other: first the jobs at once, then the other setting with the best value of the first. Not all
pairs are tried, since the second setting only matters if the first is right.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from statistics import median

from msgspec.structs import replace

from caption_tools.loadtest import run as bench
from caption_tools.loadtest.model import report
from caption_tools.tune.model.load import Load
from caption_tools.tune.model.steps import Figures, Tried, best, compare, rises
from gateway.engines.base.engine import Engine, EngineWrapper, Sink
from gateway.engines.registry import build
from gateway.errors import EngineFault
from gateway.job import Job
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app
from gateway.server.process.listener import listen
from gateway.server.process.server import GatewayServer, configure
from gateway.server.runtime.room_host import TextOptions
from gateway.settings.catalogue import Settings, SettingsError

HELD = "max_num_seqs"
"""Setting of jobs at once to which the gateway can hold a running engine: one start is enough."""

PLACES = (1, 2, 4, 8, 16, 32, 64)  # values of jobs at once
TOKENS = (512, 2048, 8192, 16384)  # values of tokens in one step of the model
SCRAPE_S = 0.25  # seconds between two scrapes of the gateway's gauges
FAILED = 0.5  # share of captions that may fail. If more do, the waits mean nothing
UNLIMITED = {
    **{"stretch": 1e6, "queue": 100_000, "inflight": 4_096, "job_s": 3_600.0},
    **{"rate": 1e4, "burst": 10_000, "address_rate": 1e4},
}
"""Limits of the gateway that is measured. It drops and refuses nothing, else a setting that is too
slow would look quick.
"""


def tunable(settings: Settings) -> dict[str, tuple[int, ...]]:
    """Return the settings that one engine can be tuned by, with rising values."""
    if settings.engine == "ctranslate2":
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        cpus = cpus or 1
        threads = tuple(1 << n for n in range(cpus.bit_length()) if 1 << n < cpus)
        return {"batch": PLACES[:6], "inter_threads": (*threads, cpus)}
    return {HELD: PLACES} | (
        {"max_num_batched_tokens": TOKENS} if settings.engine == "vllm" else {}
    )


def searched(settings: Settings, given: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Return the settings to search for an engine, with their rising values.

    :param given: only these settings, with these values; empty: all

    Raises `SettingsError` for a setting that the engine cannot be tuned by.
    """
    known = tunable(settings)
    if unknown := [name for name in given if name not in known]:
        raise SettingsError(
            f"The {settings.engine} engine is not tuned by {unknown[0]}, but by"
            f" {' and '.join(known)}."
        )
    return {name: tuple(sorted(given[name])) for name in known if name in given} or known


class LimitedEngine(EngineWrapper):
    """An engine that gets no more than ``most`` jobs at once; None: no limit.

    ``peak`` is the largest number of jobs that it had at once.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.most: int | None = None
        self.peak = 0

    @property
    def capacity(self) -> int:
        whole = self.engine.capacity
        return whole if self.most is None else min(self.most, whole)

    def submit(self, job: Job, sink: Sink) -> None:
        super().submit(job, sink)
        self.peak = max(self.peak, self.unfinished)


@asynccontextmanager
async def serving(engine: Engine, settings: Settings) -> AsyncIterator[str]:
    """Serve a started engine on a free port of 127.0.0.1, and yield the address."""
    limits = replace(settings.limits, **UNLIMITED)
    settings = replace(settings, limits=limits, certfile=None, keyfile=None)
    listener = listen("127.0.0.1", 0, settings=settings)
    app = create_app(
        engine,
        limits,
        authenticator=Authenticator(limits),
        text=TextOptions(lang=settings.lang, flow=settings.flow),
    )
    server = GatewayServer(configure(app, settings), app.state.hub, 0.0)
    task = asyncio.create_task(server._serve([listener]))
    opened = asyncio.create_task(server.opened.wait())
    try:
        await asyncio.wait([task, opened], return_when=asyncio.FIRST_COMPLETED)
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        opened.cancel()
        server.should_exit = True
        app.state.hub.hurry()
        await task


async def measure(
    engine: LimitedEngine, settings: Settings, load: Load, to: Sequence[str]
) -> Figures:
    """Run a load on a gateway around an engine, and return the figures.

    Raises `EngineFault` if most captions fail, `OSError` if the load cannot be run, `ValueError` if
    nothing is said in it.
    """
    engine.peak = 0
    async with serving(engine, settings) as url:
        plan = replace(load.plan, url=url, langs=tuple(to), run=secrets.token_hex(4)).checked()
        run = bench.LoadRun(plan, load.lines, every=SCRAPE_S)
        loaded = await run.run()
    tally = run.tally
    wanted = (tally.counts["whole"] + tally.counts["unsent"]) * len(plan.langs)
    if not wanted:
        raise ValueError(
            f"Nothing is said in {plan.seconds:g} s of this load. Take longer with --seconds."
        )
    # Failed captions are fast; their waits would look like a good setting.
    if tally.counts["missed"] > FAILED * wanted:
        codes = ", ".join(f"{code} {count}" for code, count in sorted(tally.errors.items()))
        raise EngineFault(f"{tally.counts['missed']} of {wanted} captions failed: {codes}.")
    first = tally.times["first"]
    first.merge(tally.times["grown"])

    def metric(name: str) -> list[float]:
        return [value for _, value in loaded.metrics.get(name, ())]

    evicted = metric("gateway_engine_preemptions")
    return Figures(
        final=loaded.times["final"],
        first=first.summary(),
        made=loaded.rates["captions"],
        asked=wanted / plan.seconds,
        lost=loaded.errors_share,
        growing=rises([ms for _, ms in loaded.courses.get("final", {}).get("p50", ())]),
        token=1000 * median(metric(report.STEP) or [0.0]),
        tokens=median(metric("gateway_tokens_total a second") or [0.0]),
        running=engine.peak,
        waiting=round(max(metric("gateway_jobs_queued"), default=0.0)),
        cache=max(metric("gateway_engine_kv_cache_usage"), default=0.0),
        evicted=round(evicted[-1] - evicted[0]) if evicted else 0,
        doubts=tuple(loaded.invalid),
    )


class Sweep:
    """A search for the best settings under a load."""

    def __init__(
        self,
        settings: Settings,
        load: Load,
        to: Sequence[str],
        *,
        say: Callable[[str], None] = lambda _: None,
        build: Callable[[Settings], Engine] = build,
        measure: Callable[..., Awaitable[Figures]] = measure,
    ) -> None:
        self.settings = settings
        self.tried: list[Tried] = []  # results so far, however the search ended
        self._load = load
        self._to = to
        self._say = say
        self._build = build
        self._measure = measure

    async def run(self, wanted: Mapping[str, Sequence[int]]) -> None:
        """Try one setting after the other, each with the best values of the earlier ones.

        Raises `EngineFault` and `OSError` if no step can be measured.
        """
        known: Figures | None = None
        for name, values in wanted.items():
            usual = getattr(self.settings, name) or values[-1]
            tried = Tried(setting=name, usual=usual, steps={} if known is None else {usual: known})
            await self._climb(tried, values)
            if not tried.steps:
                why = "; ".join(tried.unusable.values())
                raise EngineFault(f"No {name} could be used: {why}")
            known = tried.steps[tried.best]
            self.settings = replace(self.settings, **{name: tried.best})

    async def _climb(self, tried: Tried, values: Sequence[int]) -> None:
        """Measure rising values until one is worse, twice, than the best of the smaller ones.

        It also ends if a larger value would not be used.
        """
        async with AsyncExitStack() as stack:
            held: LimitedEngine | None = None
            if tried.setting == HELD:
                held = await stack.enter_async_context(self._started(HELD, values[-1]))
            for value in values:
                if value in tried.steps:
                    continue
                smaller = {other: step for other, step in tried.steps.items() if other < value}
                known = smaller[best(smaller)] if smaller else None
                try:
                    measured = await self._step(tried.setting, value, held)
                    # One bad measurement may be chance; it must not end the search.
                    if known is not None and compare(measured, known)[0] < 0:
                        again = await self._step(tried.setting, value, held)
                        measured = again if compare(again, measured)[0] > 0 else measured
                except EngineFault as fault:
                    # The one engine of all values failed, so no other value can be measured.
                    if held is not None:
                        raise
                    tried.unusable[value] = str(fault)
                    self._say(f"{tried.setting} = {value} cannot be used: {fault}")
                    continue
                tried.steps[value] = measured
                if tried not in self.tried:
                    self.tried.append(tried)
                # More places than jobs change nothing.
                unused = held is not None and measured.kept and measured.running < value
                if unused or (known is not None and compare(measured, known)[0] < 0):
                    return

    async def _step(self, name: str, value: int, held: LimitedEngine | None) -> Figures:
        """Measure a value on an engine that is held to it, or on a new engine."""
        async with nullcontext(held) if held else self._started(name, value) as engine:
            if engine is held:
                engine.most = value
            self._say(f"{name} = {value}: {self._load.plan.seconds:g} s ...")
            return await self._measure(engine, self.settings, self._load, self._to)

    @asynccontextmanager
    async def _started(self, name: str, value: int) -> AsyncIterator[LimitedEngine]:
        """Start an engine with a setting changed. Raises `EngineFault`."""
        # A fallback would be measured in the place of an engine that does not start.
        settings = replace(self.settings, fallback=None, **{name: value})
        engine = LimitedEngine(self._build(settings))
        self._say(f"{engine.name} starts with {name} = {value} ...")
        try:
            await engine.start()
            yield engine
        finally:
            await engine.aclose()
