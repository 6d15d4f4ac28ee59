"""The order of jobs, which the scheduler decides and its caller carries out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.core.scheduling.scheduler import Scheduler
from gateway.job import Job, Priority
from tests.support.meeting import NOW
from tests.support.typed import current


def job(id: str, room: str = "a", priority: Priority = Priority.FINAL) -> Job:
    return Job(id=id, room=room, text="hello", source="en", target="de", priority=priority)


def queue(scheduler: Scheduler, *jobs: Job, now: float = NOW) -> None:
    for each in jobs:
        scheduler.submit(each, now)


def started(scheduler: Scheduler) -> list[str]:
    return [action.id for action in scheduler.actions() if isinstance(action, Job)]


def test_jobs_start_while_there_are_free_slots() -> None:
    scheduler = Scheduler(capacity=2, depth=10)
    queue(scheduler, job("1"), job("2"), job("3"))
    assert started(scheduler) == ["1", "2"]
    assert scheduler.given[Priority.FINAL] == 2
    assert started(scheduler) == []
    assert scheduler.running == 2 and scheduler.queued == 1


def test_a_scheduler_tells_whether_it_may_have_actions() -> None:
    scheduler = Scheduler(capacity=1, depth=10)
    assert current(scheduler.due) is False
    queue(scheduler, job("1"))
    assert current(scheduler.due)
    assert started(scheduler) == ["1"] and current(scheduler.due) is False
    scheduler.abort("1")
    assert current(scheduler.due)
    assert scheduler.actions() == ["1"] and not scheduler.due
    assert scheduler.actions() == []


def test_a_job_that_ended_frees_its_slot() -> None:
    scheduler = Scheduler(capacity=1, depth=10)
    queue(scheduler, job("1"), job("2"))
    assert started(scheduler) == ["1"]
    scheduler.done("1")
    assert started(scheduler) == ["2"]


def test_finals_go_before_partials_and_partials_before_backfill() -> None:
    scheduler = Scheduler(capacity=1, depth=10)
    queue(
        scheduler,
        job("backfill", priority=Priority.BACKFILL),
        job("partial", priority=Priority.PARTIAL),
        job("final", priority=Priority.FINAL),
    )
    order = []
    while ids := started(scheduler):
        order += ids
        scheduler.done(ids[0])
    assert order == ["final", "partial", "backfill"]
    assert scheduler.given == dict.fromkeys(Priority, 1)


def test_rooms_take_turns_and_each_keeps_its_order() -> None:
    scheduler = Scheduler(capacity=10, depth=10)
    queue(scheduler, *(job(f"a{n}", "a") for n in range(3)), job("b0", "b"), job("c0", "c"))
    assert started(scheduler) == ["a0", "b0", "c0", "a1", "a2"]


def test_a_busy_room_does_not_start_over_at_the_front() -> None:
    scheduler = Scheduler(capacity=1, depth=10)
    queue(scheduler, job("a0", "a"), job("a1", "a"), job("b0", "b"))
    assert started(scheduler) == ["a0"]
    scheduler.done("a0")
    assert started(scheduler) == ["b0"]


def test_a_queued_job_that_is_aborted_never_starts() -> None:
    scheduler = Scheduler(capacity=1, depth=10)
    queue(scheduler, job("1"), job("2"), job("3", "b"))
    assert scheduler.abort("2") == "queued"
    assert scheduler.abort("3") == "queued"
    assert scheduler.actions() == [job("1")]
    assert scheduler.queued == 0


def test_an_aborted_running_job_is_stopped_and_holds_its_slot_until_it_has_ended() -> None:
    scheduler = Scheduler(capacity=1, depth=10)
    queue(scheduler, job("1"), job("2"))
    scheduler.actions()
    assert scheduler.abort("1") == "running"
    assert scheduler.actions() == ["1"]
    scheduler.done("1")
    assert scheduler.actions() == [job("2")]


def test_stops_come_before_starts() -> None:
    scheduler = Scheduler(capacity=2, depth=10)
    queue(scheduler, job("1"))
    scheduler.actions()
    scheduler.abort("1")
    queue(scheduler, job("2"))
    assert scheduler.actions() == ["1", job("2")]


def test_a_job_that_ended_by_itself_is_not_stopped() -> None:
    scheduler = Scheduler(capacity=2, depth=10)
    queue(scheduler, job("1"), job("2"))
    scheduler.actions()
    scheduler.abort("1")
    scheduler.abort("2")
    scheduler.done("1")
    assert scheduler.actions() == ["2"]


def test_a_job_that_neither_waits_nor_runs_cannot_be_aborted() -> None:
    scheduler = Scheduler(capacity=1, depth=10)
    assert scheduler.abort("1") is None
    queue(scheduler, job("1"))
    scheduler.actions()
    scheduler.done("1")
    assert scheduler.abort("1") is None
    assert scheduler.actions() == []


def test_an_end_that_is_told_twice_frees_one_slot() -> None:
    scheduler = Scheduler(capacity=1, depth=10)
    queue(scheduler, job("1"), job("2"), job("3"))
    scheduler.actions()
    scheduler.done("1")
    scheduler.done("1")
    assert started(scheduler) == ["2"]


def test_the_queue_and_the_free_slots_bound_the_jobs_that_are_admitted() -> None:
    scheduler = Scheduler(capacity=2, depth=3)
    assert scheduler.admits(5)
    assert not scheduler.admits(6)
    queue(scheduler, job("1"), job("2"), job("3"))
    scheduler.actions()
    assert scheduler.admits(2)
    assert not scheduler.admits(3)


def test_backfill_leaves_half_of_the_queue_free() -> None:
    scheduler = Scheduler(capacity=1, depth=4)
    assert scheduler.admits(3, Priority.BACKFILL)
    assert not scheduler.admits(4, Priority.BACKFILL)
    queue(scheduler, *(job(f"{n}", priority=Priority.BACKFILL) for n in range(3)))
    scheduler.actions()
    assert not scheduler.admits(1, Priority.BACKFILL)
    assert scheduler.admits(2)


def test_a_job_that_waits_can_be_given_another_text_and_keeps_its_place() -> None:
    scheduler = Scheduler(capacity=1, depth=10)
    queue(scheduler, job("1"), job("2"), now=NOW)
    assert scheduler.waits("1")
    scheduler.update(replace(job("1"), text="more"))
    assert scheduler.actions() == [replace(job("1"), text="more")]
    assert not scheduler.waits("1")
    scheduler.update(replace(job("2"), text="more"))
    assert [late.text for late in scheduler.overdue(NOW + 11, 10)] == ["more"]


@pytest.mark.parametrize("other", [job("1", "b"), job("1", priority=Priority.PARTIAL)])
def test_a_job_of_another_room_or_priority_is_no_newer_text(other: Job) -> None:
    scheduler = Scheduler(capacity=1, depth=10)
    queue(scheduler, job("1"))
    with pytest.raises(AssertionError):
        scheduler.update(other)


def test_an_engine_that_shrank_starts_nothing_until_it_has_room_again() -> None:
    scheduler = Scheduler(capacity=2, depth=3)
    queue(scheduler, job("1"), job("2"), job("3"))
    scheduler.actions()
    scheduler.capacity = 1
    scheduler.done("1")
    assert scheduler.actions() == []
    assert scheduler.admits(2)
    scheduler.done("2")
    assert started(scheduler) == ["3"]


def test_jobs_that_waited_too_long_leave_the_queue() -> None:
    scheduler = Scheduler(capacity=1, depth=10)
    queue(scheduler, job("1"), job("2", "b"), now=NOW)
    queue(scheduler, job("3"), now=NOW + 5)
    assert scheduler.overdue(NOW + 10, 10) == []
    assert [late.id for late in scheduler.overdue(NOW + 11, 10)] == ["1", "2"]
    assert started(scheduler) == ["3"]


def test_no_two_jobs_have_the_same_id_though_their_rooms_have_the_same_name() -> None:
    scheduler = Scheduler(capacity=1, depth=10)
    assert [scheduler.new_id(room) for room in ("a", "b", "a")] == ["a.1", "b.2", "a.3"]


def test_tenants_take_turns_and_the_rooms_of_each_among_themselves() -> None:
    scheduler = Scheduler(capacity=10, depth=20)
    many = [replace(job(f"{room}{n}", room), tenant="many") for room in "ab" for n in range(2)]
    queue(scheduler, *many, *(replace(job(f"o{n}", "o"), tenant="one") for n in range(3)))
    assert started(scheduler) == ["a0", "o0", "b0", "o1", "a1", "o2", "b1"]


def test_a_job_taken_back_leaves_the_turns_of_the_others_as_they_were() -> None:
    scheduler = Scheduler(capacity=10, depth=20)
    queue(scheduler, *(replace(job(f"{t}{n}", t), tenant=t) for t in "ab" for n in range(2)))
    assert scheduler.finals == 4
    scheduler.abort("a0")
    assert scheduler.finals == 3
    scheduler.abort("b0")
    scheduler.abort("b1")
    assert scheduler.finals == 1
    assert started(scheduler) == ["a1"]
    assert scheduler.finals == 0


def make(scheduler: Scheduler, seconds: float) -> None:
    """Let the engine make one final that did not wait, until `NOW`."""
    queue(scheduler, job("made"), now=NOW - seconds)
    scheduler.actions()
    scheduler.begun("made", NOW - seconds)
    scheduler.made("made", NOW)
    scheduler.done("made")


def overloaded(scheduler: Scheduler) -> None:
    """Overload an engine with the finals of two rooms."""
    assert scheduler.admit("a", "", 1, NOW) == scheduler.admit("b", "", 1, NOW) == 0
    for now in (NOW, NOW + 5):
        queue(scheduler, job(f"f{now}", "b"), now=now - 4)
        scheduler.actions()
        scheduler.begun(f"f{now}", now - 1)
        scheduler.made(f"f{now}", now)
        scheduler.done(f"f{now}")
        scheduler.poll(now)
    assert scheduler.load.overloaded


def test_an_engine_that_does_not_keep_up_is_given_finals_alone() -> None:
    scheduler = Scheduler(capacity=1, depth=20)
    queue(scheduler, job("partial 1", "a", Priority.PARTIAL), job("final"))
    assert scheduler.admits(1, Priority.PARTIAL)
    assert scheduler.poll(NOW) == []
    assert started(scheduler) == ["final"]
    scheduler.done("final")
    (partial,) = started(scheduler)
    scheduler.begun(partial, NOW)
    scheduler.made("partial 1", NOW)
    scheduler.done("partial 1")
    overloaded(scheduler)
    queue(scheduler, job("partial 2", "a", Priority.PARTIAL), job("rest", "a", Priority.BACKFILL))
    assert not scheduler.admits(1, Priority.PARTIAL)
    assert not scheduler.admits(1, Priority.BACKFILL)
    assert scheduler.admits(1)
    assert [spared.id for spared in scheduler.poll(NOW + 5)] == ["partial 2"]
    assert started(scheduler) == ["rest"]


def test_something_new_is_refused_where_the_queue_or_the_engine_is_full() -> None:
    scheduler = Scheduler(capacity=1, depth=2)
    assert scheduler.admit("a", "", 4, NOW) == 1.0
    overloaded(scheduler)
    assert scheduler.admit("a", "", 1, NOW + 6) == 0
    assert scheduler.admit("new", "", 1, NOW + 6) > 0


def test_an_utterance_over_a_full_queue_is_told_how_long_half_of_the_queue_takes() -> None:
    scheduler = Scheduler(capacity=1, depth=2)
    make(scheduler, 8.0)
    queue(scheduler, job("1"), job("2"))
    assert scheduler.admit("a", "", 4, NOW) == pytest.approx(8.0)


def test_the_engine_can_be_judged_after_the_queue_was_full() -> None:
    scheduler = Scheduler(capacity=1, depth=2)
    overloaded(scheduler)
    assert scheduler.admit("a", "", 9, NOW + 6) > 0
    scheduler.poll(NOW + 7)
    assert scheduler.load.overloaded


def test_a_new_tenant_is_given_a_place_of_the_one_with_most() -> None:
    scheduler = Scheduler(capacity=1, depth=20)
    for room in ("c", "d", "e"):
        assert scheduler.admit(room, "many", 1, NOW) == 0
    overloaded(scheduler)
    assert scheduler.admit("new", "one", 1, NOW + 6) == 0
    assert scheduler.admit("f", "many", 1, NOW + 6) > 0


@pytest.mark.parametrize(
    ("capacity", "running", "alone"),
    [(1, 1, True), (8, 1, True), (8, 2, False), (16, 2, True), (16, 3, False)],
)
def test_a_final_is_made_without_load_if_an_eighth_of_the_slots_is_in_use(
    capacity: int, running: int, alone: bool
) -> None:
    scheduler = Scheduler(capacity=capacity, depth=20)
    make(scheduler, 1.0)
    before = scheduler.load.alone
    queue(scheduler, *(job(f"{n}") for n in range(running)))
    scheduler.actions()
    scheduler.begun("0", NOW)
    scheduler.made("0", NOW + 9)
    assert (scheduler.load.alone > before) is alone


def test_only_finals_count_as_asked_for() -> None:
    scheduler = Scheduler(capacity=1, depth=20)
    for priority in Priority:
        queue(scheduler, job(priority.name, priority=priority))
    assert scheduler.load.asked == 1


def test_finals_that_begin_at_once_are_no_overload_and_neither_is_an_idle_engine() -> None:
    scheduler = Scheduler(capacity=1, depth=20)
    scheduler.admit("a", "", 1, NOW)
    scheduler.admit("b", "", 1, NOW)
    make(scheduler, 1.0)
    scheduler.poll(NOW)
    scheduler.poll(NOW + 5)
    assert not scheduler.load.overloaded


@pytest.mark.parametrize(
    ("priority", "late"),
    [(Priority.FINAL, True), (Priority.PARTIAL, False), (Priority.BACKFILL, False)],
)
def test_a_final_that_waits_long_is_an_overload_and_other_jobs_may_wait(
    priority: Priority, late: bool
) -> None:
    scheduler = Scheduler(capacity=1, depth=20)
    scheduler.admit("a", "", 1, NOW)
    scheduler.admit("b", "", 1, NOW)
    make(scheduler, 1.0)
    scheduler.poll(NOW)
    queue(scheduler, job("running"), job("waiting", priority=priority))
    scheduler.actions()
    scheduler.poll(NOW + 9)
    assert scheduler.load.overloaded is late


def test_a_room_that_fills_the_queue_keeps_nobody_out_who_has_a_seat_and_says_less() -> None:
    scheduler = Scheduler(capacity=1, depth=20)
    overloaded(scheduler)
    now = NOW + 6
    queue(scheduler, *(job(f"b{n}", "b") for n in range(3)), now=now)
    assert scheduler.admit("b", "", 1, now) > 0  # the room has more than its share
    assert scheduler.admit("a", "", 3, now) > 0  # the room would have as much
    assert scheduler.admit("a", "", 2, now) == 0
    queue(scheduler, *(job(f"a{n}", "a") for n in range(2)), now=now)
    assert scheduler.admit("a", "", 1, now) > 0
    assert scheduler.admit("late", "", 1, now) > 0  # the room has no slot


def test_a_job_that_was_stopped_is_not_counted_as_made() -> None:
    scheduler = Scheduler(capacity=1, depth=2)
    queue(scheduler, job("1"))
    scheduler.actions()
    scheduler.begun("1", NOW)
    scheduler.done("1")
    scheduler.made("1", NOW + 1)
    assert scheduler.load.alone == 0
    assert not scheduler.load._running
