"""The contract between the gateway and its translation engines, and base classes for engines.

Owns: the `Engine` and `Sink` protocols, and base classes. Must not know: any engine, any client.

To write a new engine, choose a base class and read the contract below:

* `PullEngine`, if the output is best written as an async generator. Implement ``generate``.
* `ModelEngine`, if the model calls back. Implement ``submit``, ``abort`` and ``unfinished``.
* `EngineWrapper`, if the engine changes what another engine does.

Contract (`caption_gateway.testing.contract` tests it):

1. ``submit`` begins a job in the current turn of the event loop. It raises nothing for a problem
   with the job. It calls the `Sink` only after it has returned, in the thread of the event loop.
2. The chunks of a job, joined in order, are the whole translation. ``end(None)`` means that the
   model ended it, or that it reached the length limit; every other end has an `EngineFault`.
   ``end`` is called exactly once, and nothing is called after it. By then the engine has forgotten
   the job: its id may be used again, also from within ``end``.
3. ``abort(job.id)`` stops the work inside the engine, and ``unfinished`` falls accordingly. No
   chunk follows. The job ends with `Aborted`, never as if it were complete: either before ``abort``
   returns or later. ``abort`` is synchronous and idempotent; it accepts unknown ids, and it may be
   called from within a sink. The id may be used again at once.
4. No method blocks the event loop.
5. If `Job.prefix` is set, the chunks are the text that follows it, with the space between the two
   if the language uses spaces. If there are no chunks, the prefix is the whole translation. A chunk
   with ``reset`` voids earlier chunks, never the prefix. `Job.prefix_ids` is a hint: it never
   changes the output, because the text of the prefix decides.
6. If `Job.draft` is set, the engine may check that text in one pass, and decode from the first
   token at which the model would not follow it. With a `Job.draft_bias` of 0 the output is the same
   as without a draft, except that sums are rounded in another order. An engine that cannot check a
   draft ignores it, and so does every engine in a second attempt or a search (`Job.search`). Chunks
   count what was checked.
7. Once the output has as many characters as `Job.needed`, the engine may end it: ``end(None)``.
8. ``translate`` gives the same output as an async generator. Callers wrap it in
   `contextlib.aclosing`, because a ``break`` without it leaves the work running. To close the
   generator, or to cancel its task, aborts the job.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol, TypeGuard

from gateway.core.base.model import Model
from gateway.core.scheduling.scheduler import Lanes
from gateway.engines.base.service import Backend, Health, ModelService, ServiceWrapper
from gateway.engines.profiles import Profile
from gateway.errors import EngineFault, EngineGone, ErrorCode, JobFault, Overloaded, redacted
from gateway.job import Chunk, Job, RecognitionJob, merged

logger = logging.getLogger(__name__)

READER_LIMIT = 64
"""Chunks that a `SinkReader` queues. Further chunks are merged into the last one."""

OWN_FAULT = "The engine failed by a fault of its own."


class Aborted(EngineFault):
    """The end of a job for which `Engine.abort` was called."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id} was aborted.", ErrorCode.INTERNAL)


def is_engine_failure(fault: EngineFault | None) -> TypeGuard[EngineFault]:
    """Tell whether the end of a job is a failure of its engine, not only of this job."""
    return fault is not None and not isinstance(fault, (Aborted, JobFault))


class Sink(Protocol):
    """A receiver of the output of one job. Its methods do not raise and do not block."""

    def chunk(self, chunk: Chunk, /) -> None:
        """Receive the next piece of the translation."""

    def end(self, fault: EngineFault | None, /) -> None:
        """Receive the end of the job: None if it was translated, else the fault that ended it."""


class Engine(ModelService, Protocol):
    """A translator. The members with a default are for engines that are made of several."""

    changed: Callable[[], None] = staticmethod(lambda: None)
    """Called at once when `substitute`, `capacity` or the answers of `serves` have changed."""

    @property
    def profile(self) -> Model:
        """Languages and, of a single model, the prompt format: a `Profile`."""

    @property
    def repeats_source(self) -> bool:
        """True if its outputs are copies of their sources, which guards would reject."""
        return False

    @property
    def substitute(self) -> str | None:
        """Name of the engine that translates now; None if it is the chosen engine."""
        return None

    @property
    def parts(self) -> Mapping[str, Engine]:
        """The engines inside, by the name that metrics and settings give them; else itself."""
        return {self.name: self}

    @property
    def lanes(self) -> Lanes | None:
        """Tells the engines inside for a pair; None if every job can go to each of them."""
        return None

    def serves(self, source: str, target: str) -> bool:
        """Tell whether a job of this pair would be translated now."""
        return self.health is Health.READY and self.profile.supports(source, target)

    def prepare(self, source: str, target: str) -> None:
        """Begin to get ready for a pair of its languages that it does not serve yet."""
        return

    def submit(self, job: Job, sink: Sink) -> None:
        """Begin to translate ``job``, and send the output to ``sink``."""

    def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        """Stream the translation of ``job``. Raises `EngineFault` if it fails."""

    def abort(self, job_id: str) -> None:
        """Stop a job now. Does nothing if no job with this id runs."""


def refuse(sink: Sink, fault: EngineFault) -> None:
    """End a job that is not begun, after the current `Engine.submit` has returned."""
    asyncio.get_running_loop().call_soon(sink.end, fault)


def log_ids(job: Job | RecognitionJob) -> dict[str, str]:
    """Return the ids of a job, for ``extra`` of a log line."""
    return {"job": job.id, "room": job.room}


def log_repeat(job: Job | RecognitionJob, by: str, fault: EngineFault) -> None:
    """Log that a job at which an engine failed with ``fault`` is repeated by the one named."""
    why, ids = fault.summary, log_ids(job)
    logger.info("job %s is repeated by %s: %s", job.id, by, why, extra=ids)


class SinkReader:
    """A `Sink` from which one task reads chunks."""

    def __init__(self) -> None:
        self.ended = False
        self._fault: EngineFault | None = None
        self._chunks: deque[Chunk] = deque()
        self._changed = asyncio.Event()

    def chunk(self, chunk: Chunk) -> None:
        # A task that reads slowly gets longer chunks, so that the queue stays bounded.
        if len(self._chunks) >= READER_LIMIT:
            chunk = merged(self._chunks.pop(), chunk)
        self._chunks.append(chunk)
        self._changed.set()

    def end(self, fault: EngineFault | None) -> None:
        self.ended = True
        self._fault = fault
        if isinstance(fault, Aborted):  # the rest of an aborted job is not wanted
            self._chunks.clear()
        self._changed.set()

    async def next(self) -> Chunk | None:
        """Wait for the next chunk; return None at the end. Raises the fault of the job, once."""
        while not self._chunks and not self.ended:
            self._changed.clear()
            await self._changed.wait()
        if self._chunks:
            return self._chunks.popleft()
        fault, self._fault = self._fault, None
        if fault is not None:
            try:
                raise fault
            finally:
                del fault  # it refers to this frame
        return None


class PushEngine(Engine):
    """A base of engines that implement `submit` and `abort`; it adds `translate`."""

    async def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        reader = SinkReader()
        self.submit(job, reader)
        try:
            while (chunk := await reader.next()) is not None:
                yield chunk
        finally:
            # The caller closed the generator early, or its task was cancelled.
            if not reader.ended:
                self.abort(job.id)


class ModelEngine(Backend, PushEngine):
    """A base of engines that have a model, in this process or behind a connection."""

    def __init__(self, name: str, profile: Profile, capacity: int) -> None:
        super().__init__(name, capacity)
        self._profile = profile

    @property
    def profile(self) -> Profile:
        return self._profile

    async def start(self) -> None:
        self._set_health(Health.READY)

    async def aclose(self) -> None:
        self._set_health(Health.CLOSED)

    def _admit(self, sink: Sink, most: float = math.inf) -> bool:
        """Tell whether a job may begin, with ``most`` unfinished at most; if not, refuse it."""
        try:
            self._require_health(Health.READY)
            if self.unfinished >= most:
                raise Overloaded(f"{self.name} has {self.unfinished} jobs already.")
        except EngineFault as fault:
            refuse(sink, fault)
            return False
        return True


OpenSinks = dict[str, Any]
"""The live wrappers of an engine by job id."""


class SinkWrapper:
    """A `Sink` around the sink of a job that passes through an `EngineWrapper`.

    A subclass overrides `chunk` and `end` to change the output. After `finish` or `detach`, calls
    of the inner engine have no effect.

    :param open_sinks: the live wrappers of the outer engine by job id
    :param job: the job as the inner engine gets it
    :param sink: the receiver of the output
    """

    __slots__ = ("job", "live", "open_sinks", "sink")

    def __init__(self, open_sinks: OpenSinks, job: Job, sink: Sink) -> None:
        self.open_sinks = open_sinks
        self.job = job
        self.sink = sink
        self.live = True
        open_sinks[job.id] = self

    def chunk(self, chunk: Chunk) -> None:
        if self.live:
            self.sink.chunk(chunk)

    def end(self, fault: EngineFault | None) -> None:
        self.finish(fault)

    def finish(self, fault: EngineFault | None) -> None:
        """End the job for its receiver, unless it has ended already."""
        if self.live:
            self.detach()
            self.sink.end(fault)

    def detach(self) -> None:
        """Ignore all further calls."""
        self.live = False
        # The entry may belong to a newer wrapper of the same id, such as a second attempt.
        if self.open_sinks.get(self.job.id) is self:
            del self.open_sinks[self.job.id]


class PullSink(SinkWrapper):
    """One job of a `PullEngine`, and the task that reads its generator."""

    __slots__ = ("task",)

    task: asyncio.Task[None]


class PullEngine(ModelEngine):
    """A base of engines that implement `generate`, and `start` if they have something to load.

    A task is cancelled at most once, because a second cancel would interrupt the closing of its
    generator. A subclass that overrides `start` or `aclose` calls the method of this class in it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._pull_sinks: dict[str, PullSink] = {}
        self._pull_tasks: set[asyncio.Task[None]] = set()  # includes tasks that are being cancelled

    def generate(self, job: Job) -> AsyncGenerator[Chunk]:
        """Stream the translation of ``job``. Raises `EngineFault` if it fails."""
        raise NotImplementedError

    @property
    def unfinished(self) -> int:
        """Number of open generators. One stays open after `abort` until it is closed."""
        return len(self._pull_tasks)

    def submit(self, job: Job, sink: Sink) -> None:
        if self._admit(sink):
            pull = PullSink(self._pull_sinks, job, sink)
            pull.task = asyncio.create_task(self._pull(pull), name=f"pull {job.id}")
            self._pull_tasks.add(pull.task)
            pull.task.add_done_callback(self._pull_tasks.discard)

    def abort(self, job_id: str) -> None:
        self._stop(job_id, Aborted(job_id))

    async def aclose(self) -> None:
        await super().aclose()
        for job_id in list(self._pull_sinks):
            self._stop(job_id, EngineGone("The engine was closed while the job ran."))
        if self._pull_tasks:
            await asyncio.wait(set(self._pull_tasks))

    def _stop(self, job_id: str, fault: EngineFault) -> None:
        """End a job with ``fault``, and have its task close the generator."""
        pull = self._pull_sinks.get(job_id)
        if pull is not None:
            # In a call from within the sink the task goes on, and ends by itself.
            if pull.task is not asyncio.current_task():
                pull.task.cancel()
            pull.finish(fault)

    async def _pull(self, pull: PullSink) -> None:
        """Read the generator of a job to its end, and pass every chunk to the sink."""
        fault: EngineFault | None = None
        try:
            async with aclosing(self.generate(pull.job)) as chunks:
                async for chunk in chunks:
                    pull.sink.chunk(chunk)
                    if not pull.live:
                        break
        except EngineFault as exc:
            fault = exc
        except asyncio.CancelledError:
            # Without `_stop` only the end of the event loop cancels the task.
            fault = EngineGone("The engine was closed while the job ran.")
            raise
        except Exception as exc:
            # The message may quote the text, which is private.
            ids, failed = log_ids(pull.job), "job %s failed in the engine's own code"
            logger.error(failed, ids["job"], exc_info=redacted(exc), extra=ids)
            fault = EngineFault(OWN_FAULT, ErrorCode.INTERNAL)
        finally:
            pull.finish(fault)
            del fault  # it refers to this frame


class EngineWrapper(ServiceWrapper[Engine], PushEngine):
    """An engine around another engine, with the same properties; a subclass overrides `submit`.

    A subclass that changes output, or submits a job to the inner engine more than once, gives the
    inner engine a `SinkWrapper`. `abort` ends such a job even if the inner engine does not have it
    at that moment.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._open_sinks: OpenSinks = {}

    @property
    def profile(self) -> Model:
        return self.engine.profile

    @property
    def repeats_source(self) -> bool:
        return self.engine.repeats_source

    @property
    def changed(self) -> Callable[[], None]:
        return self.engine.changed

    @changed.setter
    def changed(self, call: Callable[[], None]) -> None:
        self.engine.changed = call

    def serves(self, source: str, target: str) -> bool:
        return self.engine.serves(source, target)

    def prepare(self, source: str, target: str) -> None:
        self.engine.prepare(source, target)

    def submit(self, job: Job, sink: Sink) -> None:
        self.engine.submit(job, sink)

    def abort(self, job_id: str) -> None:
        wrapper = self._open_sinks.get(job_id)
        self.engine.abort(job_id)
        if wrapper is not None:
            wrapper.finish(Aborted(job_id))
