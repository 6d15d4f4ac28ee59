"""An engine around several engines: each job goes to one that translates its language pair.

Owns: the choice of the engine for each job, and repeating a job at which an engine failed. Must not
know: any particular engine, how a dead one comes back, jobs that take two steps.

Each engine comes with its own supervision, guards and splitting of long texts. Of those that are
ready for a pair, one with a free slot is chosen, and of these the one with the least load for its
weight (`EngineRoute.load`). A spare engine (the setting ``fallback``) gets jobs of pairs for which
no other engine is ready, and jobs at which one failed. A growing text passes from one engine to the
other by its forced prefix: neither takes back what the other has committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b

from msgspec.structs import replace

from gateway.core.scheduling.scheduler import Lane, Lanes
from gateway.engines.base.engine import (
    Aborted,
    Engine,
    OpenSinks,
    PushEngine,
    Sink,
    SinkWrapper,
    is_engine_failure,
    log_repeat,
    refuse,
)
from gateway.engines.base.service import Health
from gateway.engines.profiles.pairs import PairTable
from gateway.engines.wrappers.route import EngineRoute
from gateway.errors import EngineFault, EngineGone
from gateway.job import Chunk, Job

MADE_BY = "engine:"
"""Flag of a caption that was not made by all that `RoutedEngine.name` names; the name of its engine
follows."""

AWAY = 1.25
"""Factor of the load of an engine that has not the beginning of the same growing text in its prefix
cache, and so takes longer for the job."""


class RoutedEngine(PushEngine):
    """An `Engine` around the engines of ``routes``."""

    substitute: str | None = None
    """Names of the engines that translate while one of them cannot; None if all can. An engine
    whose twin of the same name is given its pairs too is not missed."""

    def __init__(self, routes: Sequence[EngineRoute]) -> None:
        self.routes = tuple(routes)
        self.changed: Callable[[], None] = lambda: None
        """Called when the capacity or `substitute` has changed."""
        self._chosen = [route for route in self.routes if not route.spare]
        self._spare = [route for route in self.routes if route.spare]
        self._lent: set[tuple[str, str]] = set()  # pairs of chosen engines that a spare one does
        self._starts: dict[EngineRoute, asyncio.Task[None]] = {}
        self._started = self._closed = False
        self._open_sinks: dict[str, RoutedSink] = {}
        self._table: tuple[tuple[object, ...], PairTable] | None = None
        for route in self.routes:
            route.engine.changed = self.update

    # --- its languages --------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return _names(self._chosen)

    @property
    def profile(self) -> PairTable:
        models = [route.profile for route in (*self._chosen, *self._spare)]
        key = tuple(map(id, models))  # a model server may name another model later
        if self._table is None or self._table[0] != key:
            self._table = key, PairTable(models, self._takes)
        return self._table[1]

    @property
    def capacity(self) -> int:
        """Sum over the engines that get jobs; over all if none is ready, so that jobs fail."""
        return sum(route.capacity for route in self._working() or self._chosen)

    @property
    def health(self) -> Health:
        if self._closed:
            return Health.CLOSED
        states = [route.health for route in self.routes]
        if not self._started or Health.STARTING in states and Health.READY not in states:
            return Health.STARTING
        return Health.READY if Health.READY in states else Health.DEAD

    @property
    def unfinished(self) -> int:
        return sum(route.unfinished for route in self.routes)

    @property
    def parts(self) -> Mapping[str, Engine]:
        return {route.name: route for route in self.routes}

    @property
    def lanes(self) -> Lanes:
        return self.lane

    def stats(self) -> Mapping[str, float]:
        """Return nothing: the engines are counted one by one, see `parts`."""
        return {}

    def serves(self, source: str, target: str) -> bool:
        return any(route.serves(source, target) for route in self.routes)

    def lane(self, source: str, target: str) -> Lane:
        """Return the engines to which a job of a pair can go now."""
        return tuple(self._able(source, target))

    # --- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all engines. Return when each has started, has failed once, or is replaced."""
        # They start side by side. Engines that share a GPU wait for each other by themselves.
        for route in self.routes:
            task = asyncio.create_task(route.start(), name=f"start {route.name}")
            task.add_done_callback(lambda _: self.update())
            self._starts[route] = task
        while not all(map(self._settled, self._chosen)):
            waiting = [task for task in self._starts.values() if not task.done()]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        self._started = True
        self.update()

    def _settled(self, route: EngineRoute) -> bool:
        """Tell whether a spare engine is ready for all jobs of an engine, or all were tried."""
        # The engine alone may be ready without the models of its pairs.
        spare = [spare for spare in self._spare if spare.covers(route)]
        ready = any(each.health is Health.READY for each in spare)
        return ready or all(self._starts[each].done() for each in (route, *spare))

    async def aclose(self) -> None:
        self._closed = True
        for task in self._starts.values():
            task.cancel()
        await asyncio.gather(*self._starts.values(), return_exceptions=True)
        await asyncio.gather(*(route.aclose() for route in self.routes))

    def prepare(self, source: str, target: str) -> None:
        able = [route for route in self._chosen if route.takes(source, target)]
        if any(route.serves(source, target) for route in able):
            return
        for route in able:
            route.prepare(source, target)
        pair = (source, target)
        if able and pair not in self._lent and any(spare.serves(*pair) for spare in self._spare):
            self._lent.add(pair)
            self.update()

    def update(self) -> None:
        """Tell the hub of a change in the health or the pairs of an engine."""
        self._lent = {
            pair for pair in self._lent if not any(route.serves(*pair) for route in self._chosen)
        }
        # While none works, the last report stays: nothing has come back.
        if self._started and (working := self._working()):
            away = self._lent or any(map(self._is_missed, self._chosen))
            self.substitute = _names(working) if away else None
        if self._started and not self._closed:
            self.changed()

    def _working(self) -> list[EngineRoute]:
        """Return the engines that get jobs now: a spare one only if another is missed."""
        missed = [route for route in self._chosen if self._is_missed(route)]
        return [
            route
            for route in self.routes
            if route.health is Health.READY
            and (not route.spare or self._lent or any(map(route.covers, missed)))
        ]

    def _is_missed(self, gone: EngineRoute) -> bool:
        """Tell whether an engine is gone, and has no ready twin that is given all its pairs."""
        return gone.health is not Health.READY and not any(
            route.health is Health.READY
            and route.engine.name == gone.engine.name
            and route.covers(gone)
            for route in self._chosen
        )

    # --- jobs -----------------------------------------------------------------------------------

    def submit(self, job: Job, sink: Sink) -> None:
        route = self.choose(job)
        if route is None or route.spare:
            self.prepare(job.source, job.target)
        if route is not None:
            RoutedSink(self, self._open_sinks, job, sink).give(route)
        elif self._closed:
            refuse(sink, EngineGone("The engines were closed; the gateway is shutting down."))
        else:
            hint = "It is starting or restarting by itself; try again in a few seconds."
            what = f"No engine is ready to translate {job.source} into {job.target}."
            refuse(sink, EngineFault(what, hint=hint))

    def choose(self, job: Job, without: EngineRoute | None = None) -> EngineRoute | None:
        """Return the engine for a job, other than one that failed at it; None if none is ready."""
        able = self._able(job.source, job.target, without)
        if len(able) < 2:
            return able[0] if able else None
        able = [route for route in able if route.free] or able
        home = max(able, key=lambda route: _affinity(job, route.name)) if job.room else None
        return min(able, key=lambda route: route.load * (1.0 if home in (None, route) else AWAY))

    def _able(
        self, source: str, target: str, without: EngineRoute | None = None
    ) -> list[EngineRoute]:
        """Return the engines that a job of a pair can go to now."""
        able = [
            route for route in self.routes if route is not without and route.serves(source, target)
        ]
        return [route for route in able if not route.spare] or able

    def take_over(self, sink: RoutedSink, fault: EngineFault) -> bool:
        """Repeat a job at which an engine failed on another one; return False if there is none."""
        route = None if self._closed else self.choose(sink.job, without=sink.route)
        if route is None:
            return False
        log_repeat(sink.job, route.name, fault)
        route.takeovers += 1
        sink.route.jobs -= 1
        sink.give(route)
        return True

    def abort(self, job_id: str) -> None:
        sink = self._open_sinks.get(job_id)
        if sink is not None:
            sink.route.engine.abort(job_id)
            sink.finish(Aborted(job_id))

    def _takes(self, source: str, target: str) -> bool:
        return any(route.takes(source, target) for route in self.routes)


class RoutedSink(SinkWrapper):
    """A job that one of several engines has, or another one after the first failed at it."""

    __slots__ = ("engine", "has_output", "reset_pending", "route", "taken_over")

    def __init__(self, engine: RoutedEngine, open_sinks: OpenSinks, job: Job, sink: Sink) -> None:
        super().__init__(open_sinks, job, sink)
        self.engine = engine
        self.has_output = self.taken_over = False
        self.reset_pending = False  # the next chunk has to void the output so far

    def give(self, route: EngineRoute) -> None:
        """Submit the job to an engine that serves its pair."""
        self.route = route
        route.jobs += 1
        source, target = route.profile.resolve(self.job.source, self.job.target)
        # Token ids mean nothing to another vocabulary, so they are left out.
        job = replace(self.job, source=source, target=target, prefix_ids=())
        route.engine.submit(job, self)

    def chunk(self, chunk: Chunk) -> None:
        if not self.live:
            return
        self.has_output = True
        if self.reset_pending:
            self.reset_pending = False
            chunk = replace(chunk, reset=True)
        self.sink.chunk(chunk)

    def end(self, fault: EngineFault | None) -> None:
        if not self.live:
            return
        if is_engine_failure(fault) and not self.taken_over:
            self.taken_over, self.reset_pending = True, self.has_output
            if self.engine.take_over(self, fault):
                return
        if fault is None:
            name = self.route.engine.name
            told = self.job.partial or name == self.engine.name
            flags = () if told else (MADE_BY + name,)
            # If the other engine wrote nothing, no chunk of its own has voided the output.
            if flags or self.reset_pending:
                self.sink.chunk(Chunk("", tokens=0, reset=self.reset_pending, flags=flags))
        self.finish(fault)

    def finish(self, fault: EngineFault | None) -> None:
        if self.live:
            self.route.jobs -= 1
        super().finish(fault)


def _names(routes: Iterable[EngineRoute]) -> str:
    return ", ".join(dict.fromkeys(route.engine.name for route in routes))


def _affinity(job: Job, engine: str) -> bytes:
    """Return the rank of an engine for the texts of the job's room and language."""
    # Rendezvous hashing: if an engine is gone, only its own rooms move.
    return blake2b(f"{job.room}.{job.target}.{engine}".encode(), digest_size=8).digest()
