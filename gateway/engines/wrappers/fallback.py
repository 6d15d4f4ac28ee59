"""An engine around two engines: the secondary works while the primary cannot.

Owns: the choice of the engine for each job, and repeating a job at which the primary failed. Must
not know: any particular engine, why an engine is gone, how it comes back
(`gateway.engines.wrappers.supervised`).

Both engines come with their own guards and their own splitting of long texts. The secondary is
loaded from the start, so that it can take over at once; it should be a small model. The translation
of a growing text passes from one engine to the other by its forced prefix: neither engine takes
back what the other has committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from gateway.core.base.model import Model
from gateway.engines.base.engine import (
    Aborted,
    Engine,
    PushEngine,
    Sink,
    SinkWrapper,
    is_engine_failure,
    log_repeat,
    refuse,
)
from gateway.engines.base.service import Health, S, ServiceWrapper
from gateway.errors import EngineFault
from gateway.job import Chunk, Job
from gateway.text import languages

logger = logging.getLogger(__name__)


class Fallback(ServiceWrapper[S]):
    """Two services of one kind, with the name of ``primary``. A subclass passes the jobs on.

    `start` returns when one of the two is ready. Both are supervised, and go on trying to start by
    themselves. The builder has `update_substitute` called when the health of either changes.
    """

    def __init__(self, primary: S, secondary: S) -> None:
        self.primary = primary
        self.secondary = secondary
        self.changed: Callable[[], None] = lambda: None
        """Called when `substitute` has changed."""
        self.takeovers = 0
        """Jobs that the secondary repeated because the primary had failed at them."""
        self._reported_substitute: str | None = None
        self._closed = False
        self._starting: list[asyncio.Task[None]] = []

    @property
    def name(self) -> str:
        return self.primary.name

    @property
    def engine(self) -> S:  # type: ignore[override]  # nobody sets it
        """Service for the next job. If neither is ready, the primary gets it and reports why."""
        if self.primary.health is not Health.READY and self.secondary.health is Health.READY:
            return self.secondary
        return self.primary

    @property
    def health(self) -> Health:
        return Health.CLOSED if self._closed else self.engine.health

    @property
    def unfinished(self) -> int:
        return self.primary.unfinished + self.secondary.unfinished

    @property
    def substitute(self) -> str | None:
        """Name of the secondary while it works; None while the primary does."""
        return self.secondary.name if self.engine is self.secondary else None

    def stats(self) -> Mapping[str, float]:
        return {**self.primary.stats(), "taken_over": self.takeovers}

    def update_substitute(self) -> None:
        """Compare `substitute` with its last reported value; log and report a change."""
        substitute = self.substitute
        if substitute != self._reported_substitute and not self._closed:
            self._reported_substitute = substitute
            if substitute is None:
                logger.info("%s works again", self.name)
            else:
                logger.warning("%s works instead of %s", substitute, self.name)
            self.changed()

    async def start(self) -> None:
        for service in (self.primary, self.secondary):
            task = asyncio.create_task(service.start(), name=f"start {service.name}")
            task.add_done_callback(lambda _: self.update_substitute())
            self._starting.append(task)
        waiting = set(self._starting)
        while waiting and self.health is not Health.READY:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)

    async def aclose(self) -> None:
        self._closed = True
        for task in self._starting:
            task.cancel()
        if self._starting:
            await asyncio.wait(self._starting)
        try:
            await self.primary.aclose()
        finally:
            await self.secondary.aclose()


class FallbackEngine(Fallback[Engine], PushEngine):
    """An `Engine` around ``primary`` and ``secondary``, with the primary's name and profile."""

    def __init__(self, primary: Engine, secondary: Engine) -> None:
        super().__init__(primary, secondary)
        self._open_sinks: dict[str, FallbackSink] = {}

    @property
    def profile(self) -> Model:
        return self.primary.profile

    def serves(self, source: str, target: str) -> bool:
        """Tell whether the engine that translates now has this pair."""
        return self.health is Health.READY and self.engine.profile.supports(source, target)

    def submit(self, job: Job, sink: Sink) -> None:
        self.update_substitute()
        if self.engine is self.primary:
            self.primary.submit(job, FallbackSink(self, self._open_sinks, job, sink))
        elif (job_of_secondary := adapted(job, self.secondary.profile)) is not None:
            self.secondary.submit(job_of_secondary, sink)
        else:
            fault = EngineFault(
                f"{self.secondary.name}, which translates now, cannot translate"
                f" {job.source} into {job.target}.",
                hint="Try again when the chosen engine is back.",
            )
            refuse(sink, fault)

    def take_over(self, sink: FallbackSink, fault: EngineFault) -> bool:
        """Repeat a job at which the primary failed with ``fault`` on the secondary.

        Return False if the secondary cannot translate it.
        """
        if self._closed or self.secondary.health is not Health.READY:
            return False
        # The secondary may lack a language that the primary has.
        job = adapted(sink.job, self.secondary.profile)
        if job is None:
            return False
        log_repeat(job, self.secondary.name, fault)
        self.takeovers += 1
        self.secondary.submit(job, sink)
        return True

    def abort(self, job_id: str) -> None:
        # The job may be with either engine, and abort of an unknown id does nothing.
        sink = self._open_sinks.get(job_id)
        self.primary.abort(job_id)
        self.secondary.abort(job_id)
        if sink is not None:
            sink.finish(Aborted(job_id))


class RepeatingEngine(Protocol):
    """An engine that repeats a job at which the engine inside failed."""

    def take_over(self, sink: FallbackSink, fault: EngineFault, /) -> bool:
        """Have another engine do the job; return False if there is none."""


class FallbackSink(SinkWrapper):
    """A job that one engine has, or another one after the first failed at it."""

    __slots__ = ("engine", "has_output", "reset_pending", "taken_over")

    def __init__(
        self, engine: RepeatingEngine, open_sinks: dict[str, Any], job: Job, sink: Sink
    ) -> None:
        super().__init__(open_sinks, job, sink)
        self.engine = engine
        self.has_output = self.taken_over = False
        self.reset_pending = False  # the next chunk has to void the output so far

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
        if fault is None and self.reset_pending:
            # The secondary translated into nothing, so no chunk of its own has voided the output.
            self.sink.chunk(Chunk("", tokens=0, reset=True))
        self.finish(fault)


def adapted(job: Job, profile: Model) -> Job | None:
    """Return the job with the tags of another model for its languages; None if it lacks one."""
    source = languages.match(job.source, profile.sources)
    target = languages.match(job.target, profile.targets)
    if source is None or target is None or not profile.supports(source, target):
        return None
    # Token ids mean nothing to another vocabulary, so they are left out.
    return replace(job, source=source, target=target, prefix_ids=())
