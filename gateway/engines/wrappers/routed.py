"""An engine around several engines: each job goes to one that translates its language pair.

Owns: the choice of the engine for each job, and repeating a job at which an engine failed. Must not
know: any particular engine, why one is gone, how it comes back
(`gateway.engines.wrappers.supervised`), jobs that take two steps
(`gateway.engines.wrappers.pivot`).

Each engine comes with its own supervision, fallback, guards and splitting of long texts. Of those
that are ready for a pair, one with a free slot is chosen, and of these the one with the least load
for its weight (`EngineRoute.load`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

from gateway.core.base.model import Model
from gateway.core.scheduling.engine_slots import Lane, Slots
from gateway.engines.base.engine import (
    Aborted,
    Engine,
    PushEngine,
    Sink,
    log_repeat,
    refuse,
)
from gateway.engines.base.service import Health
from gateway.engines.profiles.pairs import PairTable
from gateway.engines.wrappers.fallback import FallbackSink, adapted
from gateway.errors import EngineFault, EngineGone
from gateway.job import Job
from gateway.text import languages

ANY = "*"
"""Stands for every language in the pairs of a route."""

Pairs = tuple[tuple[str, str], ...]

AWAY = 1.25
"""Factor of the load of an engine that has not the beginning of the same growing text in its prefix
cache, and so takes longer for the job."""

KNOWN_PAIRS = 4_096
"""Pairs whose answer a route remembers. Tags come from clients, so there must be a bound."""


class EngineRoute:
    """One of several engines: its pairs and its jobs.

    :param name: unique name, for metrics
    :param pairs: pairs that it is given, with `ANY`; None: all pairs of its model
    :param weight: share of the jobs that it gets, compared with one of as many slots
    """

    def __init__(
        self, name: str, engine: Engine, *, pairs: Pairs | None = None, weight: float = 1.0
    ) -> None:
        self.name = name
        self.engine = engine
        self.weight = weight
        self.jobs = 0
        """Jobs that it has now."""
        self._pairs = pairs
        self._model: Model | None = None
        self._taken: dict[tuple[str, str], bool] = {}  # what `takes` has returned for this model

    def takes(self, source: str, target: str) -> bool:
        """Tell whether it is given a pair, ready or not."""
        model = self.engine.profile
        if model is not self._model or len(self._taken) > KNOWN_PAIRS:
            self._model, self._taken = model, {}
        known = self._taken.get((source, target))
        if known is None:
            allowed = self._pairs is None or any(
                _fits(first, source) and _fits(second, target) for first, second in self._pairs
            )
            known = self._taken[source, target] = allowed and model.supports(source, target)
        return known

    def covers(self, other: EngineRoute) -> bool:
        """Tell whether it is given all pairs of another one, which has the same model."""
        if self._pairs is None or other._pairs is None:
            return self._pairs is None
        return set(other._pairs) <= set(self._pairs)

    def serves(self, source: str, target: str) -> bool:
        """Tell whether it would translate a pair now."""
        ready = self.engine.health is Health.READY
        # Another engine may translate instead, one with fewer pairs than the profile has.
        return ready and self.takes(source, target) and self.engine.serves(source, target)

    @property
    def free(self) -> int:
        """Number of jobs that it takes without making others wait."""
        return max(0, self.engine.capacity - self.jobs)

    @property
    def load(self) -> float:
        """Jobs of each slot, and one more of them all, divided by the weight.

        An engine that is faster than another one ends its jobs sooner, and so is given more.
        """
        return (1 + self.jobs / max(1, self.engine.capacity)) / self.weight


class RoutedEngine(PushEngine):
    """An `Engine` around the engines of ``routes``."""

    def __init__(self, routes: Sequence[EngineRoute]) -> None:
        self.routes = tuple(routes)
        self.changed: Callable[[], None] = lambda: None
        """Called when the capacity or `substitute` has changed."""
        self._working = self.name
        self._reduced = False
        self._started = self._closed = False
        self._open_sinks: dict[str, RoutedSink] = {}
        self._table: tuple[tuple[object, ...], PairTable] | None = None
        for route in self.routes:
            route.engine.changed = self.update

    # --- what it can do -------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return ", ".join(dict.fromkeys(route.engine.name for route in self.routes))

    @property
    def profile(self) -> PairTable:
        models = [route.engine.profile for route in self.routes]
        key = tuple(map(id, models))  # a model server may name another model later
        if self._table is None or self._table[0] != key:
            self._table = key, PairTable(models, self._takes)
        return self._table[1]

    @property
    def capacity(self) -> int:
        """Sum over the engines that are ready; over all if none is, so that their jobs fail."""
        ready = [route for route in self.routes if route.engine.health is Health.READY]
        return sum(route.engine.capacity for route in ready or self.routes)

    @property
    def health(self) -> Health:
        if self._closed:
            return Health.CLOSED
        states = [route.engine.health for route in self.routes]
        if not self._started:
            return Health.STARTING
        return next(
            (state for state in (Health.READY, Health.STARTING) if state in states), Health.DEAD
        )

    @property
    def unfinished(self) -> int:
        return sum(route.engine.unfinished for route in self.routes)

    @property
    def parts(self) -> Mapping[str, Engine]:
        return {route.name: route.engine for route in self.routes}

    @property
    def slots(self) -> Slots:
        return self

    @property
    def substitute(self) -> str | None:
        """Names of the engines that translate while one of them cannot; None if all can.

        An engine whose twin of the same name is given its pairs too is not missed.
        """
        return self._working if self._reduced else None

    def stats(self) -> Mapping[str, float]:
        """Return nothing: the engines are counted one by one, see `parts`."""
        return {}

    def serves(self, source: str, target: str) -> bool:
        """Tell whether one of the engines would translate a pair now."""
        return any(route.serves(source, target) for route in self.routes)

    # As `Slots`

    def lane(self, source: str, target: str) -> Lane:
        return tuple(route.name for route in self.routes if route.serves(source, target))

    def size(self, lane: Lane) -> int:
        return sum(route.engine.capacity for route in self.routes if route.name in lane)

    def free(self, lane: Lane) -> int:
        return sum(route.free for route in self.routes if route.name in lane) if lane else 1

    # --- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all engines; return when each has started or failed for the first time."""
        # They start side by side. Engines that share a GPU wait for each other by themselves.
        await asyncio.gather(*(route.engine.start() for route in self.routes))
        self._started = True
        self.update()

    async def aclose(self) -> None:
        self._closed = True
        await asyncio.gather(*(route.engine.aclose() for route in self.routes))

    def update(self) -> None:
        """Tell the hub of a change in the health of an engine."""
        working = [
            inner.substitute or inner.name
            for inner in (route.engine for route in self.routes)
            if inner.health is Health.READY
        ]
        # While none works, the last report stays: nothing has come back.
        if self._started and working:
            self._working = ", ".join(dict.fromkeys(working))
            self._reduced = self._working != self.name or any(
                route.engine.health is not Health.READY and not self._has_twin(route)
                for route in self.routes
            )
        if self._started and not self._closed:
            self.changed()

    def _has_twin(self, gone: EngineRoute) -> bool:
        """Tell whether a ready engine of the same name is given all pairs of one that is gone."""
        return any(
            route.engine.health is Health.READY
            and route.engine.name == gone.engine.name
            and route.covers(gone)
            for route in self.routes
        )

    # --- jobs -----------------------------------------------------------------------------------

    def submit(self, job: Job, sink: Sink) -> None:
        route = self.choose(job)
        if route is not None:
            RoutedSink(self, self._open_sinks, job, sink).give(route)
        elif self._closed:
            refuse(sink, EngineGone("The engines were closed; the gateway is shutting down."))
        else:
            hint = "It is starting or restarting by itself; try again in a few seconds."
            what = f"No engine is ready to translate {job.source} into {job.target}."
            refuse(sink, EngineFault(what, hint=hint))

    def choose(self, job: Job, without: EngineRoute | None = None) -> EngineRoute | None:
        """Return the engine for a job; None if none is ready for its pair.

        :param without: an engine that failed at it
        """
        able = [
            route
            for route in self.routes
            if route is not without and route.serves(job.source, job.target)
        ]
        if len(able) < 2:
            return able[0] if able else None
        able = [route for route in able if route.free] or able
        home = max(able, key=lambda route: _affinity(job, route.name)) if job.room else None

        return min(able, key=lambda route: route.load * (1.0 if home in (None, route) else AWAY))

    def take_over(self, sink: FallbackSink, fault: EngineFault) -> bool:
        """Repeat a job at which an engine failed on another one; return False if there is none."""
        assert isinstance(sink, RoutedSink)
        route = None if self._closed else self.choose(sink.job, without=sink.route)
        if route is None:
            return False
        log_repeat(sink.job, route.name, fault)
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


class RoutedSink(FallbackSink):
    """A job that one of several engines has, or another one after that failed at it."""

    __slots__ = ("route",)

    engine: RoutedEngine

    def give(self, route: EngineRoute) -> None:
        self.route = route
        route.jobs += 1
        job = adapted(self.job, route.engine.profile)
        assert job is not None, "the engine was chosen for its languages"
        route.engine.submit(job, self)

    def finish(self, fault: EngineFault | None) -> None:
        if self.live:
            self.route.jobs -= 1
        super().finish(fault)


def _affinity(job: Job, engine: str) -> bytes:
    """Return the rank of an engine for the texts of the job's room and language."""
    # Rendezvous hashing: if an engine is gone, only its own rooms move.
    return blake2b(f"{job.room}.{job.target}.{engine}".encode(), digest_size=8).digest()


def _fits(tag: str, asked: str) -> bool:
    return tag == ANY or languages.same(tag, asked)
