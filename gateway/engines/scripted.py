"""A deterministic engine and recogniser without a model, for tests, demos and load generation.

Owns: visibly fake translations, streamed word by word, words that follow from the length of the
audio, and injected faults. Must not know: clients, rooms, real models. The module is public, for
tests of clients.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, count

from gateway.engines.base.engine import OWN_FAULT, Aborted, ModelEngine, Sink, SinkWrapper, log_ids
from gateway.engines.base.service import Health
from gateway.engines.profiles import Profile
from gateway.engines.recognition.base import SAMPLE_BYTES, BaseRecogniser
from gateway.errors import EngineFault, EngineGone, ErrorCode, JobFault, redacted
from gateway.job import SAMPLE_RATE, Chunk, Job, Recognised, RecognitionJob, Word

logger = logging.getLogger(__name__)

LANGUAGES = ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "uk", "zh")
"""Default languages. The engine "translates" any of them into any other."""

CAPACITY = 16
"""Default number of jobs at once, as of the real engines."""

ID_HISTORY_LIMIT = 10_000
"""Ids that `started` and `aborted` keep: enough for any test, and bounded for long demos."""

FAULTS_PER_DEATH = 10
"""With ``faults``, one in this many faults is the death of the engine."""

TEXT = "We meet again on Monday in the large room. Please bring your notes."
"""Default text of the speaker, again and again."""

PACE = 0.4
"""Seconds that a word takes: 150 words a minute."""

HISTORY_LIMIT = 100
"""Jobs that ``jobs`` and ``cancelled`` keep, enough for any test. A job holds up to 640 kB."""

WORD = re.compile(r"\s*\S+")


class ScriptedJob(SinkWrapper):
    """A running job: its output, and the index of the next piece of it."""

    pieces: list[str]
    next_piece = 0


class SharedTimers:
    """Timers of jobs due in the same millisecond: one for each would cost more than all else."""

    def __init__(self, callback: Callable[[ScriptedJob], None]) -> None:
        self._callback = callback
        self._due: dict[int, list[ScriptedJob]] = {}

    def wait(self, running: ScriptedJob, seconds: float) -> None:
        """Call the callback with ``running`` after ``seconds``, rounded up to a millisecond."""
        loop = asyncio.get_running_loop()
        tick = math.ceil((loop.time() + seconds) * 1000)
        jobs = self._due.get(tick)
        if jobs is None:
            jobs = self._due[tick] = []
            loop.call_at(tick / 1000, self._fire, tick)
        jobs.append(running)

    def _fire(self, tick: int) -> None:
        for running in self._due.pop(tick):
            if running.live:
                self._callback(running)


class ScriptedEngine(ModelEngine):
    """An `Engine` whose output follows from the job.

    ``good morning`` into ``de`` gives ``[de] good morning`` in three chunks. After a forced prefix
    that is not the beginning of this output, the output continues at the word with the same index.

    :param script: chunks of the output by (text, target), for texts with another output
    :param languages: canonical tags of its languages; any pair of them is supported
    :param capacity: value of `Engine.capacity`; further jobs are not refused
    :param delay: seconds before the first chunk
    :param pace: seconds between chunks; 0 only yields to the event loop
    :param fault: called as ``fault(job, n)`` before chunk ``n`` (from 0); an exception that it
        raises ends the job, see `failing`
    :param faults: share of jobs, 0 to 1, that fail after their first chunk, evenly spread. Most of
        them are ``rejected``, and one in `FAULTS_PER_DEATH` ends the engine
    """

    repeats_source = True

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
        profile = Profile(name="scripted", kind="raw", languages=languages)
        super().__init__("scripted", profile, capacity)
        self.script = {} if script is None else script
        self.delay = delay
        self.pace = pace
        self.fault = fault if fault is not None or not faults else self._failing_share(faults)
        self.started: deque[str] = deque(maxlen=ID_HISTORY_LIMIT)
        """Ids of the jobs that were begun, oldest first; a second attempt counts again."""
        self.aborted: deque[str] = deque(maxlen=ID_HISTORY_LIMIT)
        """Ids of the jobs that `abort` stopped, oldest first."""
        self._running: dict[str, ScriptedJob] = {}
        self._holding = False
        self._held_jobs: deque[ScriptedJob] = deque()  # a part of the running jobs
        self._job_held = asyncio.Event()
        self._timers = SharedTimers(self._on_timer)

    @property
    def unfinished(self) -> int:
        return len(self._running)

    def submit(self, job: Job, sink: Sink) -> None:
        if not self._admit(sink):
            return
        running = ScriptedJob(self._running, job, sink)
        running.pieces = self.pieces(job)
        self.started.append(job.id)
        if running.pieces:
            self._schedule(running, self.delay)
        else:
            asyncio.get_running_loop().call_soon(self._end, running, None)

    def pieces(self, job: Job) -> list[str]:
        """Return the chunks of ``job`` behind its forced prefix, as many as are needed."""
        script = self.script.get((job.text, job.target))
        pieces = WORD.findall(f"[{job.target}] {job.text}") if script is None else list(script)
        text = "".join(pieces)
        # A model does not repeat the forced prefix, so the chunks begin after it.
        if job.prefix and text.startswith(job.prefix):
            pieces = WORD.findall(text[len(job.prefix) :])
        elif script is None:
            pieces = pieces[len(WORD.findall(job.prefix)) :]
        pieces = [piece for piece in pieces if piece]
        if not job.needed:
            return pieces
        ends = list(accumulate(map(len, pieces)))
        return pieces[: bisect_left(ends, job.needed) + 1]

    def abort(self, job_id: str) -> None:
        running = self._running.get(job_id)
        if running is not None:
            self.aborted.append(job_id)
            self._end(running, Aborted(job_id))

    def _schedule(self, running: ScriptedJob, seconds: float) -> None:
        """Send the next piece after ``seconds``."""
        if seconds > 0:
            self._timers.wait(running, seconds)
        else:
            asyncio.get_running_loop().call_soon(self._on_timer, running)

    def _on_timer(self, running: ScriptedJob) -> None:
        """Send the next piece, or hold the job if `hold` was called."""
        if self._holding and running.live:
            self._held_jobs.append(running)
            self._job_held.set()
        else:
            self._send_next(running)

    def _send_next(self, running: ScriptedJob) -> None:
        """Send the next piece, and the end of the job after the last one."""
        if not running.live:
            return
        if self.fault is not None and (fault := self._injected_fault(running)) is not None:
            self._end(running, fault)
            return
        running.next_piece += 1
        running.sink.chunk(Chunk(running.pieces[running.next_piece - 1]))
        if running.next_piece == len(running.pieces):
            self._end(running, None)
        elif running.live:
            self._schedule(running, self.pace)

    def _injected_fault(self, running: ScriptedJob) -> EngineFault | None:
        """Return the fault that ``fault`` raises for the next piece, or None."""
        assert self.fault is not None
        try:
            self.fault(running.job, running.next_piece)
        except EngineFault as fault:
            return fault
        except Exception as exc:
            ids, failed = log_ids(running.job), "job %s failed in the engine's own code"
            logger.error(failed, ids["job"], exc_info=redacted(exc), extra=ids)
            return EngineFault(OWN_FAULT, ErrorCode.INTERNAL)
        return None

    def _end(self, running: ScriptedJob, fault: EngineFault | None) -> None:
        if running in self._held_jobs:
            self._held_jobs.remove(running)
        running.finish(fault)

    async def aclose(self) -> None:
        self._end_all(Health.CLOSED, "The scripted engine was closed while the job ran.")

    def hold(self) -> None:
        """Stop every job before its next chunk, until `step` or `release`."""
        self._holding = True

    async def step(self) -> None:
        """Have the job that is held longest send one chunk; wait for a held job if there is none.

        Returns after a task that reads the job has had a turn with the chunk.
        """
        while not self._held_jobs:
            self._job_held.clear()
            await self._job_held.wait()
        self._send_next(self._held_jobs.popleft())
        await asyncio.sleep(0)

    def release(self) -> None:
        """Undo `hold`, and send the next chunk of every held job."""
        self._holding = False
        while self._held_jobs:
            self._send_next(self._held_jobs.popleft())

    def die(self) -> None:
        """Die like a crashed model process: end every job in `EngineGone`, set health to DEAD."""
        self._end_all(Health.DEAD, "The scripted engine died while the job ran.")

    def _failing_share(self, share: float) -> Callable[[Job, int], None]:
        """Return a ``fault`` for ``share`` (0 to 1) of the jobs."""
        jobs = count(1)

        def fault(job: Job, n: int) -> None:
            if n != 1:
                return
            number = next(jobs)
            failed = int(number * share)
            if failed == int((number - 1) * share):
                return
            if failed % FAULTS_PER_DEATH == 0:
                self.die()
                raise EngineGone("The scripted engine died by an injected fault.")
            raise JobFault("The scripted engine failed by an injected fault.", ErrorCode.REJECTED)

        return fault

    def _end_all(self, health: Health, message: str) -> None:
        self._health = health
        for running in list(self._running.values()):
            self._end(running, EngineGone(message))


def failing(
    error: Exception, *, at: int = 0, times: int = 1, when: Callable[[Job], bool] = lambda _: True
) -> Callable[[Job, int], None]:
    """Return a ``fault`` that raises ``error`` before chunk ``at`` of the first ``times`` jobs."""
    left = times

    def fault(job: Job, n: int) -> None:
        nonlocal left
        if n == at and left > 0 and when(job):
            left -= 1
            raise error.with_traceback(None)

    return fault


class ScriptedRecogniser(BaseRecogniser):
    """A `Recogniser` that hears one word in every `PACE` seconds of audio that is not digital zero.

    :param text: words that it hears, again and again
    :param languages: canonical tags of its languages. The first one that a job allows is spoken
    :param delay: seconds that a job takes
    :param capacity: value of `Recogniser.capacity`; further jobs are not refused
    :param fault: called with each job; an exception that it raises ends the job
    """

    def __init__(
        self,
        text: str = TEXT,
        *,
        languages: tuple[str, ...] = ("en", "de", "es", "fr", "ja", "zh"),
        delay: float = 0.0,
        capacity: int = 4,
        fault: Callable[[RecognitionJob], None] | None = None,
    ) -> None:
        super().__init__("scripted", languages, capacity)
        self.text = text
        self.delay = delay
        self.fault = fault
        self.jobs: deque[RecognitionJob] = deque(maxlen=HISTORY_LIMIT)
        """Jobs that were begun, oldest first."""
        self.cancelled: deque[str] = deque(maxlen=HISTORY_LIMIT)
        """Ids of the jobs that were cancelled, oldest first."""
        self._may_answer = asyncio.Event()
        self._may_answer.set()

    def hold(self) -> None:
        """Answer no job until `release`."""
        self._may_answer.clear()

    def release(self) -> None:
        """Answer the jobs that `hold` held, and further ones."""
        self._may_answer.set()

    def die(self) -> None:
        """Fail as if the process of the model had died."""
        self._end(Health.DEAD)

    async def recognise(self, job: RecognitionJob) -> Recognised:
        self._require_health(Health.READY)
        self.jobs.append(job)
        try:
            await self._run(asyncio.ensure_future(self._wait()))
        except asyncio.CancelledError:
            self.cancelled.append(job.id)
            raise
        if self.fault is not None:
            self.fault(job)
        return self._heard(job)

    async def _wait(self) -> None:
        await asyncio.sleep(self.delay)
        await self._may_answer.wait()

    def _heard(self, job: RecognitionJob) -> Recognised:
        """Return one word for every `PACE` seconds up to the end of the sound."""
        script = self.text.split()
        spoken = (len(job.audio.rstrip(b"\x00")) + 1) // SAMPLE_BYTES / SAMPLE_RATE
        count = int(spoken / PACE + 1e-6)
        words = tuple(
            Word(f" {script[n % len(script)]}", n * PACE, (n + 1) * PACE) for n in range(count)
        )
        lang = next((lang for lang in job.langs or self.languages if lang in self.languages), "")
        return Recognised(words=words, lang=lang)
