"""The order in which jobs run.

Owns: the queue of jobs, the set of running ones, and the only place where either changes. Decides
synchronously; the hub carries out what `actions` returns. Must not know: engines, rooms' insides.

Order: finals before partials before backfill. Within one priority the tenants share the engine by
work, then the rooms of a tenant, and each room's jobs keep their order. The last free slot goes
only to a tenant with the fewest running jobs (`Scheduler.expect`). Bound: ``depth`` waiting jobs;
beyond it an utterance is answered by ``busy`` before anything of it is accepted. The bound is lower
while the engine does not keep up, see `gateway.core.scheduling.overload`. Gauges: ``queued``,
``finals``, ``running``; ``given`` counts.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from gateway.core.scheduling.engine_slots import Lane, Slots
from gateway.core.scheduling.overload import BYTES, OverloadMonitor
from gateway.core.scheduling.turns import JobTurns
from gateway.job import Job, Priority

Pair = tuple[str, str]
"""Source and target language of a job."""

KNOWN_S = 300.0
"""Seconds after a tenant's last job or new socket for which a slot is kept free for it: longer than
the usual pause of a meeting, and shorter than a forgotten page stays open."""


def work(job: Job) -> int:
    """Estimate the time that a job takes in the engine, in bytes of UTF-8.

    A translation has about as many bytes as its source, and a token about four bytes in English and
    three in Chinese, so bytes compare over scripts. The forced ``prefix`` is not made again. A job
    through a pivot language is translated twice.
    """
    size = len(job.text.encode())
    return job.steps * (BYTES + size) - min(size, len(job.prefix.encode()))


class JobStage(enum.Enum):
    """Stage of a job at which it was aborted."""

    QUEUED = "queued"
    RUNNING = "running"


class StartJob(msgspec.Struct, frozen=True):
    """Give this job to the engine."""

    job: Job


class StopJob(msgspec.Struct, frozen=True):
    """Abort this running job in the engine now."""

    job_id: str


class _Queue(NamedTuple):
    """A queue for jobs of an utterance: of the engine, or of one lane of several engines."""

    jobs: int
    """Jobs that would wait in it."""
    queued: int
    finals: int
    capacity: int
    free: int


class Scheduler:
    """The queue in front of the engine, shared by all rooms.

    :param capacity: jobs that the engine takes at once; of several engines the sum
    :param depth: jobs that may wait; of several engines the jobs of each lane
    :param slots: slots of several engines by language pair; None: all jobs share the slots
    """

    def __init__(
        self,
        *,
        capacity: int,
        depth: int,
        load: OverloadMonitor | None = None,
        slots: Slots | None = None,
    ) -> None:
        self.capacity = capacity
        self.depth = depth
        self.slots = slots
        self.load = load or OverloadMonitor()
        self.finals = 0
        """Number of finals that wait."""
        self.due = False
        """True if a job was queued or taken back since the last call of `actions`."""
        self.given: Counter[Priority] = Counter()
        """Jobs that the engine was given since the start, by priority."""
        self._waiting: dict[str, tuple[Job, float]] = {}
        self._turns = {priority: JobTurns() for priority in Priority}
        self._running: dict[str, tuple[Job, float]] = {}
        self._stops: list[StopJob] = []
        self._known: dict[str, float] = {}  # when each tenant was expected last
        self._slots: dict[str, int] = {}  # running jobs of each known tenant
        self._named = 0
        self._waiting_by_pair: Counter[Pair] = Counter()  # with several engines only
        self._finals_by_pair: Counter[Pair] = Counter()

    def __repr__(self) -> str:
        return f"<Scheduler {self.running}/{self.capacity} running, {self.queued} queued>"

    @property
    def queued(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    def new_id(self, room: str) -> str:
        """Return a new id for a job of a room.

        No two jobs of a process have the same id, even if a room ends and another of the same name
        begins: a job of the first may still be stopping.
        """
        self._named += 1
        return f"{room}.{self._named}"

    def queue_of(self, lane: Lane) -> int:
        """Return the number of jobs that wait for the engines of a lane."""
        return self._of_lane(self._waiting_by_pair, lane)

    def admits(
        self, jobs: int, priority: Priority = Priority.FINAL, pairs: Sequence[Pair] = ()
    ) -> bool:
        """Tell whether ``jobs`` more may be submitted.

        Backfill leaves half of the queue free. While the engine does not keep up, only finals are
        admitted.

        :param pairs: language pairs of the jobs; with several engines each lane has its own queue
        """
        if self.load.overloaded and priority is not Priority.FINAL:
            return False
        # Old utterances must not keep new ones out of the queue.
        depth = self.depth // 2 if priority is Priority.BACKFILL else self.depth
        return _fit(self._queues(jobs, pairs), depth)

    def admit(
        self, room: str, tenant: str, jobs: int, now: float, pairs: Sequence[Pair] = ()
    ) -> float:
        """Return 0 if a new utterance that takes ``jobs`` jobs is admitted in a room.

        Otherwise returns the seconds after which to try again.
        """
        queues = self._queues(jobs, pairs)
        longest = queues[0]
        # With several engines, the lane decides in which the jobs would wait longest.
        if len(queues) > 1:
            longest = max(queues, key=lambda queue: queue.finals / max(1, queue.capacity))
        # Before the monitor is asked: a full queue is refused even without overload.
        if not _fit(queues, self.depth):
            return self.load.full(longest.queued, longest.capacity, now)
        behind = self.load.overloaded and self._turns[Priority.FINAL].behind(room, jobs)
        free = longest.free
        # The last slot was kept free for a tenant that has none running.
        kept = 0 < free <= jobs and len(self._slots) > 1 and not self._slots.get(tenant)
        return self.load.admit(
            room, tenant, longest.finals, longest.capacity, now, behind=behind, kept=kept
        )

    def _queues(self, jobs: int, pairs: Sequence[Pair]) -> list[_Queue]:
        """Return the queues that ``jobs`` jobs of these pairs would wait in."""
        if self.slots is None or not pairs:
            free = self.capacity - len(self._running)
            return [_Queue(jobs, len(self._waiting), self.finals, self.capacity, free)]
        lanes = Counter(self.slots.lane(*pair) for pair in pairs)
        return [
            _Queue(
                min(count, jobs),
                self._of_lane(self._waiting_by_pair, lane),
                self._of_lane(self._finals_by_pair, lane),
                self.slots.size(lane),
                self.slots.free(lane),
            )
            for lane, count in lanes.items()
        ]

    def _of_lane(self, counts: Counter[Pair], lane: Lane) -> int:
        """Return the sum of the counts of the pairs that could go to one of these engines."""
        if self.slots is None:
            return self.queued
        lane_of = self.slots.lane
        return sum(n for pair, n in counts.items() if not {*lane}.isdisjoint(lane_of(*pair)))

    def _count(self, job: Job, change: int) -> None:
        if job.priority is Priority.FINAL:
            self.finals += change
        if self.slots is not None:
            pair = (job.source, job.target)
            counters = [self._waiting_by_pair]
            if job.priority is Priority.FINAL:
                counters.append(self._finals_by_pair)
            for counter in counters:
                counter[pair] += change
                if not counter[pair]:
                    del counter[pair]

    def expect(self, tenant: str, now: float) -> None:
        """Keep a slot free for a tenant from now on, for `KNOWN_S`.

        While several tenants are expected, the last free slot goes only to one with the fewest
        running jobs. So a tenant without running jobs need not wait for a long job of another. A
        tenant that is alone uses all slots, one beside others all but one; an engine with one slot
        keeps none free.
        """
        self._known[tenant] = now
        self._slots.setdefault(tenant, 0)

    def submit(self, job: Job, now: float) -> None:
        """Queue a job. Nothing is refused here: the caller has called `admits` before."""
        # The caller asks for `actions` once, after all jobs of a frame.
        self.due = True
        self.expect(job.tenant, now)
        self._waiting[job.id] = (job, now)
        self._turns[job.priority].add(job)
        self._count(job, +1)
        if job.priority is Priority.FINAL:
            self.load.asked += 1

    def waits(self, job_id: str) -> bool:
        """Tell whether a job waits for the engine."""
        return job_id in self._waiting

    def update(self, job: Job) -> None:
        """Replace a waiting job by one with a newer text and the same id, room and priority."""
        old, since = self._waiting[job.id]
        order = (job.tenant, job.room, job.priority)
        assert (old.tenant, old.room, old.priority) == order, "it would lose its turn"
        self._waiting[job.id] = (job, since)

    def abort(self, job_id: str) -> JobStage | None:
        """Take a job back. Returns its stage, or None if it neither waits nor runs."""
        if job_id in self._waiting:
            # The engine has not seen it, so nothing has to be stopped there.
            self._forget(self._waiting[job_id][0])
            return JobStage.QUEUED
        if job_id in self._running:
            self.due = True
            self._stops.append(StopJob(job_id))
            return JobStage.RUNNING
        return None

    def begun(self, job_id: str, now: float) -> None:
        """Note that the engine has begun a job."""
        job, since = self._running[job_id]
        if job.priority is Priority.FINAL:
            # An engine with many slots is as quick with a few jobs as with one.
            alone = len(self._running) <= max(1, self.capacity // 8)
            size = job.steps * (BYTES + len(job.text.encode())) - BYTES
            self.load.begun(job_id, size, now - since, now, alone=alone)

    def made(self, job_id: str, now: float) -> None:
        """Note that the engine has done a job to its end."""
        if job_id in self._running and self._running[job_id][0].priority is Priority.FINAL:
            self.load.made(job_id, now)

    def done(self, job_id: str) -> None:
        """Free the slot of a running job that has ended in any way."""
        ended = self._running.pop(job_id, None)
        if ended is not None:
            self._slots[ended[0].tenant] -= 1
        self.load.dropped(job_id)
        # It ended by itself before the stop was carried out.
        if self._stops:
            self._stops = [stop for stop in self._stops if stop.job_id != job_id]

    def overdue(self, now: float, patience: float) -> list[Job]:
        """Remove and return the jobs that have waited longer than ``patience`` seconds."""
        late = [job for job, since in self._waiting.values() if now - since > patience]
        for job in late:
            self._forget(job)
        return late

    def poll(self, now: float) -> list[Job]:
        """Decide anew whether the engine keeps up, and which tenants are still expected.

        Removes and returns the partials that are not made while it does not.
        """
        silent = {t for t, expected in self._known.items() if now - expected > KNOWN_S}
        # One whose jobs wait or run is not silent, however long it has said nothing.
        for tenant in silent - {job.tenant for job, _ in self._waiting.values()}:
            if not self._slots[tenant]:
                del self._known[tenant], self._slots[tenant]
        finals = (since for job, since in self._waiting.values() if job.priority is Priority.FINAL)
        self.load.poll(now - next(finals, now), now)
        if not self.load.overloaded:
            return []
        # Their finals will say all of it again.
        spared = [self._waiting[id][0] for id in self._turns[Priority.PARTIAL]]
        for job in spared:
            self._forget(job)
        return spared

    def actions(self) -> list[StartJob | StopJob]:
        """Return the next actions of the engine: stops, then as many starts as there are slots.

        With several engines one start at a time, so the caller asks until nothing is left.
        """
        self.due = False
        actions: list[StartJob | StopJob] = list(self._stops)
        self._stops.clear()
        while (id := self._next()) is not None:
            job, since = self._waiting.pop(id)
            self._count(job, -1)
            self._running[id] = (job, since)
            self._slots[job.tenant] += 1
            self.given[job.priority] += 1
            actions.append(StartJob(job))
            if self.slots is not None:  # which slot it takes is known once the engine has it
                break
        return actions

    def _next(self) -> str | None:
        free = self.capacity - len(self._running)
        if not self._waiting or (free <= 0 and self.slots is None):
            return None
        among = None
        # See `expect`: the last slot is for those who have the fewest.
        if free == 1 and len(self._slots) > 1:
            fewest = min(self._slots.values())
            among = {tenant for tenant, running in self._slots.items() if running == fewest}
        fits = None if self.slots is None else self._slot_check(self.slots)
        for turns in self._turns.values():
            if (id := turns.next(self._work, among, fits)) is not None:
                return id
        return None

    def _slot_check(self, slots: Slots) -> Callable[[str], bool]:
        """Return a function that tells whether there is a slot for a job now."""
        known: dict[Pair, bool] = {}

        def fits(id: str) -> bool:
            job = self._waiting[id][0]
            pair = (job.source, job.target)
            if pair not in known:
                # None, not even for what fails at once, while the engines start.
                known[pair] = self.capacity > 0 and slots.free(slots.lane(*pair)) > 0
            return known[pair]

        return fits

    def _work(self, id: str) -> int:
        return work(self._waiting[id][0])

    def _forget(self, job: Job) -> None:
        del self._waiting[job.id]
        self._count(job, -1)
        self._turns[job.priority].remove(job)


def _fit(queues: Sequence[_Queue], depth: int) -> bool:
    for queue in queues:
        if queue.queued + queue.jobs > depth + max(0, queue.free):
            return False
    return True
