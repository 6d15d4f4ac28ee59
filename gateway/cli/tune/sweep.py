"""The steps of a search: the settings, the engines, and their order.

Owns: the settings that an engine can be tuned by, starting and closing engines, a gateway around
them, the order of the steps. Must not know: what makes a step better, where results go.

A step is `gateway bench load` on a gateway in this process. Two settings are searched, one after
the other: first the jobs at once, then the other setting with the best value of the first. Not all
pairs are tried, since the second setting only matters if the first is right.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from statistics import median

import msgspec
import uvicorn
from msgspec.structs import replace

from gateway.cli.loadtest import run as bench
from gateway.cli.loadtest.model import report
from gateway.cli.report.stats import Histogram
from gateway.cli.tune.model.load import Load
from gateway.cli.tune.model.steps import Figures, Tried, Verdict, best, compare, rises
from gateway.engines.base.engine import Engine, EngineWrapper, Sink
from gateway.engines.registry import build
from gateway.errors import EngineFault
from gateway.job import Job
from gateway.server.app import create_app
from gateway.server.process.listener import listen
from gateway.server.process.server import GatewayServer, configure
from gateway.settings.catalogue import Settings, SettingsError

PLACES = (1, 2, 4, 8, 16, 32, 64)
"""Values of jobs at once."""

TOKENS = (512, 2048, 8192, 16384)
"""Values of tokens in one step of the model."""

SCRAPE_S = 0.25
"""Seconds between two scrapes of the gateway's gauges."""

FAILED = 0.5
"""Share of captions that may fail. If more do, the waits mean nothing."""

UNLIMITED = {
    "stretch": 1e6,
    "queue": 100_000,
    "inflight": 4_096,
    "job_s": 3_600.0,
    "rate": 1e4,
    "burst": 10_000,
    "address_rate": 1e4,
}
"""Limits of the gateway that is measured. It drops and refuses nothing, else a setting that is too
slow would look quick.
"""


class Tunable(msgspec.Struct, frozen=True, kw_only=True):
    """A setting to try.

    :param held: its values are jobs at once; the dispatcher can hold an engine to any smaller
        value, so one start is enough
    """

    setting: str
    values: tuple[int, ...]
    held: bool = False


def tunable(settings: Settings, given: Mapping[str, Sequence[int]] | None = None) -> list[Tunable]:
    """Return the settings that this engine can be tuned by.

    :param given: only these settings, with these values

    Raises `SettingsError` for a setting that the engine cannot be tuned by.
    """
    if settings.engine == "ctranslate2":
        cpus = _cpus()
        threads = tuple(1 << n for n in range(cpus.bit_length()) if 1 << n < cpus)
        found = [
            Tunable(setting="batch", values=PLACES[:6]),
            Tunable(setting="inter_threads", values=(*threads, cpus)),
        ]
    else:
        found = [Tunable(setting="max_num_seqs", values=PLACES, held=True)]
        if settings.engine == "vllm":
            found.append(Tunable(setting="max_num_batched_tokens", values=TOKENS))
    if not given:
        return found
    names = [tuned.setting for tuned in found]
    if unknown := [name for name in given if name not in names]:
        raise SettingsError(
            f"The {settings.engine} engine is not tuned by {unknown[0]}, but by"
            f" {' and '.join(names)}."
        )
    return [
        replace(tuned, values=tuple(sorted(given[tuned.setting])))
        for tuned in found
        if tuned.setting in given
    ]


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
        lang=settings.lang,
        flow=settings.flow,
        coalesce_s=settings.coalesce_ms / 1000,
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


def loop(settings: Settings) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of the event loop that a gateway of these settings runs on."""
    # Without `log_config=None` uvicorn would print its own log on stderr from now on.
    return uvicorn.Config(create_app, loop=settings.loop, log_config=None).get_loop_factory()


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
        return figures(await run.run(), run, engine.peak)


def figures(found: report.LoadReport, run: bench.LoadRun, peak: int) -> Figures:
    """Return the figures of a step. Raises `EngineFault` and `ValueError` as `measure`."""
    plan, tally = found.plan, run.tally
    wanted = (tally.counts["whole"] + tally.counts["unsent"]) * len(plan.langs)
    if not wanted:
        raise ValueError(
            f"Nothing is said in {plan.seconds:g} s of this load. Take longer with --seconds."
        )
    # Failed captions are fast; their waits would look like a good setting.
    if tally.counts["missed"] > FAILED * wanted:
        codes = ", ".join(f"{code} {count}" for code, count in sorted(tally.errors.items()))
        raise EngineFault(f"{tally.counts['missed']} of {wanted} captions failed: {codes}.")
    first = Histogram()
    first.merge(tally.times["first"])
    first.merge(tally.times["grown"])

    def metric(name: str) -> list[float]:
        return [value for _, value in found.metrics.get(name, ())]

    thrown = "gateway_engine_preemptions"
    return Figures(
        final=found.times["final"],
        first=first.summary(),
        made=found.rates["captions"],
        asked=wanted / plan.seconds,
        lost=found.errors_share,
        growing=rises([ms for _, ms in found.courses.get("final", {}).get("p50", ())]),
        token=1000 * median(metric(report.STEP) or [0.0]),
        tokens=median(metric("gateway_tokens_total a second") or [0.0]),
        running=peak,
        waiting=round(max(metric("gateway_jobs_queued"), default=0.0)),
        cache=max(metric("gateway_engine_kv_cache_usage"), default=0.0),
        preemptions=round(found.after.get(thrown, 0.0) - found.before.get(thrown, 0.0)),
        doubts=tuple(found.invalid),
    )


Measure = Callable[[LimitedEngine, Settings, Load, Sequence[str]], Awaitable[Figures]]
"""A function that measures one step; see `measure`."""


class Sweep:
    """A search for the best settings under a load.

    :param to: canonical tags of the languages that are read
    :param say: prints a line of progress
    :param build: makes an engine from settings
    :param measure: measures one step
    """

    def __init__(
        self,
        settings: Settings,
        load: Load,
        to: Sequence[str],
        *,
        say: Callable[[str], None] = lambda _: None,
        build: Callable[[Settings], Engine] = build,
        measure: Measure = measure,
    ) -> None:
        self.settings = settings
        self.tried: list[Tried] = []
        """Results so far, however the search ended."""
        self._load = load
        self._to = to
        self._say = say
        self._build = build
        self._measure = measure
        self._held: LimitedEngine | None = None  # an engine that is held to each value

    async def run(self, tunable: Sequence[Tunable]) -> None:
        """Try one setting after the other, each with the best values of those before.

        Raises `EngineFault` and `OSError` if no step can be measured.
        """
        known: Figures | None = None
        for tuned in tunable:
            known = await self._try(tuned, known)

    async def _try(self, tuned: Tunable, known: Figures | None) -> Figures:
        """Find the best value of a setting, adopt it and return its figures.

        :param known: figures with the value before, if it was measured already
        """
        usual = getattr(self.settings, tuned.setting) or tuned.values[-1]
        sides = [sorted(tuned.values)]
        steps: dict[int, Figures] = {}
        if known is not None:
            steps[usual] = known
            sides = [
                [value for value in reversed(sides[0]) if value < usual],
                [value for value in sides[0] if value > usual],
            ]
        told: dict[int, str] = {}
        kept = None if known is None else usual
        try:
            async with contextlib.AsyncExitStack() as stack:
                if tuned.held:
                    most = {tuned.setting: max(tuned.values)}
                    self._held = await stack.enter_async_context(self._started(most))
                for side in sides:
                    await self._climb(tuned, side, steps, told)
        finally:
            self._held = None
            if steps and told:
                value = best(steps, kept)
                steps = dict(sorted(steps.items()))
                self.tried.append(
                    Tried(
                        setting=tuned.setting, usual=usual, best=value, steps=steps, verdicts=told
                    )
                )
                self.settings = replace(self.settings, **{tuned.setting: value})
        if not steps:
            raise EngineFault(f"No {tuned.setting} could be used: {'; '.join(told.values())}")
        return steps[best(steps, kept)]

    async def _climb(
        self,
        tuned: Tunable,
        values: Sequence[int],
        steps: dict[int, Figures],
        told: dict[int, str],
    ) -> None:
        """Measure values until one is worse than the best so far, twice.

        It also ends if a larger value would not be used.
        """
        for value in values:
            try:
                found = await self._step(tuned, value)
                # One bad measurement may be chance; it must not end the search.
                if steps and compare(found, steps[best(steps)])[0] is Verdict.WORSE:
                    again = await self._step(tuned, value, ", again")
                    found = again if compare(again, found)[0] is Verdict.BETTER else found
            except EngineFault as fault:
                # The one engine of all values failed, so no other value can be measured.
                if tuned.held:
                    raise
                told[value] = f"cannot be used: {fault}"
                self._say(f"{tuned.setting} = {value} {told[value]}")
                continue
            verdict, why = compare(found, steps[best(steps)]) if steps else (None, "first step")
            told[value] = why if verdict is None else f"{verdict.value}: {why}"
            steps[value] = found
            if verdict is Verdict.WORSE:
                return
            # More places than jobs change nothing.
            if tuned.held and found.kept and found.running < value:
                told[value] += f"; there were never more than {found.running} jobs at once"
                return

    async def _step(self, tuned: Tunable, value: int, again: str = "") -> Figures:
        """Measure a value on an engine that is held to it, or on a new engine."""
        if self._held is None:
            async with self._started({tuned.setting: value}) as engine:
                return await self._timed(tuned, value, again, engine)
        self._held.most = value
        return await self._timed(tuned, value, again, self._held)

    async def _timed(
        self, tuned: Tunable, value: int, again: str, engine: LimitedEngine
    ) -> Figures:
        self._say(f"{tuned.setting} = {value}{again}: {self._load.plan.seconds:g} s ...")
        return await self._measure(engine, self.settings, self._load, self._to)

    @asynccontextmanager
    async def _started(self, changes: dict[str, int]) -> AsyncIterator[LimitedEngine]:
        """Start an engine with some settings changed. Raises `EngineFault`."""
        # A fallback would be measured in the place of an engine that does not start.
        engine = LimitedEngine(self._build(replace(self.settings, fallback=None, **changes)))
        shown = ", ".join(f"{name} = {value}" for name, value in changes.items())
        self._say(f"{engine.name} starts with {shown} ...")
        try:
            await engine.start()
            yield engine
        finally:
            await engine.aclose()


def _cpus() -> int:
    """Return the number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
