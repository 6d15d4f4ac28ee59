"""An engine around two: while the first is not there, the second does its work.

Owns: which of the two a job is given to, and doing a job again that was lost with the first. Must
not know: any particular engine, why one is gone, how it comes back (`gateway.engines.supervisor`).

Both are whole: guarded and cut into pieces as each needs it. The second is loaded from the start,
so that it is there at once, and has to be small for that. What is made of a growing text goes over
from one to the other by its forced prefix: neither takes back what the other has committed.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from gateway import languages
from gateway.engines.base import Aborted, Engine, Health, Pulled
from gateway.engines.supervisor import backoff
from gateway.errors import EngineFault, EngineGone
from gateway.job import Chunk, Job
from gateway.profiles import Profile

logger = logging.getLogger(__name__)


class FallbackEngine(Pulled):
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
        super().__init__()
        self.first = first
        self.second = second
        self.sleep = sleep
        self.chance = chance
        self.changed: Callable[[], None] = lambda: None
        """Called when `substitute` has changed."""
        self.taken = 0
        """Jobs that the second took over when the first was lost under them."""
        self._told: str | None = None
        self._closed = False
        self._running: set[str] = set()
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

    async def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        self.look()
        engine = self._engine
        own = self._adapted(job) if engine is self.second else job
        void = False  # what was shown is to be taken back
        self._running.add(job.id)
        try:
            if engine is self.first:
                try:
                    async with aclosing(engine.translate(job)) as chunks:
                        async for chunk in chunks:
                            void = True
                            yield chunk
                    return
                except EngineGone as gone:
                    if self._closed or self.second.health is not Health.READY:
                        raise
                    own = self._adapted(job)
                    if own is None:
                        raise
                    logger.info("job %s is done again by %s: %s", job.id, self.second.name, gone)
                    self.taken += 1
                    self._check(job)
            if own is None:
                raise EngineFault(
                    f"{self.second.name}, which does the work now, cannot translate"
                    f" {job.source} into {job.target}.",
                    hint="It can when the engine that was chosen is back.",
                )
            async with aclosing(self.second.translate(own)) as chunks:
                async for chunk in chunks:
                    yield replace(chunk, reset=True) if void else chunk
                    void = False
            self._check(job)
            if void:
                yield Chunk("", tokens=0, reset=True)
        finally:
            self._running.discard(job.id)

    def abort(self, job_id: str) -> None:
        self._running.discard(job_id)
        self.first.abort(job_id)
        self.second.abort(job_id)
        super().abort(job_id)

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
        await super().aclose()

    def _adapted(self, job: Job) -> Job | None:
        """The job in the second's spelling of its languages; None where it lacks them."""
        profile = self.second.profile
        source = languages.match(job.source, profile.sources)
        target = languages.match(job.target, profile.targets)
        if source is None or target is None or not profile.supports(source, target):
            return None
        return replace(job, source=source, target=target, prefix_ids=())

    def _check(self, job: Job) -> None:
        """Raise `Aborted` if the job was aborted while neither engine was at it."""
        if job.id not in self._running:
            raise Aborted(job.id)
