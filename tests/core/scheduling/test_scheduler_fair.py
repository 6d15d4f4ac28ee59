"""Tenants and rooms share the engine by work: no one starves, and no one has to wait for another's
long jobs. The engine here works one byte a second in each of its slots.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.scheduling.overload import BYTES
from gateway.core.scheduling.scheduler import KNOWN_S, Scheduler, work
from gateway.job import Job, Priority
from tests.support.meeting import NOW

TEXTS = ("Yes.", "Good morning, everybody. " * 3, "word " * 200, "会議を始めます。", "会議" * 100)
"""Work of jobs from a word to 200 tokens."""
LARGEST = BYTES + max(len(text.encode()) for text in TEXTS)


def job(
    id: str, text: str, *, tenant: str = "a", room: str = "", priority: Priority = Priority.FINAL
) -> Job:
    return Job(
        id=id,
        text=text,
        source="en",
        target="de",
        tenant=tenant,
        room=room or tenant,
        priority=priority,
    )


class Engine:
    """A scheduler and its engine in virtual time."""

    def __init__(self, capacity: int) -> None:
        self.scheduler = Scheduler(capacity=capacity, depth=10_000)
        self.now = 0.0
        self.begun: dict[str, float] = {}
        """Time at which each job began."""
        self.asked: dict[str, float] = {}
        self._running: dict[str, tuple[Job, float]] = {}
        self._ends: list[tuple[float, str]] = []
        self._made: dict[str, float] = defaultdict(float)

    def submit(self, job: Job) -> None:
        self.asked[job.id] = self.now
        self.scheduler.submit(job, self.now)
        self.act()

    def act(self) -> None:
        for action in self.scheduler.actions():
            assert isinstance(action, Job)
            self.begun[action.id] = self.now
            self._running[action.id] = (action, self.now)
            heapq.heappush(self._ends, (self.now + work(action), action.id))

    def end(self) -> str:
        """Let time pass until a job ends, and return its tenant."""
        self.now, id = heapq.heappop(self._ends)
        job, _ = self._running.pop(id)
        self._made[job.tenant] += work(job)
        self.scheduler.done(id)
        self.act()
        return job.tenant

    def run_until(self, when: float) -> None:
        while self._ends and self._ends[0][0] <= when:
            self.end()
        self.now = max(self.now, when)

    def made(self, tenant: str) -> float:
        """Return the work done for a tenant, with that of its running jobs."""
        running = [begun for job, begun in self._running.values() if job.tenant == tenant]
        return self._made[tenant] + sum(self.now - begun for begun in running)

    @property
    def busy(self) -> bool:
        return bool(self._running)


def test_work_is_counted_in_bytes_without_the_prefix_so_that_scripts_compare() -> None:
    assert work(job("1", "abcd")) == BYTES + 4
    assert work(job("1", "会議")) == BYTES + 6
    grown = Job(id="1", text="one two three", source="en", target="de", prefix="eins zwei ")
    assert work(grown) == BYTES + 3
    longer = Job(id="1", text="one", source="en", target="de", prefix="eins zwei")
    assert work(longer) == BYTES


def order(capacity: int, *jobs: Job) -> list[str]:
    """Return the ids of jobs in the order in which they start."""
    engine = Engine(capacity)
    for one in jobs:
        engine.scheduler.submit(one, 0.0)
    engine.act()
    while engine.busy:
        engine.end()
    return sorted(engine.begun, key=lambda id: (engine.begun[id], list(engine.begun).index(id)))


@pytest.mark.parametrize("by", ["tenant", "room"])
def test_turns_count_work_and_not_jobs(by: str) -> None:
    names: list[dict[str, Any]] = [{by: "long"}, {by: "short"}]
    long = [job(f"a{n}", "x" * 360, **names[0]) for n in range(2)]
    short = [job(f"b{n}", "x" * 60, **names[1]) for n in range(6)]
    assert order(1, *long, *short) == ["a0", "b0", "b1", "b2", "b3", "a1", "b4", "b5"]


def test_a_tenant_that_was_idle_for_a_moment_is_still_ahead_by_its_work() -> None:
    engine = Engine(1)
    engine.submit(job("a0", "x" * 960))
    for n in range(12):
        engine.submit(job(f"b{n}", "x" * 60, tenant="b"))
    engine.submit(job("a1", "x" * 960))
    engine.end()  # a0 ends; b0 begins, since it came before a1
    while "a1" not in engine.begun:
        engine.end()
    for n in (2, 3):  # one after the other, so that nothing of the tenant waits in between
        engine.submit(job(f"a{n}", "x" * 960))
        while f"a{n}" not in engine.begun:
            engine.end()
    starts = sorted(engine.begun, key=engine.begun.__getitem__)
    assert starts.index("a2") - starts.index("a1") > 6


def test_a_tenant_that_was_idle_has_saved_up_no_turns() -> None:
    engine = Engine(1)
    for n in range(20):
        engine.submit(job(f"a{n}", "x" * 60))
    for _ in range(10):
        engine.end()
    for n in range(6):
        engine.submit(job(f"b{n}", "x" * 60, tenant="b"))
    for _ in range(6):
        engine.end()
    assert sum(id.startswith("b") for id in engine.begun) in (3, 4)


jobs = st.tuples(
    st.sampled_from("abcd"),
    st.sampled_from("xyz"),
    st.sampled_from(Priority),
    st.sampled_from(TEXTS),
    st.floats(0, 300),
)


@given(capacity=st.integers(1, 6), waiting=st.lists(jobs, max_size=60))
def test_every_job_starts_and_the_engine_rests_only_where_a_slot_is_kept_free(
    capacity: int, waiting: list[tuple[str, str, Priority, str, float]]
) -> None:
    engine = Engine(capacity)
    for n, (tenant, room, priority, text, pause) in enumerate(waiting):
        engine.run_until(engine.now + pause)
        engine.submit(job(str(n), text, tenant=tenant, room=tenant + room, priority=priority))
        if engine.scheduler.queued:
            kept = capacity > 1 and len({tenant for tenant, *_ in waiting[: n + 1]}) > 1
            assert engine.scheduler.running >= capacity - kept
    while engine.busy:
        engine.end()
    assert len(engine.begun) == len(waiting)
    assert not engine.scheduler.queued


@given(
    capacity=st.integers(1, 8),
    long=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4),
    short=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4),
    others=st.lists(st.sampled_from(TEXTS), max_size=60),
    alone=st.integers(0, 30),
)
def test_work_for_two_waiting_tenants_differs_by_a_largest_job_for_each_slot_and_one(
    capacity: int, long: list[str], short: list[str], others: list[str], alone: int
) -> None:
    engine = Engine(capacity)
    asked: dict[str, int] = defaultdict(int)

    def keep(tenant: str, texts: list[str]) -> None:
        """Let a tenant always have a job waiting."""
        while sum(id.startswith(tenant) for id in engine.begun) > asked[tenant] - 3:
            engine.submit(
                job(f"{tenant}{asked[tenant]}", texts[asked[tenant] % len(texts)], tenant=tenant)
            )
            asked[tenant] += 1

    for _ in range(alone):  # before the other tenant comes
        keep("a", long)
        engine.end()
    ahead = []
    for n in range(60):
        keep("a", long)
        keep("b", short)
        if n < len(others):
            engine.submit(job(f"c{n}", others[n], tenant=f"c{n % 2}"))
        ahead.append(engine.made("a") - engine.made("b"))
        engine.end()
    assert max(ahead) - min(ahead) <= (capacity + 1) * LARGEST


@given(
    capacity=st.integers(2, 16),
    flood=st.lists(st.tuples(st.sampled_from(TEXTS), st.floats(0, 100)), max_size=100),
    every=st.integers(1, 40),
    priority=st.sampled_from((Priority.FINAL, Priority.PARTIAL)),
)
def test_a_tenant_that_has_nothing_running_need_not_wait_for_the_flood_of_another(
    capacity: int, flood: list[tuple[str, float]], every: int, priority: Priority
) -> None:
    engine = Engine(capacity)
    engine.scheduler.expect("b", 0.0)
    for n, (text, pause) in enumerate(flood):
        engine.run_until(engine.now + pause)
        for part in range(capacity):
            engine.submit(job(f"a{n}-{part}", text, priority=priority))
        if n % every == 0 and not any(id.startswith("b") for id in engine._running):
            engine.submit(job(f"b{n}", text, tenant="b"))
            assert engine.begun[f"b{n}"] == engine.asked[f"b{n}"]


def flooded(capacity: int, prepare: Callable[[Scheduler], None] = lambda _: None) -> Engine:
    engine = Engine(capacity)
    prepare(engine.scheduler)
    for n in range(2 * capacity):
        engine.submit(job(f"a{n}", "x" * 100))
    return engine


@pytest.mark.parametrize("capacity", [1, 2, 16])
def test_a_tenant_that_is_alone_uses_all_slots(capacity: int) -> None:
    assert flooded(capacity).scheduler.running == capacity


@pytest.mark.parametrize(("capacity", "used"), [(1, 1), (2, 1), (16, 15)])
def test_a_slot_stays_free_for_an_expected_tenant(capacity: int, used: int) -> None:
    engine = flooded(capacity, lambda scheduler: scheduler.expect("b", 0.0))
    assert engine.scheduler.running == used


def test_a_tenant_with_fewer_running_jobs_gets_the_last_slot_before_an_earlier_one() -> None:
    engine = flooded(4, lambda scheduler: scheduler.expect("b", 0.0))
    engine.submit(job("b0", "x" * 400, tenant="b"))
    engine.submit(job("b1", "x", tenant="b"))
    assert "b1" not in engine.begun  # no slot is free
    engine.end()
    assert "b1" in engine.begun and engine.scheduler.running == 4


def test_no_slot_is_kept_for_a_tenant_that_has_been_silent_for_long() -> None:
    engine = flooded(2, lambda scheduler: scheduler.expect("b", NOW))
    engine.scheduler.poll(NOW + KNOWN_S)
    engine.act()
    assert engine.scheduler.running == 1
    engine.scheduler.poll(NOW + KNOWN_S + 1)
    engine.act()
    assert engine.scheduler.running == 2
    for _ in range(2):
        engine.end()
    assert (engine.scheduler.running, engine.scheduler.queued) == (2, 0)
    engine.scheduler.poll(NOW + 2 * KNOWN_S)  # a tenant with running jobs is not forgotten
    while engine.busy:
        engine.end()


def test_a_tenant_whose_job_waits_is_not_forgotten() -> None:
    scheduler = Scheduler(capacity=0, depth=10)
    for tenant in "ab":
        scheduler.submit(job(tenant, "x", tenant=tenant), NOW)
    scheduler.poll(NOW + KNOWN_S + 1)
    scheduler.capacity = 1
    assert len(scheduler.actions()) == 1
    scheduler.done("a")
    assert len(scheduler.actions()) == 1


def test_the_slot_kept_for_a_tenant_is_its_own_though_the_engine_does_not_keep_up() -> None:
    engine = flooded(4, lambda scheduler: scheduler.expect("b", NOW))
    scheduler = engine.scheduler
    scheduler.admit("a", "a", 1, NOW)
    scheduler.load.overloaded = True
    assert scheduler.admit("c", "a", 1, NOW) > 0  # another room of the flooding tenant
    assert scheduler.admit("b", "b", 1, NOW) == 0
    engine.submit(job("b0", "x" * 400, tenant="b"))
    assert "b0" in engine.begun
    assert scheduler.admit("b2", "b", 1, NOW) > 0  # its slot is taken
