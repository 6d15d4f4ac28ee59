"""The order in which jobs run.

Owns: the queue of jobs, the set of running ones, and the only place where either changes. Must not
know: engines, rooms' insides. The hub carries out what `Scheduler.actions` returns.

Finals go before partials before backfill. Within one priority the tenants share the engine by work,
then the rooms of a tenant, and each room's jobs keep their order. Beyond ``depth`` waiting jobs, or
fewer under overload (`gateway.core.scheduling.overload`), an utterance is answered by ``busy``
before anything of it is accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Literal, NamedTuple, Protocol

from gateway.core.scheduling.overload import BYTES, OverloadMonitor
from gateway.core.scheduling.turns import JobTurns
from gateway.job import Job, Priority


class OneEngine(Protocol):
    """One of several engines behind a scheduler."""

    @property
    def capacity(self) -> int:
        """Number of jobs that it takes at once."""

    @property
    def free(self) -> int:
        """Number of jobs that it takes without making others wait."""


Lane = tuple[OneEngine, ...]
"""Engines to which jobs of a language pair can go now. Jobs of one lane wait for the same slots. It
is empty while no engine can translate the pair."""

Lanes = Callable[[str, str], Lane]
"""A function that returns the lane of a source and a target language."""

Pair = tuple[str, str]
"""Source and target language of a job."""

KNOWN_S = 300.0
"""Seconds after a tenant's last job or new socket for which a slot is kept free for it: longer than
the usual pause of a meeting, and shorter than a forgotten page stays open."""


def work(job: Job) -> int:
    """Estimate the time that a job takes in the engine, in bytes of UTF-8.

    A translation has about as many bytes as its source, and bytes compare over scripts: a token has
    four in English and three in Chinese. The forced ``prefix`` is not made again.
    """
    size = len(job.text.encode())
    return job.steps * (BYTES + size) - min(size, len(job.prefix.encode()))


Stage = Literal["queued", "running"]
"""Stage of a job at which it was aborted."""

Action = Job | str
"""A job that the engine is to be given, or the id of one that it is to abort."""


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
    :param lanes: tells the engines of a language pair; None: there is one engine
    """

    def __init__(
        self,
        *,
        capacity: int,
        depth: int,
        load: OverloadMonitor | None = None,
        lanes: Lanes | None = None,
    ) -> None:
        self.capacity = capacity
        self.depth = depth
        self.lanes = lanes
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
        self._stops: list[str] = []  # ids of running jobs
        self._known: dict[str, float] = {}  # when each tenant was expected last
        self._slots: dict[str, int] = {}  # running jobs of each known tenant
        self._named = 0
        self._waiting_by_pair: Counter[Pair] = Counter()  # with several engines only
        self._finals_by_pair: Counter[Pair] = Counter()

    @property
    def queued(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    def new_id(self, room: str) -> str:
        """Return an id that no job of the process has or had, also none of a room of this name."""
        self._named += 1
        return f"{room}.{self._named}"

    def queue_of(self, engine: object) -> int:
        """Return the number of jobs that wait for an engine."""
        return self._of_lane(self._waiting_by_pair, (engine,))

    def admits(
        self, jobs: int, priority: Priority = Priority.FINAL, pairs: Sequence[Pair] = ()
    ) -> bool:
        """Tell whether ``jobs`` more may be submitted: under overload finals only.

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
        """Return 0 if a new utterance of ``jobs`` jobs is admitted, else seconds to wait."""
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
        if self.lanes is None or not pairs:
            free = self.capacity - len(self._running)
            return [_Queue(jobs, len(self._waiting), self.finals, self.capacity, free)]
        lanes = Counter(self.lanes(*pair) for pair in pairs)
        return [
            _Queue(
                min(count, jobs),
                self._of_lane(self._waiting_by_pair, lane),
                self._of_lane(self._finals_by_pair, lane),
                sum(engine.capacity for engine in lane),
                _free(lane),
            )
            for lane, count in lanes.items()
        ]

    def _of_lane(self, counts: Counter[Pair], lane: Collection[object]) -> int:
        """Return the sum of the counts of the pairs that could go to one of these engines."""
        if self.lanes is None:
            return self.queued
        engines, lane_of = {*lane}, self.lanes
        return sum(n for pair, n in counts.items() if not engines.isdisjoint(lane_of(*pair)))

    def _count(self, job: Job, change: int) -> None:
        if job.priority is Priority.FINAL:
            self.finals += change
        if self.lanes is not None:
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
        running jobs, so that none waits for a long job of another. A tenant that is alone uses all
        slots; an engine with one slot keeps none free.
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

    def abort(self, job_id: str) -> Stage | None:
        """Take a job back. Returns its stage, or None if it neither waits nor runs."""
        if job_id in self._waiting:
            # The engine has not seen it, so nothing has to be stopped there.
            self._forget(self._waiting[job_id][0])
            return "queued"
        if job_id in self._running:
            self.due = True
            self._stops.append(job_id)
            return "running"
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
            self._stops = [id for id in self._stops if id != job_id]

    def overdue(self, now: float, patience: float) -> list[Job]:
        """Remove and return the jobs that have waited longer than ``patience`` seconds."""
        late = [job for job, since in self._waiting.values() if now - since > patience]
        for job in late:
            self._forget(job)
        return late

    def poll(self, now: float) -> list[Job]:
        """Decide anew whether the engine keeps up, and which tenants are still expected. Remove and
        return the partials that are not made while it does not.
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

    def actions(self) -> list[Action]:
        """Return the next actions of the engine: stops, then as many starts as there are slots,
        with several engines one at a time. So the caller asks until nothing is left.
        """
        self.due = False
        actions: list[Action] = [*self._stops]
        self._stops.clear()
        while (id := self._next()) is not None:
            job, since = self._waiting.pop(id)
            self._count(job, -1)
            self._running[id] = (job, since)
            self._slots[job.tenant] += 1
            self.given[job.priority] += 1
            actions.append(job)
            if self.lanes is not None:  # which slot it takes is known once the engine has it
                break
        return actions

    def _next(self) -> str | None:
        free = self.capacity - len(self._running)
        if not self._waiting or (free <= 0 and self.lanes is None):
            return None
        among = None
        # See `expect`: the last slot is for those who have the fewest.
        if free == 1 and len(self._slots) > 1:
            fewest = min(self._slots.values())
            among = {tenant for tenant, running in self._slots.items() if running == fewest}
        fits = None if self.lanes is None else self._slot_check(self.lanes)
        for turns in self._turns.values():
            if (id := turns.next(self._work, among, fits)) is not None:
                return id
        return None

    def _slot_check(self, lanes: Lanes) -> Callable[[str], bool]:
        """Return a function that tells whether there is a slot for a job now."""

        @cache
        def free(source: str, target: str) -> bool:
            # None, not even for what fails at once, while the engines start.
            return self.capacity > 0 and _free(lanes(source, target)) > 0

        def fits(id: str) -> bool:
            job = self._waiting[id][0]
            return free(job.source, job.target)

        return fits

    def _work(self, id: str) -> int:
        return work(self._waiting[id][0])

    def _forget(self, job: Job) -> None:
        del self._waiting[job.id]
        self._count(job, -1)
        self._turns[job.priority].remove(job)


def _free(lane: Lane) -> int:
    """Return how many more jobs the engines of a lane take now."""
    # Jobs that no engine can translate are always taken, because they fail at once.
    return sum(engine.free for engine in lane) if lane else 1


def _fit(queues: Sequence[_Queue], depth: int) -> bool:
    for queue in queues:
        if queue.queued + queue.jobs > depth + max(0, queue.free):
            return False
    return True
