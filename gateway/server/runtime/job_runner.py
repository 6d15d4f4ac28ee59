"""The jobs that the engine has, from the dispatcher's word to their end.

Owns: one `JobSink` for each, which is the sink that the engine speaks into; their time limit; and
how long text waits for more of itself while there is little time (`gateway.core.coalescing`). Must
not know: sockets, sessions, frames, any particular engine.

There is no task: what the engine says goes through the room into the outboxes before the engine's
callback returns. So nothing here waits, and nothing raises: a fault of the gateway's own code ends
the job it happened in, and is logged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from gateway.core.captioner import CaptionSink
from gateway.core.coalescing import Coalescing
from gateway.core.room import Room
from gateway.core.scheduler import Scheduler, StartJob
from gateway.engines.base.engine import Aborted, Engine
from gateway.errors import EngineFault, ErrorCode, redacted
from gateway.job import Chunk, Job, merged

log = logging.getLogger("gateway.jobs")


class JobSink:
    """One job that the engine has: a `gateway.engines.base.engine.Sink`."""

    __slots__ = ("_pace", "begun", "held", "job", "jobs", "line", "over", "room", "until")

    def __init__(self, jobs: JobRunner, job: Job, room: Room, until: float) -> None:
        self.jobs = jobs
        self.job = job
        self.room = room
        self.until = until
        """When it has taken too long."""
        self.over = False
        self.begun = False
        """Whether some of its text was shown."""
        self.held: Chunk | None = None
        """What waits to be shown."""
        self.line: CaptionSink | None = None
        """Where its text goes."""
        self._pace = jobs.coalescing

    def chunk(self, chunk: Chunk) -> None:
        if self.over:
            return
        jobs = self.jobs
        jobs.chunks += 1
        jobs.tokens += chunk.tokens
        if self._pace.interval or self.held is not None:
            self._gather(chunk)
        else:
            self._show(chunk)

    def show(self) -> None:
        """Show what waits."""
        chunk, self.held = self.held, None
        if chunk is not None and not self.over:
            self._show(chunk)

    def end(self, fault: EngineFault | None) -> None:
        if self.held is not None and not isinstance(fault, Aborted):
            self.show()
        if self.over:
            return
        if fault is None:
            self._close(None)
            return
        if not isinstance(fault, Aborted):
            log.warning("job %s failed: %s", self.job.id, fault.summary)
        self._close(fault.code)

    def stop(self) -> None:
        """The dispatcher does not want it any more: no chunk follows, its end may come later."""
        self.held = None
        self.jobs.engine.abort(self.job.id)

    def quit(self, code: ErrorCode) -> None:
        """End it with ``code``, whatever the engine still says."""
        if not self.over:
            self.over = True
            self.jobs.engine.abort(self.job.id)
            self._close(code)

    def _gather(self, chunk: Chunk) -> None:
        """`chunk`, while text waits for more of itself."""
        if self.held is not None:
            self.jobs.merged += 1
            self.held = merged(self.held, chunk)
            if chunk.reset:
                self.show()
        elif self.begun and not chunk.reset:
            self.held = chunk
            self.jobs.hold(self)
        else:
            self._show(chunk)

    def _show(self, chunk: Chunk) -> None:
        self.begun = True
        jobs, line = self.jobs, self.line
        try:
            if line is not None:
                line.fed(chunk, jobs.now())
            if jobs.dispatch.due:  # it may be stopped by what it says
                jobs.act()
        except Exception as exc:
            bare = redacted(exc)
            log.error("job %s failed by a fault of the gateway", self.job.id, exc_info=bare)
            self.quit(ErrorCode.INTERNAL)

    def _close(self, code: ErrorCode | None) -> None:
        """It is over: made, or failed with ``code``. The room does not hear that of a job that it
        took back itself."""
        jobs, job_id = self.jobs, self.job.id
        self.over = True
        del jobs.runs[job_id]
        now = jobs.now()
        try:
            if code is None:
                jobs.dispatch.made(job_id, now)
                self.room.finished(job_id, now)
            else:
                self.room.failed(job_id, code, now)
        except Exception as exc:
            log.error("job %s broke the room", job_id, exc_info=redacted(exc))
        jobs.dispatch.done(job_id)
        jobs.act()


class JobRunner:
    """What the dispatcher has given to the engine.

    :param room: the room of a job
    :param patience: seconds that a job may take
    :param longest: seconds that text may wait for more of itself, see `gateway.core.coalescing`
    :param clock: seconds, monotonic
    """

    def __init__(
        self,
        engine: Engine,
        dispatch: Scheduler,
        room: Callable[[str], Room],
        *,
        patience: float,
        longest: float,
        clock: Callable[[], float],
    ) -> None:
        self.engine = engine
        self.dispatch = dispatch
        self.now = clock
        self.runs: dict[str, JobSink] = {}
        """In the order in which they began, by id."""
        self.coalescing = Coalescing(longest)
        self.chunks = 0
        """That the engine made."""
        self.merged = 0
        """Chunks that were shown together with the one before."""
        self.tokens = 0
        self._room = room
        self._patience = patience
        self._acting = False
        self._alarm: asyncio.TimerHandle | None = None
        self._held: list[JobSink] = []  # at most one entry for each job
        self._seen = (time.thread_time(), time.perf_counter(), 0)

    def act(self) -> None:
        """Carry out what the dispatcher decided, now: also what it decides meanwhile."""
        if self._acting:
            return
        self._acting = True
        try:
            while actions := self.dispatch.actions():
                for action in actions:
                    if isinstance(action, StartJob):
                        self._start(action.job)
                    elif (run := self.runs.get(action.job_id)) is not None:
                        run.stop()
        finally:
            self._acting = False

    def _start(self, job: Job) -> None:
        now = self.now()
        run = self.runs[job.id] = JobSink(self, job, self._room(job.room), now + self._patience)
        self.dispatch.begun(job.id, now)
        run.line = run.room.started(job.id, now)
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(self._patience, self.look)
        try:
            self.engine.submit(job, run)
        except Exception as exc:
            log.error("the engine did not take job %s", job.id, exc_info=redacted(exc))
            run.quit(ErrorCode.INTERNAL)

    def look(self) -> None:
        """End the jobs that have taken too long; one alarm is set for the oldest of the others."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        now = self.now()
        for run in list(self.runs.values()):
            if run.until > now:
                delay = run.until - now
                self._alarm = asyncio.get_running_loop().call_later(delay, self.look)
                break
            log.warning("job %s took longer than %g s", run.job.id, self._patience)
            run.quit(ErrorCode.TIMEOUT)

    def hold(self, run: JobSink) -> None:
        """Show what a run has before the interval is over: one timer for all that wait."""
        self._held.append(run)
        if len(self._held) == 1:
            asyncio.get_running_loop().call_later(self.coalescing.interval, self._release)

    def _release(self) -> None:
        held, self._held = self._held, []
        for run in held:
            run.show()

    def measure(self) -> None:
        """See how busy this thread was since the last look, and what came; about once a second."""
        used, at, chunks = self._seen
        self._seen = (time.thread_time(), time.perf_counter(), self.chunks)
        wall = self._seen[1] - at
        if wall > 0:
            self.coalescing.look((self._seen[0] - used) / wall, (self.chunks - chunks) / wall)

    def clear(self) -> None:
        """End all that are left, visibly."""
        for run in list(self.runs.values()):
            run.quit(ErrorCode.ENGINE_UNAVAILABLE)
        self.look()
