"""What the gateway asks of a model, whatever runs it.

Owns: the `Engine` protocol, and what engines have in common: `PushEngine` and `PullEngine`, each of
which makes one way of asking out of the other, and engines around an engine. Must not know: any
particular engine, any client.

Contract (``tests/engines/test_contract.py`` runs it against every engine):

1. ``submit`` begins a job in this turn of the event loop. It raises nothing for what goes wrong
   with the job, and calls the `Sink` only after it has returned, in the loop's thread.
2. Chunks joined in order are the whole translation. ``end(None)`` means the model ended it (or it
   reached the length limit); any other end has its `EngineFault`. It comes exactly once, and
   nothing after it. By then the engine has forgotten the job: its id may be used again, also from
   within ``end``.
3. ``abort(job.id)`` stops the work inside the engine; ``unfinished`` falls accordingly. No chunk
   follows, and the job ends with `Aborted`, never as if it were whole: before ``abort`` returns, or
   later. ``abort`` is synchronous, idempotent, safe for unknown ids, also from within a sink, and
   the id may be used again at once.
4. Nothing here blocks the event loop.
5. With `Job.prefix` the chunks are what follows it, with the space between where the language has
   one; no chunk at all says that the prefix is the whole. A ``reset`` voids chunks, and never the
   prefix. `Job.prefix_ids` may help and cannot harm: the text decides.
6. ``translate`` is the same as an async generator, for whoever would rather pull. It is always
   consumed inside `contextlib.aclosing`: a ``break`` without it leaves the work behind it alive.
   Closing it, or cancelling its task, aborts the job.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol, TypeGuard, runtime_checkable

from gateway.engines.profiles import Profile
from gateway.errors import EngineFault, EngineGone, ErrorCode, JobFault, redacted
from gateway.job import Chunk, Job, merged

logger = logging.getLogger(__name__)

BEHIND = 64
"""Chunks that wait for whoever pulls; those that come then are merged into the last of them."""


class Health(enum.Enum):
    """Life of an engine; ``readyz`` answers 200 only in READY."""

    STARTING = "starting"
    READY = "ready"
    DEAD = "dead"
    CLOSED = "closed"


class Aborted(EngineFault):
    """The job ended because `Engine.abort` was called for it."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id} was aborted.", ErrorCode.INTERNAL)


def failure(fault: EngineFault | None) -> TypeGuard[EngineFault]:
    """Say whether the end of a job is a failure of its engine, and not of the job alone."""
    return fault is not None and not isinstance(fault, (Aborted, JobFault))


class Sink(Protocol):
    """Where the output of one job goes, as it comes. Neither method raises, and neither waits."""

    def chunk(self, chunk: Chunk, /) -> None:
        """The next piece of the translation."""

    def end(self, fault: EngineFault | None, /) -> None:
        """The job is over: translated, or ended by ``fault``. Called once, and nothing after it."""


class Engine(Protocol):
    """A translator. One instance serves the whole process."""

    @property
    def name(self) -> str:
        """Short name of engine and model for people, e.g. ``ctranslate2:embedded``."""

    @property
    def profile(self) -> Profile:
        """How the model is prompted and what languages it has."""

    @property
    def capacity(self) -> int:
        """How many jobs it should be given at once. More would only slow each other down."""

    @property
    def health(self) -> Health:
        """Cheap and local: no round trip."""

    @property
    def unfinished(self) -> int:
        """Jobs the engine itself is still working on, as the engine counts them."""

    def stats(self) -> Mapping[str, float]:
        """Gauges only this engine has, such as KV-cache use, by name. Cheap and local."""

    async def start(self) -> None:
        """Load the model off the event loop. Raises `EngineFault` with a sentence if it cannot."""

    def submit(self, job: Job, sink: Sink) -> None:
        """Begin to translate ``job`` into ``sink``."""

    def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        """Stream the translation of ``job``. Raises `EngineFault`."""

    def abort(self, job_id: str) -> None:
        """Stop the job now. No-op for an id that is not running."""

    async def aclose(self) -> None:
        """Stop everything and free the model. Idempotent."""


def refuse(sink: Sink, fault: EngineFault) -> None:
    """End a job that is not begun at all, once `Engine.submit` has returned."""
    asyncio.get_running_loop().call_soon(sink.end, fault)


class SinkReader:
    """A `Sink` from which one task pulls."""

    def __init__(self) -> None:
        self.ended = False
        self._fault: EngineFault | None = None
        self._chunks: deque[Chunk] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def chunk(self, chunk: Chunk) -> None:
        if len(self._chunks) >= BEHIND:
            chunk = merged(self._chunks.pop(), chunk)
        self._chunks.append(chunk)
        self._wake()

    def end(self, fault: EngineFault | None) -> None:
        self.ended = True
        self._fault = fault
        if isinstance(fault, Aborted):  # nobody wants to read on
            self._chunks.clear()
        self._wake()

    async def next(self) -> Chunk | None:
        """Wait for the next chunk; None at the end. Raises the fault with which the job ended."""
        while not self._chunks:
            if self.ended:
                if self._fault is not None:
                    raise self._fault
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._chunks.popleft()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class PushEngine:
    """`Engine.translate` for an engine that has `submit` and `abort`."""

    def submit(self, job: Job, sink: Sink) -> None:
        raise NotImplementedError

    def abort(self, job_id: str) -> None:
        raise NotImplementedError

    async def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        reader = SinkReader()
        self.submit(job, reader)
        try:
            while (chunk := await reader.next()) is not None:
                yield chunk
        finally:
            if not reader.ended:
                self.abort(job.id)


class PullJob:
    """One job of a `PullEngine` engine, and the task that pulls it."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.over = False
        self.task: asyncio.Task[None] | None = None


class PullEngine:
    """`Engine.submit` for an engine whose nature it is to be pulled: it has `translate`.

    A subclass that has an `abort` or an `aclose` of its own calls the one here at its end.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._pulls: dict[str, PullJob] = {}
        self._pulling: set[asyncio.Task[None]] = set()  # also of those that are being stopped

    def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        raise NotImplementedError

    def submit(self, job: Job, sink: Sink) -> None:
        pull = self._pulls[job.id] = PullJob(sink)
        pull.task = asyncio.create_task(self._pull(job, pull), name=f"pull {job.id}")
        self._pulling.add(pull.task)
        pull.task.add_done_callback(self._pulling.discard)
        pull.task.add_done_callback(lambda _: self._drop(job.id, pull))

    def abort(self, job_id: str) -> None:
        pull = self._pulls.get(job_id)
        if pull is not None:
            if pull.task is not None:
                pull.task.cancel()
            self._finish(job_id, pull, Aborted(job_id))

    async def aclose(self) -> None:
        for task in self._pulling:
            task.cancel()
        if self._pulling:
            await asyncio.wait(self._pulling)

    async def _pull(self, job: Job, pull: PullJob) -> None:
        fault: EngineFault | None = None
        try:
            async with aclosing(self.translate(job)) as chunks:
                async for chunk in chunks:
                    if pull.over:
                        break
                    pull.sink.chunk(chunk)
        except EngineFault as exc:
            fault = exc
        except Exception as exc:
            bare = redacted(exc)
            logger.error("job %s failed by a fault of the engine's own code", job.id, exc_info=bare)
            fault = EngineFault("The engine failed by a fault of its own.", ErrorCode.INTERNAL)
        self._finish(job.id, pull, fault)

    def _drop(self, job_id: str, pull: PullJob) -> None:
        """The task is over; where it was cancelled by nobody who aborted it, so is the job."""
        if not pull.over:
            self._finish(job_id, pull, EngineGone("The engine was closed while the job ran."))

    def _finish(self, job_id: str, pull: PullJob, fault: EngineFault | None) -> None:
        if pull.over:
            return
        pull.over = True
        if self._pulls.get(job_id) is pull:
            del self._pulls[job_id]
        pull.sink.end(fault)


@runtime_checkable
class SubstitutableEngine(Protocol):
    """An engine whose work another one does where it cannot."""

    changed: Callable[[], None]
    """Called at once when `substitute` has changed, and `Engine.capacity` with it."""

    @property
    def substitute(self) -> str | None:
        """Name of the engine that does the work now, where it is not the one that was chosen."""


class SinkWrapper:
    """A `Sink` around a sink: one job on its way through an engine around an engine.

    ``relays`` are those of that engine by job, and this is one of them until its `over`; what is
    said to it afterwards is not heard. A subclass says what becomes of what is said before.
    """

    __slots__ = ("job", "live", "relays", "sink")

    def __init__(self, relays: dict[str, SinkWrapper], job: Job, sink: Sink) -> None:
        self.relays = relays
        self.job = job
        self.sink = sink
        self.live = True
        relays[job.id] = self

    def chunk(self, chunk: Chunk) -> None:
        if self.live:
            self.sink.chunk(chunk)

    def end(self, fault: EngineFault | None) -> None:
        self.over(fault)

    def over(self, fault: EngineFault | None) -> None:
        """End the job for whoever is outside, if nothing has before."""
        if self.live:
            self.leave()
            self.sink.end(fault)

    def leave(self) -> None:
        """Hear nothing more."""
        self.live = False
        if self.relays.get(self.job.id) is self:
            del self.relays[self.job.id]


class EngineWrapper(PushEngine):
    """An engine around ``engine``, and the same to all who ask; a subclass translates otherwise.

    A subclass that has something of its own to say of a job, or gives it to the inner engine more
    than once, has a `SinkWrapper` for it: `abort` ends it, whether the inner engine has the job or
    not."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._relays: dict[str, SinkWrapper] = {}

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def profile(self) -> Profile:
        return self.engine.profile

    @property
    def capacity(self) -> int:
        return self.engine.capacity

    @property
    def health(self) -> Health:
        return self.engine.health

    @property
    def unfinished(self) -> int:
        return self.engine.unfinished

    def stats(self) -> Mapping[str, float]:
        return self.engine.stats()

    async def start(self) -> None:
        await self.engine.start()

    async def aclose(self) -> None:
        await self.engine.aclose()

    def submit(self, job: Job, sink: Sink) -> None:
        self.engine.submit(job, sink)

    def abort(self, job_id: str) -> None:
        relay = self._relays.get(job_id)
        self.engine.abort(job_id)
        if relay is not None:
            relay.over(Aborted(job_id))
