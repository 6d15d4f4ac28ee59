"""A deterministic engine without a model: for tests, demos and load generation.

Owns: visibly fake translations, streamed word by word, and the faults a test wants to see (hold,
step, fail, die). Must not know: clients, rooms, real models. It is public: anyone who writes
against the gateway can test with it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from gateway.engines.base.engine import Aborted, Health, PushEngine, Sink, refuse
from gateway.engines.profiles import Profile
from gateway.errors import EngineFault, EngineGone, ErrorCode, JobFault, redacted
from gateway.job import Chunk, Job

logger = logging.getLogger(__name__)

LANGUAGES = ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "uk", "zh")
"""What it offers when not told otherwise. It "translates" any of them into any other."""

CAPACITY = 16
"""Jobs at once, the same as the default of the real engines."""

HISTORY = 10_000
"""How many ids `started` and `aborted` remember: enough for any test, bounded for long demos."""

DEATHS = 10
"""Of the faults of an engine with ``faults``, every so many-th is the death of the engine."""

WORD = re.compile(r"\s*\S+")


class ScriptedJob:
    """One job at work: what is left of its output, and where that goes."""

    __slots__ = ("job", "n", "over", "pieces", "sink")

    def __init__(self, job: Job, sink: Sink, pieces: list[str]) -> None:
        self.job = job
        self.sink = sink
        self.pieces = pieces
        self.n = 0  # of the next one
        self.over = False


class SharedTimers:
    """Wakes many runs with few timers: those due in the same millisecond have one together, as a
    batch steps in a model. A timer for each chunk would cost more than all the rest of it."""

    def __init__(self, wake: Callable[[ScriptedJob], None]) -> None:
        self._wake = wake
        self._due: dict[int, list[ScriptedJob]] = {}

    def wait(self, run: ScriptedJob, seconds: float) -> None:
        """Wake ``run`` after ``seconds``."""
        loop = asyncio.get_running_loop()
        tick = math.ceil((loop.time() + seconds) * 1000)
        runs = self._due.get(tick)
        if runs is None:
            runs = self._due[tick] = []
            loop.call_at(tick / 1000, self._strike, tick)
        runs.append(run)

    def _strike(self, tick: int) -> None:
        for run in self._due.pop(tick):
            if not run.over:
                self._wake(run)


class ScriptedEngine(PushEngine):
    """An `Engine` whose output is known beforehand.

    ``good morning`` into ``de`` gives ``[de] good morning`` in three chunks. ``script`` maps
    ``(text, target)`` to other pieces, yielded as they stand. Like a model, it goes on after a
    forced prefix that it would not have said itself: with the word that stands there.

    :param script: pieces of the output for some (text, target)
    :param languages: canonical tags it offers, from any to any
    :param capacity: jobs at once, as `Engine.capacity`; more are not refused
    :param delay: seconds before the first chunk
    :param pace: seconds between chunks; 0 only yields to the event loop
    :param fault: called as ``fault(job, n)`` before chunk ``n`` (from 0); what it raises ends the
        job. See `failing` for the usual one.
    :param faults: the share of jobs that fail after their first chunk, evenly spread: most are
        ``rejected``, some take the engine with them
    """

    def __init__(
        self,
        script: Mapping[tuple[str, str], Sequence[str]] | None = None,
        *,
        languages: tuple[str, ...] = LANGUAGES,
        capacity: int = CAPACITY,
        delay: float = 0.0,
        pace: float = 0.0,
        fault: Callable[[Job, int], None] | None = None,
        faults: float = 0.0,
    ) -> None:
        self.script = {} if script is None else script
        self.delay = delay
        self.pace = pace
        self.fault = fault if fault is not None or not faults else self._spread(faults)
        self.started: deque[str] = deque(maxlen=HISTORY)
        """Ids of the jobs whose work began, oldest first; a second attempt counts again."""
        self.aborted: deque[str] = deque(maxlen=HISTORY)
        """Ids of the jobs stopped before their end: by `abort`, by closing, by cancelling."""
        self._profile = Profile(name="scripted", kind="raw", languages=languages)
        self._capacity = capacity
        self._health = Health.STARTING
        self._running: dict[str, ScriptedJob] = {}
        self._held = False
        self._gate: deque[ScriptedJob] = deque()  # no more entries than there are running jobs
        self._arrival = asyncio.Event()
        self._clock = SharedTimers(self._turn)

    @property
    def name(self) -> str:
        return "scripted"

    @property
    def profile(self) -> Profile:
        return self._profile

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def health(self) -> Health:
        return self._health

    @property
    def unfinished(self) -> int:
        return len(self._running)

    def stats(self) -> Mapping[str, float]:
        return {}

    async def start(self) -> None:
        self._health = Health.READY

    def submit(self, job: Job, sink: Sink) -> None:
        if self._health is not Health.READY:
            fault = f"The scripted engine is {self._health.value} and takes no jobs."
            refuse(sink, EngineGone(fault))
            return
        run = self._running[job.id] = ScriptedJob(job, sink, self.pieces(job))
        self.started.append(job.id)
        if run.pieces:
            self._wait(run, self.delay)
        else:
            asyncio.get_running_loop().call_soon(self._finish, run, None)

    def pieces(self, job: Job) -> list[str]:
        """The chunks of ``job``; a forced prefix is left out, as a model only continues it."""
        script = self.script.get((job.text, job.target))
        pieces = WORD.findall(f"[{job.target}] {job.text}") if script is None else list(script)
        text = "".join(pieces)
        if job.prefix and text.startswith(job.prefix):
            pieces = WORD.findall(text[len(job.prefix) :])
        elif script is None:
            pieces = pieces[len(WORD.findall(job.prefix)) :]
        return [piece for piece in pieces if piece]

    def abort(self, job_id: str) -> None:
        run = self._running.get(job_id)
        if run is not None:
            self.aborted.append(job_id)
            self._finish(run, Aborted(job_id))

    def _wait(self, run: ScriptedJob, seconds: float) -> None:
        """Let the next piece wait for the clock."""
        if seconds > 0:
            self._clock.wait(run, seconds)
        else:
            asyncio.get_running_loop().call_soon(self._turn, run)

    def _turn(self, run: ScriptedJob) -> None:
        """It is time for the next piece, unless it has to wait at the gate."""
        if self._held and not run.over:
            self._gate.append(run)
            self._arrival.set()
        else:
            self._say(run)

    def _say(self, run: ScriptedJob) -> None:
        """Say the next piece, and at the last one that it was the last."""
        if run.over:
            return
        if self.fault is not None and (fault := self._struck(run)) is not None:
            self._finish(run, fault)
            return
        run.n += 1
        run.sink.chunk(Chunk(run.pieces[run.n - 1]))
        if run.n == len(run.pieces):
            self._finish(run, None)
        elif not run.over:
            self._wait(run, self.pace)

    def _struck(self, run: ScriptedJob) -> EngineFault | None:
        """What the fault that the engine was told to have does to the next piece."""
        assert self.fault is not None
        try:
            self.fault(run.job, run.n)
        except EngineFault as fault:
            return fault
        except Exception as exc:
            bare = redacted(exc)
            logger.error(
                "job %s failed by a fault of the engine's own code", run.job.id, exc_info=bare
            )
            return EngineFault("The engine failed by a fault of its own.", ErrorCode.INTERNAL)
        return None

    def _finish(self, run: ScriptedJob, fault: EngineFault | None) -> None:
        if run.over:
            return
        run.over = True
        if self._running.get(run.job.id) is run:
            del self._running[run.job.id]
        if run in self._gate:
            self._gate.remove(run)
        run.sink.end(fault)

    async def aclose(self) -> None:
        self._end(Health.CLOSED, "The scripted engine was closed while the job ran.")

    def hold(self) -> None:
        """From now on every job stops before its next chunk, until `step` or `release`."""
        self._held = True

    async def step(self) -> None:
        """Let the job that waits longest at the gate say one chunk; wait for one if none does.

        Returns after a task that pulls the job has had a turn with the chunk.
        """
        while not self._gate:
            self._arrival.clear()
            await self._arrival.wait()
        self._say(self._gate.popleft())
        await asyncio.sleep(0)

    def release(self) -> None:
        """Undo `hold`."""
        self._held = False
        while self._gate:
            self._say(self._gate.popleft())

    def die(self) -> None:
        """Die as a crashed model process does: every job ends in `EngineGone`, health is DEAD."""
        self._end(Health.DEAD, "The scripted engine died while the job ran.")

    def _spread(self, share: float) -> Callable[[Job, int], None]:
        """A ``fault`` for this share of the jobs."""
        due = 0.0
        count = 0

        def fault(job: Job, n: int) -> None:
            nonlocal due, count
            due += share if n == 1 else 0.0
            if n != 1 or due < 1:
                return
            due -= 1
            count += 1
            if count % DEATHS == 0:
                self.die()
                raise EngineGone("The scripted engine died, as it was told to.")
            raise JobFault("The scripted engine failed, as it was told to.", ErrorCode.REJECTED)

        return fault

    def _end(self, health: Health, message: str) -> None:
        self._health = health
        runs = list(self._running.values())
        self._running.clear()
        for run in runs:
            self._finish(run, EngineGone(message))


def failing(error: Exception, *, at: int = 0, times: int = 1) -> Callable[[Job, int], None]:
    """A ``fault`` that raises ``error`` before chunk ``at`` of the first ``times`` jobs."""
    left = times

    def fault(job: Job, n: int) -> None:
        nonlocal left
        if n == at and left > 0:
            left -= 1
            raise error

    return fault
