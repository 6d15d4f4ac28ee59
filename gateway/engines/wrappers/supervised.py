"""An engine around an engine: notices that it is of no use any more, and builds a new one.

Owns: the life of the current engine, and when the next one is tried. Must not know: any particular
engine, the guards, who waits for captions. Jobs of a dead engine fail visibly and are not repeated
here: whoever asked for them knows whether they are still wanted.

The health of every engine, a model server's too, follows what jobs experience:

* It is dead where the engine itself says so.
* It hangs where jobs run and none of them says anything for `hang` seconds: no chunk, no end of its
  own. Jobs that are stopped from outside say nothing of the engine, so the silence of all of them
  counts.
* It fails where `FAILURES` jobs in a row failed, over a quarter of `hang` at least, and none was
  translated meanwhile. A `JobFault` is no is_engine_failure: it is about one text.

What comes after it must translate a word before it counts as ready.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

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
from gateway.errors import EngineFault, EngineGone, JobFault, redacted
from gateway.job import Chunk, Job, Priority

logger = logging.getLogger(__name__)

POLL = 1.0
"""Seconds between looks at the engine's health. Jobs that fail make it look at once."""

BACKOFF, BACKOFF_MOST = 1.0, 60.0
"""Seconds before a rebuild: random between 0 and 1, doubling with every try in a row up to 60. The
random part ("full jitter") keeps many gateways from asking for one GPU at once."""

FAILURES = 3
"""Jobs that fail in a row before the engine counts as failing. One may be bad luck, and a second
its neighbour in the same batch."""

FAILING_PART = 0.25
"""Part of `hang` over which they fail at least: 5 of 20 seconds. A server that is full for a moment
refuses many jobs at once, and translates others in less."""

PROBE = "Hello."
"""Text of the job with which an engine shows that it works: a few tokens in any language."""

STABLE = 60.0
"""Seconds an engine must have lived for the tries to be counted anew."""

CLOSING = 10.0
"""Seconds a dead engine is given to close; it may hang where it died."""

HANG = 20.0
"""Seconds of silence. A translation begins within one, on any engine that is of use; and a caption
is given up after 30, which has to be longer."""

LOADING = 1_800.0
"""Seconds a start may take: vLLM's, with a large model from a slow disk, can take minutes."""


class Supervisor(PushEngine):
    """Wraps the engines that ``build`` makes, one after the other, as an `Engine` itself.

    ``build`` only constructs, it must not block: loading is `Engine.start`. The first engine is
    constructed here, so that name and profile are known before anything is loaded.

    :param insist: also keep trying when the very first start fails; otherwise `start` raises
    :param poll: seconds between looks at the engine's health
    :param hang: seconds without a word from any job after which the engine counts as dead, and
        those that a new engine has for a word
    :param most: longest wait for another try, seconds
    :param loading: seconds after which a start is given up
    :param sleep, clock, chance: the passing of time and chance (0 to 1); tests bring their own
    """

    def __init__(
        self,
        build: Callable[[], Engine],
        *,
        insist: bool = False,
        poll: float = POLL,
        hang: float = HANG,
        most: float = BACKOFF_MOST,
        loading: float = LOADING,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.build = build
        self.insist = insist
        self.poll = poll
        self.hang = hang
        self.most = most
        self.loading = loading
        self.sleep = sleep
        self.clock = clock
        self.chance = chance
        self.restarts = 0
        """Engines built after the first one was ready."""
        self.hangs = 0
        """Engines given up because they hung."""
        self.changed: Callable[[], None] = _unheard
        """Called when `health` has changed."""
        self._engine = build()
        self._health = Health.STARTING  # DEAD while waiting to rebuild
        self._watched: dict[str, SinkWrapper] = {}
        self._jobs = 0
        self._pulse = Heartbeat()  # of the engine, for each of its lives another one
        self._silent = 0.0  # seconds that jobs ran without a word, before `_busy`
        self._busy = 0.0  # since when there is a job, or since the last word
        self._failures = 0  # jobs that failed since one was translated
        self._failing = 0.0  # when the first of them did
        self._span = 0.0  # seconds between the first and the last of them
        self._tries = 0  # rebuilds since an engine was stable
        self._since = 0.0  # when the engine became ready
        self._alarm = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def profile(self) -> Profile:
        return self._engine.profile

    @property
    def capacity(self) -> int:
        return self._engine.capacity

    @property
    def health(self) -> Health:
        return self._engine.health if self._health is Health.READY else self._health

    @property
    def unfinished(self) -> int:
        return self._engine.unfinished

    def stats(self) -> Mapping[str, float]:
        return {**self._engine.stats(), "restarts": self.restarts, "hangs": self.hangs}

    @property
    def silence(self) -> float:
        """Seconds that jobs have run, since any of them said something or ended by itself; of what
        was said, it is known when this is asked, that is with every `poll`."""
        if self._pulse.beats:
            self._rouse()
        return self._silent + (self.clock() - self._busy if self._jobs else 0.0)

    @property
    def failing(self) -> bool:
        """Whether jobs fail one after the other, long enough to be no accident."""
        return self._failures >= FAILURES and self._span >= self.hang * FAILING_PART

    async def start(self) -> None:
        """Start the first engine. Raises what it raises, unless told to insist."""
        try:
            await self._load(self._engine)
        except EngineFault as fault:
            if not self.insist:
                raise
            logger.warning("engine %s: %s Trying again.", self.name, fault)
        self._task = asyncio.create_task(self._supervise(), name="supervisor")
        self._task.add_done_callback(report)

    def submit(self, job: Job, sink: Sink) -> None:
        engine = self._engine
        if self._health is Health.CLOSED:
            refuse(sink, EngineGone("The engine was closed; the gateway is shutting down."))
        elif self._health is not Health.READY or engine.health is not Health.READY:
            self._alarm.set()
            hint = "It is starting or restarting by itself; try again in a few seconds."
            refuse(sink, EngineFault("The engine is not ready.", hint=hint))
        else:
            if not self._jobs:
                self._busy = self.clock()
            self._jobs += 1
            engine.submit(job, SupervisedSink(self, engine, self._pulse, self._watched, job, sink))

    def abort(self, job_id: str) -> None:
        watched = self._watched.get(job_id)
        if isinstance(watched, SupervisedSink):
            watched.engine.abort(job_id)  # which may be one that is being given up
            watched.end(Aborted(job_id))  # and may never say it

    def ended(self, engine: Engine, fault: EngineFault | None) -> None:
        """Take note of how a job ended."""
        if engine is not self._engine:  # how an earlier one is says nothing of this one
            return
        if fault is None:
            self._failures = 0
            self._rouse()
        elif isinstance(fault, JobFault):
            self._rouse()  # it has read the text
        elif is_engine_failure(fault):
            now = self.clock()
            self._failing = self._failing if self._failures else now
            self._span = now - self._failing
            self._failures += 1
            self._alarm.set()
        silence = self.silence
        self._jobs -= 1
        if not self._jobs:
            self._silent = silence

    async def aclose(self) -> None:
        if self._health is Health.CLOSED:
            return
        self._become(Health.CLOSED)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))  # `report` has logged what it ended with
        await self._close(self._engine)

    def _rouse(self) -> None:
        """The engine said something."""
        self._pulse.beats = False
        self._silent = 0.0
        self._busy = self.clock()

    def _become(self, health: Health) -> None:
        self._health = health
        self.changed()

    async def _supervise(self) -> None:
        while True:
            while self.health is Health.READY and not (self.failing or self.silence >= self.hang):
                await self._pause()
            if self._health is Health.READY:  # else the first start failed
                if self.health is not Health.READY:
                    logger.error("engine %s died; building a new one", self.name)
                elif self.failing:
                    logger.error("engine %s fails: %d jobs in a row", self.name, self._failures)
                else:
                    self.hangs += 1
                    logger.error("engine %s hangs: %d jobs, no word", self.name, self._jobs)
                self._become(Health.DEAD)
                if self.clock() - self._since >= STABLE:
                    self._tries = 0
                await self._close(self._engine)  # this ends the jobs that still wait for it
            await self.sleep(self.chance() * backoff(self._tries, self.most))
            self._tries += 1
            try:
                await self._load(self.build(), probed=True)
            except EngineFault as fault:
                logger.warning("engine %s: %s Trying again.", self.name, fault)
            except Exception:
                logger.exception("engine %s could not be built; trying again", self.name)
            else:
                self.restarts += 1
                logger.info("engine %s is ready again", self.name)

    async def _load(self, engine: Engine, *, probed: bool = False) -> None:
        """Start an engine and make it the current one. Raises what its `start` raises, having
        closed it.

        Until then the one before stays, for the name and profile that it learnt from its model.

        :param probed: whether it has to translate a word first
        """
        self._become(Health.STARTING)
        try:
            try:
                async with asyncio.timeout(self.loading):
                    await engine.start()
            except TimeoutError as exc:
                raise EngineFault(f"It did not start within {self.loading:g} s.") from exc
            if probed:
                await self._probe(engine)
        except BaseException as exc:
            if not isinstance(exc, asyncio.CancelledError):
                self._become(Health.DEAD)
            await self._close(engine)
            raise
        self._engine = engine
        self._jobs, self._silent = 0, 0.0  # of the one before some may not have ended
        self._failures = 0
        self._pulse = Heartbeat()
        self._since = self.clock()
        self._become(Health.READY)

    async def _probe(self, engine: Engine) -> None:
        """Have an engine translate a word. Raises `EngineFault` where it does not within `hang`."""
        probe = Probe()
        engine.submit(probing(engine.profile), probe)
        await self._wait(self.hang, probe.ended)
        if not probe.ended.is_set():
            raise EngineFault(f"It did not translate a word within {self.hang:g} s.")
        if probe.fault is not None:
            raise EngineFault(f"It did not translate a word: {probe.fault.summary}.")

    async def _pause(self) -> None:
        """Wait until it is time to look at the engine: the next poll, or an alarm."""
        self._alarm.clear()
        await self._wait(self.poll, self._alarm)

    async def _wait(self, seconds: float, event: asyncio.Event) -> None:
        """Wait for an event, but no longer than ``seconds``."""
        waits = [asyncio.create_task(self.sleep(seconds)), asyncio.create_task(event.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _close(self, engine: Engine) -> None:
        """Close an engine, whatever state it is in."""
        try:
            async with asyncio.timeout(CLOSING):
                await engine.aclose()
        except Exception as exc:
            # It is given up in any case: what is left of it must not keep a new one from coming.
            logger.error("engine %s did not close", self.name, exc_info=redacted(exc))


class Heartbeat:
    """Whether an engine has said something since somebody looked.

    A flag, since it is set with every token; when that was is asked once a second.
    """

    __slots__ = ("beats",)

    def __init__(self) -> None:
        self.beats = False


class Probe:
    """A `Sink` for which it only counts whether and how a job ends."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.fault: EngineFault | None = None

    def chunk(self, chunk: Chunk) -> None:
        """Pass over a piece of the translation."""

    def end(self, fault: EngineFault | None) -> None:
        self.fault = fault
        self.ended.set()


class SupervisedSink(SinkWrapper):
    """One job, which tells the supervisor what its engine says."""

    __slots__ = ("engine", "pulse", "supervisor")

    def __init__(
        self,
        supervisor: Supervisor,
        engine: Engine,
        pulse: Heartbeat,
        open_sinks: dict[str, SinkWrapper],
        job: Job,
        sink: Sink,
    ) -> None:
        super().__init__(open_sinks, job, sink)
        self.supervisor = supervisor
        self.engine = engine
        self.pulse = pulse

    def chunk(self, chunk: Chunk) -> None:
        if self.live:
            self.pulse.beats = True
            self.sink.chunk(chunk)

    def end(self, fault: EngineFault | None) -> None:
        if self.live:
            self.supervisor.ended(self.engine, fault)
            self.finish(fault)


def _unheard() -> None:
    """Nobody wants to be told."""


def backoff(tries: int, most: float = BACKOFF_MOST) -> float:
    """Return the longest wait in seconds before another try, after so many."""
    return min(most, BACKOFF * 2.0 ** min(tries, 30))


def probing(profile: Profile) -> Job:
    """Return the job with which an engine shows that it works, for a pair that it has."""
    sources = sorted(profile.sources, key=lambda source: source != "en")
    source, target = next(
        (source, target)
        for source in sources
        for target in profile.targets
        if source != target and profile.supports(source, target)
    )
    return Job(id="probe", text=PROBE, source=source, target=target, priority=Priority.FINAL)


def report(task: asyncio.Task[None]) -> None:
    """Log why the supervising task ended, unless it was cancelled: it never ends by itself."""
    if not task.cancelled() and (fault := task.exception()) is not None:
        logger.critical("the engine is no longer supervised", exc_info=fault)
