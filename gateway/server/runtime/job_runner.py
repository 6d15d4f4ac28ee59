"""Jobs of the engine, from the scheduler's decision to their end.

Owns: a `JobSink` per job, which the engine calls with its output; the time limit of jobs; how long
text is held back under load (`gateway.core.scheduling.output_batching`). Must not know: sockets,
sessions, frames, any particular engine.

There are no tasks: output of the engine passes through the room into the outboxes before the
engine's call returns. So nothing here waits, and nothing raises: a fault of the gateway's own code
ends the job that it happened in, and is logged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from gateway.core.captions.captioner import CaptionSink
from gateway.core.room.room import Room
from gateway.core.scheduling.output_batching import Coalescing
from gateway.core.scheduling.scheduler import Scheduler
from gateway.engines.base.engine import Aborted, Engine
from gateway.errors import EngineFault, ErrorCode, redacted
from gateway.job import Chunk, Job, merged

log = logging.getLogger("gateway.jobs")


class JobSink:
    """One job that the engine has: a `gateway.engines.base.engine.Sink`."""

    __slots__ = (
        *("_coalescing", "caption", "deadline", "held", "job", "jobs", "over", "room", "shown"),
    )

    def __init__(self, jobs: JobRunner, job: Job, room: Room, deadline: float) -> None:
        self.jobs = jobs
        self.job = job
        self.room = room
        self.deadline = deadline
        self.over = False
        self.shown = False  # true once any text of the job was shown
        self.held: Chunk | None = None  # text that is held back
        self.caption: CaptionSink | None = None
        """The caption that text goes to; None if the room no longer wants the job."""
        self._coalescing = jobs.coalescing

    @property
    def ids(self) -> dict[str, str]:
        """Ids for a log line: of the job, its room, its utterance and the speaker's session."""
        ids = {"job": self.job.id, "room": self.room.name}
        if self.caption is not None:
            utterance = self.caption.utterance
            ids |= {"utterance": utterance.id, "session": utterance.author}
        return ids

    def chunk(self, chunk: Chunk) -> None:
        """Show a piece of text, or hold it back under load."""
        if self.over:
            return
        jobs = self.jobs
        jobs.chunks += 1
        jobs.tokens += chunk.tokens
        if chunk.drafted:
            jobs.drafted += chunk.drafted
            jobs.accepted += chunk.accepted
        if self._coalescing.interval or self.held is not None:
            self._coalesce(chunk)
        else:
            self._show(chunk)

    def show_held(self) -> None:
        """Show the text that was held back."""
        chunk, self.held = self.held, None
        if chunk is not None and not self.over:
            self._show(chunk)

    def end(self, fault: EngineFault | None) -> None:
        """Finish the job, or fail it with ``fault``."""
        if not isinstance(fault, Aborted):
            self.show_held()
        if self.over:
            return
        if fault is not None and not isinstance(fault, Aborted):
            log.warning("job %s failed: %s", self.job.id, fault.summary, extra=self.ids)
        self._finish(None if fault is None else fault.code)

    def stop(self) -> None:
        """Abort the job for the scheduler. No chunk follows; the engine may end it later."""
        self.held = None
        self.jobs.engine.abort(self.job.id)

    def fail(self, code: ErrorCode) -> None:
        """Fail the job with ``code`` now, and ignore further output of the engine."""
        if not self.over:
            self.over = True
            self.jobs.engine.abort(self.job.id)
            self._finish(code)

    def _coalesce(self, chunk: Chunk) -> None:
        """Add a chunk to the text that is held back, or begin to hold text back."""
        # The first chunk of a job is shown at once, and so is one that replaces all text before it.
        if self.held is not None:
            self.jobs.merged += 1
            self.held = merged(self.held, chunk)
            if chunk.reset:
                self.show_held()
        elif self.shown and not chunk.reset:
            self.held = chunk
            self.jobs.hold(self)
        else:
            self._show(chunk)

    def _show(self, chunk: Chunk) -> None:
        self.shown = True
        jobs, caption = self.jobs, self.caption
        try:
            if caption is not None:
                caption.add_output(chunk, jobs.now())
            if jobs.scheduler.due:  # the text may have led the room to stop this very job
                jobs.act()
        except Exception as exc:
            failed = "job %s failed by a fault of the gateway"
            log.error(failed, self.job.id, exc_info=redacted(exc), extra=self.ids)
            self.fail(ErrorCode.INTERNAL)

    def _finish(self, code: ErrorCode | None) -> None:
        """Tell the room and the scheduler of the end of the job."""
        # The room ignores the end of a job that it withdrew itself.
        jobs, job_id = self.jobs, self.job.id
        self.over = True
        del jobs.runs[job_id]
        now = jobs.now()
        try:
            if code is None:
                jobs.scheduler.made(job_id, now)
                self.room.captioner.finished(job_id, now)
            else:
                self.room.captioner.failed(job_id, code, now)
        except Exception as exc:
            ended = "the end of job %s broke the room"
            log.error(ended, job_id, exc_info=redacted(exc), extra=self.ids)
        jobs.scheduler.done(job_id)
        jobs.act()


class JobRunner:
    """The jobs that the engine has.

    :param patience: seconds that a job may take
    :param longest: seconds that text may be held back, see
        `gateway.core.scheduling.output_batching`
    """

    def __init__(
        self,
        engine: Engine,
        scheduler: Scheduler,
        room: Callable[[str], Room],
        *,
        patience: float,
        longest: float,
        clock: Callable[[], float],
    ) -> None:
        self.engine = engine
        self.scheduler = scheduler
        self.now = clock
        self.runs: dict[str, JobSink] = {}
        """Sinks by the id of their job, in the order of their start."""
        self.coalescing = Coalescing(longest)
        self.chunks = 0  # chunks received from the engine since the start
        self.merged = 0  # chunks that were shown together with the one before
        self.tokens = 0  # tokens in those chunks, without those of accepted drafts
        self.drafted = 0  # tokens of drafts that the engine has checked
        self.accepted = 0  # tokens of drafts that the engine has accepted
        self._room = room
        self._patience = patience
        self._acting = False
        self._alarm: asyncio.TimerHandle | None = None
        self._holding: list[JobSink] = []  # a sink is here once at most
        self._measured = (time.thread_time(), time.perf_counter(), 0, 0)

    def act(self) -> None:
        """Carry out the scheduler's decisions, and further ones that they lead to."""
        if self._acting:  # called by a job that starts: the loop below continues
            return
        self._acting = True
        try:
            while actions := self.scheduler.actions():
                for action in actions:
                    if isinstance(action, Job):
                        self._start(action)
                    elif (run := self.runs.get(action)) is not None:
                        run.stop()
        finally:
            self._acting = False

    def _start(self, job: Job) -> None:
        now = self.now()
        run = self.runs[job.id] = JobSink(self, job, self._room(job.room), now + self._patience)
        self.scheduler.begun(job.id, now)
        run.caption = run.room.captioner.started(job.id, now)
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(self._patience, self.end_overdue)
        try:
            self.engine.submit(job, run)
        except Exception as exc:
            refused = "the engine did not take job %s"
            log.error(refused, job.id, exc_info=redacted(exc), extra=run.ids)
            run.fail(ErrorCode.INTERNAL)

    def end_overdue(self) -> None:
        """Fail jobs that have taken too long, and set an alarm for the oldest of the others."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        now = self.now()
        for run in list(self.runs.values()):
            if run.deadline > now:  # those that follow began later
                delay = run.deadline - now
                self._alarm = asyncio.get_running_loop().call_later(delay, self.end_overdue)
                break
            late = "job %s took longer than %g s"
            log.warning(late, run.job.id, self._patience, extra=run.ids)
            run.fail(ErrorCode.TIMEOUT)

    def hold(self, run: JobSink) -> None:
        """Show the held text of a sink after the interval. All sinks share one timer."""
        self._holding.append(run)
        if len(self._holding) == 1:
            asyncio.get_running_loop().call_later(self.coalescing.interval, self._show_all_held)

    def _show_all_held(self) -> None:
        holding, self._holding = self._holding, []
        for run in holding:
            run.show_held()

    def measure(self) -> None:
        """Update the interval from this thread's load since the last call, about a second ago."""
        used, at, chunks, merged = self._measured
        self._measured = (time.thread_time(), time.perf_counter(), self.chunks, self.merged)
        wall, came = self._measured[1] - at, self.chunks - chunks
        if wall > 0:
            share, together = (self._measured[0] - used) / wall, self.merged - merged
            self.coalescing.poll(share, came / wall, together / came if came else 0.0)

    def fail_all(self) -> None:
        """Fail all jobs that are left, at the end of the gateway."""
        for run in list(self.runs.values()):
            run.fail(ErrorCode.ENGINE_UNAVAILABLE)
        self.end_overdue()  # no job is left, so this only removes the alarm
