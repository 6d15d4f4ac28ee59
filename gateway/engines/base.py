"""What the gateway asks of a model, whatever runs it.

Owns: the `Engine` protocol, and what engines around an engine have in common. Must not know: any
particular engine, any client.

Contract (``tests/engines/test_contract.py`` runs it against every engine):

1. ``translate`` is an async generator and is always consumed inside `contextlib.aclosing`: a
   ``break`` without it leaves the generator, and the work behind it, alive.
2. Chunks joined in order are the whole translation. Ending normally means the model ended it (or
   it reached the length limit); any other end raises `EngineFault`. A job that was stopped by
   `abort` ends by raising `Aborted`, never by a short normal end.
3. Closing the generator, cancelling its task, or ``abort(job.id)`` stops the work inside the
   engine; ``unfinished`` falls accordingly. ``abort`` is synchronous, idempotent, safe for
   unknown ids, and takes effect in the turn of the event loop in which it is called.
4. Nothing here blocks the event loop.
5. With `Job.prefix` the chunks are what follows it, with the space between where the language has
   one; no chunk at all says that the prefix is the whole. A ``reset`` voids chunks, and never the
   prefix. `Job.prefix_ids` may help and cannot harm: the text decides.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Protocol, runtime_checkable

from gateway.errors import EngineFault, ErrorCode
from gateway.job import Chunk, Job
from gateway.profiles import Profile


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

    def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        """Stream the translation of ``job``. Raises `EngineFault`."""

    def abort(self, job_id: str) -> None:
        """Stop the job now. No-op for an id that is not running."""

    async def aclose(self) -> None:
        """Stop everything and free the model. Idempotent."""


@runtime_checkable
class Substituted(Protocol):
    """An engine whose work another one does where it cannot."""

    changed: Callable[[], None]
    """Called at once when `substitute` has changed, and `Engine.capacity` with it."""

    @property
    def substitute(self) -> str | None:
        """Name of the engine that does the work now, where it is not the one that was chosen."""


class Around:
    """An engine around ``engine``, and the same to all who ask; a subclass translates otherwise.

    A subclass that gives the inner engine a job more than once keeps its id in ``_running``
    meanwhile: between two times the inner engine does not have it, and cannot be told to stop.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._running: set[str] = set()

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

    def abort(self, job_id: str) -> None:
        self._running.discard(job_id)
        self.engine.abort(job_id)
