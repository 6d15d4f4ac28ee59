"""An engine around two: while the first is not there, the second does its work.

Owns: which of the two a job is given to, and doing a job again at which the first failed. Must not
know: any particular engine, why one is gone, how it comes back
(`gateway.engines.wrappers.supervised`).

Both are whole: guarded and cut into pieces as each needs it. The second is loaded from the start,
so that it is there at once, and has to be small for that. What is made of a growing text goes over
from one to the other by its forced prefix: neither takes back what the other has committed.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec.structs import replace

from gateway.engines.base.engine import (
    Aborted,
    Engine,
    Health,
    PushEngine,
    Sink,
    SinkWrapper,
    is_engine_failure,
    refuse,
)
from gateway.engines.profiles import Profile
from gateway.engines.wrappers.supervised import backoff
from gateway.errors import EngineFault
from gateway.job import Chunk, Job
from gateway.text import languages

logger = logging.getLogger(__name__)


class FallbackEngine(PushEngine):
    """Wraps ``first`` and ``second``, as an `Engine` itself. Its name and profile are the first's.

    `start` returns when one of the two is ready, and goes on trying to start the other: it may come
    later, or never. Whoever builds it has `look` called when the health of either changes; without
    that it is seen at the next job.

    :param sleep, chance: the passing of time and chance (0 to 1); tests bring their own
    """

    def __init__(
        self,
        first: Engine,
        second: Engine,
        *,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.first = first
        self.second = second
        self.sleep = sleep
        self.chance = chance
        self.changed: Callable[[], None] = lambda: None
        """Called when `substitute` has changed."""
        self.taken = 0
        """Jobs that the second took over when the first had failed at them."""
        self._told: str | None = None
        self._closed = False
        self._open_sinks: dict[str, SinkWrapper] = {}
        self._starting: list[asyncio.Task[None]] = []

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def profile(self) -> Profile:
        return self.first.profile

    @property
    def capacity(self) -> int:
        return self._engine.capacity

    @property
    def health(self) -> Health:
        return Health.CLOSED if self._closed else self._engine.health

    @property
    def unfinished(self) -> int:
        return self.first.unfinished + self.second.unfinished

    @property
    def substitute(self) -> str | None:
        """Name of the second while it does the work."""
        return self.second.name if self._engine is self.second else None

    @property
    def _engine(self) -> Engine:
        """The one that does the work now; the first where neither can."""
        if self.first.health is not Health.READY and self.second.health is Health.READY:
            return self.second
        return self.first

    def stats(self) -> Mapping[str, float]:
        return {**self.first.stats(), "taken_over": self.taken}

    def look(self) -> None:
        """See which one does the work now, and tell where that has changed."""
        substitute = self.substitute
        if substitute != self._told and not self._closed:
            self._told = substitute
            if substitute is None:
                logger.info("%s does the work again", self.name)
            else:
                logger.warning("%s does the work of %s", substitute, self.name)
            self.changed()

    async def start(self) -> None:
        for engine in (self.first, self.second):
            task = asyncio.create_task(self._begin(engine), name=f"start {engine.name}")
            self._starting.append(task)
        waiting = set(self._starting)
        while waiting and self.health is not Health.READY:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)

    async def _begin(self, engine: Engine) -> None:
        """Start one of the two, however many tries it takes."""
        for tries in itertools.count():
            try:
                await engine.start()
                break
            except EngineFault as fault:
                logger.warning("engine %s: %s Trying again.", engine.name, fault)
            except Exception:
                logger.exception("engine %s could not be started; trying again", engine.name)
            await self.sleep(self.chance() * backoff(tries))
        self.look()

    def submit(self, job: Job, sink: Sink) -> None:
        self.look()
        if self._engine is self.first:
            self.first.submit(job, FallbackSink(self, self._open_sinks, job, sink))
        elif (own := self._adapted(job)) is not None:
            self.second.submit(own, sink)
        else:
            fault = EngineFault(
                f"{self.second.name}, which does the work now, cannot translate"
                f" {job.source} into {job.target}.",
                hint="It can when the engine that was chosen is back.",
            )
            refuse(sink, fault)

    def rescue(self, lent: FallbackSink, fault: EngineFault) -> bool:
        """Have the second do a job at which the first failed; return whether it can."""
        if self._closed or self.second.health is not Health.READY:
            return False
        own = self._adapted(lent.job)
        if own is None:
            return False
        logger.info("job %s is done again by %s: %s", own.id, self.second.name, fault.summary)
        self.taken += 1
        self.second.submit(own, lent)
        return True

    def abort(self, job_id: str) -> None:
        lent = self._open_sinks.get(job_id)
        self.first.abort(job_id)
        self.second.abort(job_id)
        if lent is not None:
            lent.finish(Aborted(job_id))

    async def aclose(self) -> None:
        self._closed = True
        for task in self._starting:
            task.cancel()
        if self._starting:
            await asyncio.wait(self._starting)
        try:
            await self.first.aclose()
        finally:
            await self.second.aclose()

    def _adapted(self, job: Job) -> Job | None:
        """The job in the second's spelling of its languages; None where it lacks them."""
        profile = self.second.profile
        source = languages.match(job.source, profile.sources)
        target = languages.match(job.target, profile.targets)
        if source is None or target is None or not profile.supports(source, target):
            return None
        return replace(job, source=source, target=target, prefix_ids=())


class FallbackSink(SinkWrapper):
    """A job that the first was given, and the second perhaps after it."""

    __slots__ = ("engine", "rescued", "shown", "void")

    def __init__(
        self, engine: FallbackEngine, open_sinks: dict[str, SinkWrapper], job: Job, sink: Sink
    ) -> None:
        super().__init__(open_sinks, job, sink)
        self.engine = engine
        self.shown = self.rescued = False
        self.void = False  # what was shown is to be taken back

    def chunk(self, chunk: Chunk) -> None:
        if not self.live:
            return
        self.shown = True
        if self.void:
            self.void = False
            chunk = replace(chunk, reset=True)
        self.sink.chunk(chunk)

    def end(self, fault: EngineFault | None) -> None:
        if not self.live:
            return
        if is_engine_failure(fault) and not self.rescued:
            self.rescued, self.void = True, self.shown
            if self.engine.rescue(self, fault):
                return
        if fault is None and self.void:
            self.sink.chunk(Chunk("", tokens=0, reset=True))
        self.finish(fault)
