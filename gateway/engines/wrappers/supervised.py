"""An engine around an engine: notices that it no longer works, and builds a new one.

Owns: the life of the current engine, and when the next one is tried. Must not know: any particular
engine, the guards, who waits for captions. The jobs of a dead engine fail, and only their caller
knows whether they are still wanted.

The health of every engine, also of a model server, follows from what happens to its jobs:

* The engine is dead if its own health is DEAD.
* It hangs if jobs run and none of them gets a chunk, or ends by itself, for `hang` seconds. A job
  that is stopped from outside tells nothing, so the silence of all jobs together counts.
* It fails if `FAILURES` jobs in a row failed, over at least a quarter of `hang`, and no job was
  translated meanwhile. A `JobFault` is no such failure, because it concerns one text.

A new engine must translate a word before it counts as ready.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any

from gateway.engines.base.engine import (
    Aborted,
    Engine,
    EngineWrapper,
    OpenSinks,
    Sink,
    SinkWrapper,
    is_engine_failure,
    refuse,
)
from gateway.engines.base.service import Health, S, ServiceWrapper
from gateway.errors import EngineFault, EngineGone, JobFault, redacted
from gateway.io.tasks import keep_running
from gateway.job import Chunk, Job

logger = logging.getLogger(__name__)

POLL = 1.0
"""Seconds between two checks of the engine's health. A job that fails has it checked at once."""

BACKOFF, BACKOFF_MAX = 1.0, 60.0
"""Bounds in seconds of the wait before a rebuild. The wait is random between 0 and a limit that
doubles with every try in a row. The random part ("full jitter") keeps many gateways from asking for
one GPU at the same moment."""

FAILURES = 3
"""Failed jobs in a row after which the engine counts as failing. One failure may be bad luck, and a
second one may come from the same batch."""

FAILING_SHARE = 0.25
"""Share of `hang` that must pass between the first and the last of these failures: 5 of 20 seconds.
A server that is full for a moment refuses many jobs at once, and translates others soon after."""

PROBE = "Hello."
"""Text that a new engine must translate: a few tokens in any language."""

STABLE_S = 60.0
"""Seconds for which an engine must have been ready before the backoff begins anew."""

CLOSE_TIMEOUT = 10.0
"""Seconds that a dead engine is given to close; it may hang in the fault that killed it."""

HANG = 20.0
"""Seconds of silence after which an engine hangs. A useful engine begins a translation within one
second. The limit must be shorter than the 30 s after which a caption fails."""

LOAD_TIMEOUT = 1_800.0
"""Seconds that a start may take. vLLM takes minutes with a large model on a slow disk."""


class Supervision(ServiceWrapper[S]):
    """The life of the current one of a series of engines, ``engine``. A subclass passes jobs on.

    :param build: constructs an engine without blocking. The first one is constructed at once, so
        that its name and profile are known before anything is loaded
    :param insist: keep trying also if the first start fails; otherwise `start` raises its fault
    :param poll: seconds between two checks of the engine's health
    :param hang: seconds of silence after which the engine is dead, and that a new one has for a
        probe
    :param max_backoff: longest wait before another try, in seconds
    :param sleep: waits the given seconds; tests replace it, ``clock`` and ``chance`` (0 to 1)
    """

    probe: str
    """The little work that a new engine must do before it counts as ready."""

    def __init__(
        self,
        build: Callable[[], S],
        *,
        insist: bool = False,
        poll: float = POLL,
        hang: float = HANG,
        max_backoff: float = BACKOFF_MAX,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.build = build
        self.insist = insist
        self.poll = poll
        self.hang = hang
        self.max_backoff = max_backoff
        self.sleep = sleep
        self.clock = clock
        self.chance = chance
        self.restarts = 0
        """Engines that were built to replace one that had been ready."""
        self.hangs = 0
        """Engines given up because they hung."""
        self.changed: Callable[[], None] = lambda: None
        """Called when `health` has changed."""
        self.engine = build()
        self._health = Health.STARTING  # DEAD while waiting to rebuild
        self._running_jobs = 0
        self.heartbeat = Heartbeat()  # of the current engine
        self._silent_before = 0.0  # seconds of silence with jobs running, before `_busy_since`
        self._busy_since = 0.0  # time of the first running job, or of the last output
        self._failures = 0  # jobs that failed since one was translated
        self._first_failure = 0.0  # time of the first of them
        self._failure_span = 0.0  # seconds from the first of them to the last
        self._tries = 0  # rebuilds since an engine was stable
        self._ready_since = 0.0  # time at which the engine became ready
        self._check_now = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def health(self) -> Health:
        return self.engine.health if self._health is Health.READY else self._health

    @property
    def silence(self) -> float:
        """Seconds for which jobs have run since any of them got output or ended by itself."""
        # Output sets a flag only. Its time counts as the time of the next read of this property,
        # which happens at least once in every `poll`.
        if self.heartbeat.beats:
            self._note_output()
        busy = self.clock() - self._busy_since if self._running_jobs else 0.0
        return self._silent_before + busy

    @property
    def failing(self) -> bool:
        """True if `FAILURES` jobs in a row have failed, over a long enough time."""
        return self._failures >= FAILURES and self._failure_span >= self.hang * FAILING_SHARE

    def stats(self) -> Mapping[str, float]:
        return {**self.engine.stats(), "restarts": self.restarts, "hangs": self.hangs}

    async def start(self) -> None:
        """Start the first engine. Raises the `EngineFault` of its start, unless ``insist`` is set:
        then the start is tried again in the background.
        """
        await self._attempt(lambda: self.engine, insist=self.insist)
        supervising = keep_running("the supervisor of an engine", self._supervise)
        self._task = asyncio.create_task(supervising, name="supervisor")

    def require_ready(self) -> None:
        """Raise the fault of a job that cannot begin now."""
        if self._health is Health.CLOSED:
            raise EngineGone("The engine was closed; the gateway is shutting down.")
        if self._health is not Health.READY or self.engine.health is not Health.READY:
            self._check_now.set()
            hint = "It is starting or restarting by itself; try again in a few seconds."
            raise EngineFault("The engine is not ready.", hint=hint)

    def note_begin(self) -> None:
        """Count a job that is given to the current engine."""
        if not self._running_jobs:
            self._busy_since = self.clock()
        self._running_jobs += 1

    def note_end(self, engine: S, fault: EngineFault | None) -> None:
        """Count the end of a job of ``engine``, and whether it failed."""
        if engine is not self.engine:  # a job of an earlier engine tells nothing about this one
            return
        if fault is None:
            self._failures = 0
            self._note_output()
        elif isinstance(fault, JobFault):
            self._note_output()  # a refused text is a sign of life
        elif is_engine_failure(fault):
            now = self.clock()
            self._first_failure = self._first_failure if self._failures else now
            self._failure_span = now - self._first_failure
            self._failures += 1
            self._check_now.set()
        silence = self.silence
        self._running_jobs -= 1
        if not self._running_jobs:
            self._silent_before = silence

    async def aclose(self) -> None:
        if self._health is Health.CLOSED:
            return
        self._set_health(Health.CLOSED)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        await self._close(self.engine)

    def _note_output(self) -> None:
        """Begin the measurement of silence anew, because the engine has shown a sign of life."""
        self.heartbeat.beats = False
        self._silent_before = 0.0
        self._busy_since = self.clock()

    def _set_health(self, health: Health) -> None:
        self._health = health
        self.changed()

    async def _supervise(self) -> None:
        """Replace the engine whenever it is dead, hangs or fails. Never returns."""
        while True:
            while self.health is Health.READY and not (self.failing or self.silence >= self.hang):
                self._check_now.clear()
                await self._within(self.poll, self._check_now.wait())
            if self._health is Health.READY:  # if not, the first start failed
                if self.health is not Health.READY:
                    logger.error("engine %s died; building a new one", self.name)
                elif self.failing:
                    logger.error("engine %s failed %d jobs in a row", self.name, self._failures)
                else:
                    self.hangs += 1
                    logger.error("engine %s hangs with %d jobs", self.name, self._running_jobs)
                self._set_health(Health.DEAD)
                if self.clock() - self._ready_since >= STABLE_S:
                    self._tries = 0
                await self._close(self.engine)  # this ends the jobs that still wait for it
            await self.sleep(self.chance() * backoff(self._tries, self.max_backoff))
            self._tries += 1
            if await self._attempt(self.build, probed=True):
                self.restarts += 1
                logger.info("engine %s is ready again", self.name)

    async def _attempt(
        self, build: Callable[[], S], *, probed: bool = False, insist: bool = True
    ) -> bool:
        """Try to load an engine; return whether it is ready. Raise a failure unless ``insist``."""
        try:
            await self._load(build(), probed=probed)
        except Exception as exc:
            if not insist:
                raise
            known = isinstance(exc, EngineFault)
            level, why = (logging.WARNING, exc) if known else (logging.ERROR, "It is broken.")
            tried = "engine %s: %s Trying again."
            logger.log(level, tried, self.name, why, exc_info=None if known else exc)
            return False
        return True

    async def _load(self, engine: S, *, probed: bool) -> None:
        """Start an engine, have it do a little work if it is to be ``probed``, and make it the
        current one. Until then the engine before it tells name and profile. Raises `EngineFault`.
        """
        self._set_health(Health.STARTING)
        try:
            try:
                async with asyncio.timeout(LOAD_TIMEOUT):
                    await engine.start()
            except TimeoutError as exc:
                raise EngineFault(f"It did not start within {LOAD_TIMEOUT:g} s.") from exc
            if probed:
                await self._probe(engine)
        except BaseException as exc:
            if not isinstance(exc, asyncio.CancelledError):
                self._set_health(Health.DEAD)
            await self._close(engine)
            raise
        self.engine = engine
        # Some jobs of the engine before may not have ended; `note_end` ignores them.
        self._running_jobs, self._silent_before = 0, 0.0
        self._failures = 0
        self.heartbeat = Heartbeat()
        self._ready_since = self.clock()
        self._set_health(Health.READY)

    async def _probe(self, engine: S) -> None:
        """Have an engine do a little work. Raises `EngineFault` if it does not within `hang`."""
        try:
            ended = await self._within(self.hang, self._work(engine))
        except EngineFault as fault:
            raise EngineFault(f"It did not {self.probe}: {fault.summary}.") from fault
        if not ended:
            raise EngineFault(f"It did not {self.probe} within {self.hang:g} s.")

    async def _work(self, engine: S) -> None:
        """Have an engine do the work that ``probe`` names."""
        raise NotImplementedError

    async def _within(self, seconds: float, work: Coroutine[Any, Any, object]) -> bool:
        """Wait for ``work``, or cancel it after some seconds; return whether it ended in time."""
        task, timer = asyncio.create_task(work), asyncio.create_task(self.sleep(seconds))
        try:
            await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            return task.done()
        finally:
            task.cancel()
            timer.cancel()

    async def _close(self, engine: S) -> None:
        """Close an engine in any state. Raises nothing: a fault is logged."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await engine.aclose()
        except Exception as exc:
            # The engine is abandoned in any case; its remains must not prevent a new one.
            logger.error("engine %s did not close", self.name, exc_info=redacted(exc))


class Supervisor(Supervision[Engine], EngineWrapper):
    """An `Engine` around the current one of a series of engines."""

    probe = "translate a word"
    changed: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, build: Callable[[], Engine], **options: Any) -> None:
        def make() -> Engine:
            engine = build()
            engine.changed = lambda: self.changed()
            return engine

        super().__init__(make, **options)
        self._open_sinks: dict[str, SupervisedSink] = {}

    def serves(self, source: str, target: str) -> bool:
        return self._health is Health.READY and self.engine.serves(source, target)

    def submit(self, job: Job, sink: Sink) -> None:
        try:
            self.require_ready()
        except EngineFault as fault:
            refuse(sink, fault)
            return
        self.note_begin()
        self.engine.submit(job, SupervisedSink(self, self._open_sinks, job, sink))

    def abort(self, job_id: str) -> None:
        wrapper = self._open_sinks.get(job_id)
        if wrapper is not None:
            # The engine may be an earlier one that is being closed, and may never report the end.
            wrapper.engine.abort(job_id)
            wrapper.end(Aborted(job_id))

    async def _work(self, engine: Engine) -> None:
        if (job := probe_job(engine)) is not None:
            async with aclosing(engine.translate(job)) as chunks:
                async for _ in chunks:
                    pass


class Heartbeat:
    """A flag for output since the last check: set with every token, read once a second."""

    __slots__ = ("beats",)

    def __init__(self) -> None:
        self.beats = False


class SupervisedSink(SinkWrapper):
    """One job, whose output and end are reported to the supervisor."""

    __slots__ = ("engine", "heartbeat", "supervisor")

    def __init__(self, supervisor: Supervisor, open_sinks: OpenSinks, job: Job, sink: Sink) -> None:
        super().__init__(open_sinks, job, sink)
        self.supervisor = supervisor
        self.engine = supervisor.engine
        self.heartbeat = supervisor.heartbeat

    def chunk(self, chunk: Chunk) -> None:
        if self.live:
            self.heartbeat.beats = True
            self.sink.chunk(chunk)

    def end(self, fault: EngineFault | None) -> None:
        if self.live:
            self.supervisor.note_end(self.engine, fault)
            self.finish(fault)


def backoff(tries: int, max_backoff: float = BACKOFF_MAX) -> float:
    """Return the longest wait in seconds before another try, after ``tries`` tries."""
    return min(max_backoff, BACKOFF * 2.0 ** min(tries, 30))  # large powers would overflow


def probe_job(engine: Engine) -> Job | None:
    """Return the job that a new engine must translate; None if no pair is ready yet."""
    profile = engine.profile
    # The source is English if the model has it, because `PROBE` is English.
    for source in sorted(profile.sources, key=lambda source: source != "en"):
        for target in profile.targets:
            if source != target and engine.serves(source, target):
                return Job(id="probe", text=PROBE, source=source, target=target)
    return None
