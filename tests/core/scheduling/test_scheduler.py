"""The order of jobs, which the scheduler decides and its caller carries out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.core.scheduling.scheduler import JobStage, Scheduler, StartJob, StopJob
from gateway.job import Job, Priority
from tests.support.meeting import NOW
from tests.support.typed import current


def job(id: str, room: str = "a", priority: Priority = Priority.FINAL) -> Job:
    return Job(id=id, room=room, text="hello", source="en", target="de", priority=priority)


def queue(dispatch: Scheduler, *jobs: Job, now: float = NOW) -> None:
    for each in jobs:
        dispatch.submit(each, now)


def started(dispatch: Scheduler) -> list[str]:
    return [action.job.id for action in dispatch.actions() if isinstance(action, StartJob)]


def test_jobs_start_while_there_are_free_slots() -> None:
    dispatch = Scheduler(capacity=2, depth=10)
    queue(dispatch, job("1"), job("2"), job("3"))
    assert started(dispatch) == ["1", "2"]
    assert dispatch.given[Priority.FINAL] == 2
    assert started(dispatch) == []
    assert repr(dispatch) == "<Scheduler 2/2 running, 1 queued>"


def test_a_scheduler_tells_whether_it_may_have_actions() -> None:
    dispatch = Scheduler(capacity=1, depth=10)
    assert current(dispatch.due) is False
    queue(dispatch, job("1"))
    assert current(dispatch.due)
    assert started(dispatch) == ["1"] and current(dispatch.due) is False
    dispatch.abort("1")
    assert current(dispatch.due)
    assert dispatch.actions() == [StopJob("1")] and not dispatch.due
    assert dispatch.actions() == []


def test_a_job_that_ended_frees_its_slot() -> None:
    dispatch = Scheduler(capacity=1, depth=10)
    queue(dispatch, job("1"), job("2"))
    assert started(dispatch) == ["1"]
    dispatch.done("1")
    assert started(dispatch) == ["2"]


def test_finals_go_before_partials_and_partials_before_backfill() -> None:
    dispatch = Scheduler(capacity=1, depth=10)
    queue(
        dispatch,
        job("backfill", priority=Priority.BACKFILL),
        job("partial", priority=Priority.PARTIAL),
        job("final", priority=Priority.FINAL),
    )
    order = []
    while ids := started(dispatch):
        order += ids
        dispatch.done(ids[0])
    assert order == ["final", "partial", "backfill"]
    assert dispatch.given == dict.fromkeys(Priority, 1)


def test_rooms_take_turns_and_each_keeps_its_order() -> None:
    dispatch = Scheduler(capacity=10, depth=10)
    queue(dispatch, *(job(f"a{n}", "a") for n in range(3)), job("b0", "b"), job("c0", "c"))
    assert started(dispatch) == ["a0", "b0", "c0", "a1", "a2"]


def test_a_busy_room_does_not_start_over_at_the_front() -> None:
    dispatch = Scheduler(capacity=1, depth=10)
    queue(dispatch, job("a0", "a"), job("a1", "a"), job("b0", "b"))
    assert started(dispatch) == ["a0"]
    dispatch.done("a0")
    assert started(dispatch) == ["b0"]


def test_a_queued_job_that_is_aborted_never_starts() -> None:
    dispatch = Scheduler(capacity=1, depth=10)
    queue(dispatch, job("1"), job("2"), job("3", "b"))
    assert dispatch.abort("2") is JobStage.QUEUED
    assert dispatch.abort("3") is JobStage.QUEUED
    assert dispatch.actions() == [StartJob(job("1"))]
    assert dispatch.queued == 0


def test_a_running_job_that_is_aborted_is_stopped_and_holds_its_slot_until_it_has_ended() -> None:
    dispatch = Scheduler(capacity=1, depth=10)
    queue(dispatch, job("1"), job("2"))
    dispatch.actions()
    assert dispatch.abort("1") is JobStage.RUNNING
    assert dispatch.actions() == [StopJob("1")]
    dispatch.done("1")
    assert dispatch.actions() == [StartJob(job("2"))]


def test_stops_come_before_starts() -> None:
    dispatch = Scheduler(capacity=2, depth=10)
    queue(dispatch, job("1"))
    dispatch.actions()
    dispatch.abort("1")
    queue(dispatch, job("2"))
    assert dispatch.actions() == [StopJob("1"), StartJob(job("2"))]


def test_a_job_that_ended_by_itself_is_not_stopped() -> None:
    dispatch = Scheduler(capacity=2, depth=10)
    queue(dispatch, job("1"), job("2"))
    dispatch.actions()
    dispatch.abort("1")
    dispatch.abort("2")
    dispatch.done("1")
    assert dispatch.actions() == [StopJob("2")]


def test_a_job_that_neither_waits_nor_runs_cannot_be_aborted() -> None:
    dispatch = Scheduler(capacity=1, depth=10)
    assert dispatch.abort("1") is None
    queue(dispatch, job("1"))
    dispatch.actions()
    dispatch.done("1")
    assert dispatch.abort("1") is None
    assert dispatch.actions() == []


def test_an_end_that_is_told_twice_frees_one_slot() -> None:
    dispatch = Scheduler(capacity=1, depth=10)
    queue(dispatch, job("1"), job("2"), job("3"))
    dispatch.actions()
    dispatch.done("1")
    dispatch.done("1")
    assert started(dispatch) == ["2"]


def test_the_queue_and_the_free_slots_bound_the_jobs_that_are_admitted() -> None:
    dispatch = Scheduler(capacity=2, depth=3)
    assert dispatch.admits(5)
    assert not dispatch.admits(6)
    queue(dispatch, job("1"), job("2"), job("3"))
    dispatch.actions()
    assert dispatch.admits(2)
    assert not dispatch.admits(3)


def test_backfill_leaves_half_of_the_queue_free() -> None:
    dispatch = Scheduler(capacity=1, depth=4)
    assert dispatch.admits(3, Priority.BACKFILL)
    assert not dispatch.admits(4, Priority.BACKFILL)
    queue(dispatch, *(job(f"{n}", priority=Priority.BACKFILL) for n in range(3)))
    dispatch.actions()
    assert not dispatch.admits(1, Priority.BACKFILL)
    assert dispatch.admits(2)


def test_a_job_that_waits_can_be_given_another_text_and_keeps_its_place() -> None:
    dispatch = Scheduler(capacity=1, depth=10)
    queue(dispatch, job("1"), job("2"), now=NOW)
    assert dispatch.waits("1")
    dispatch.update(replace(job("1"), text="more"))
    assert dispatch.actions() == [StartJob(replace(job("1"), text="more"))]
    assert not dispatch.waits("1")
    dispatch.update(replace(job("2"), text="more"))
    assert [late.text for late in dispatch.overdue(NOW + 11, 10)] == ["more"]


@pytest.mark.parametrize("other", [job("1", "b"), job("1", priority=Priority.PARTIAL)])
def test_a_job_of_another_room_or_priority_is_no_newer_text(other: Job) -> None:
    dispatch = Scheduler(capacity=1, depth=10)
    queue(dispatch, job("1"))
    with pytest.raises(AssertionError):
        dispatch.update(other)


def test_an_engine_that_shrank_starts_nothing_until_it_has_room_again() -> None:
    dispatch = Scheduler(capacity=2, depth=3)
    queue(dispatch, job("1"), job("2"), job("3"))
    dispatch.actions()
    dispatch.capacity = 1
    dispatch.done("1")
    assert dispatch.actions() == []
    assert dispatch.admits(2)
    dispatch.done("2")
    assert started(dispatch) == ["3"]


def test_jobs_that_waited_too_long_leave_the_queue() -> None:
    dispatch = Scheduler(capacity=1, depth=10)
    queue(dispatch, job("1"), job("2", "b"), now=NOW)
    queue(dispatch, job("3"), now=NOW + 5)
    assert dispatch.overdue(NOW + 10, 10) == []
    assert [late.id for late in dispatch.overdue(NOW + 11, 10)] == ["1", "2"]
    assert started(dispatch) == ["3"]


def test_no_two_jobs_have_the_same_id_though_their_rooms_have_the_same_name() -> None:
    dispatch = Scheduler(capacity=1, depth=10)
    assert [dispatch.new_id(room) for room in ("a", "b", "a")] == ["a.1", "b.2", "a.3"]


def test_tenants_take_turns_and_the_rooms_of_each_among_themselves() -> None:
    dispatch = Scheduler(capacity=10, depth=20)
    many = [replace(job(f"{room}{n}", room), tenant="many") for room in "ab" for n in range(2)]
    queue(dispatch, *many, *(replace(job(f"o{n}", "o"), tenant="one") for n in range(3)))
    assert started(dispatch) == ["a0", "o0", "b0", "o1", "a1", "o2", "b1"]


def test_a_job_taken_back_leaves_the_turns_of_the_others_as_they_were() -> None:
    dispatch = Scheduler(capacity=10, depth=20)
    queue(dispatch, *(replace(job(f"{t}{n}", t), tenant=t) for t in "ab" for n in range(2)))
    assert dispatch.finals == 4
    dispatch.abort("a0")
    assert dispatch.finals == 3
    dispatch.abort("b0")
    dispatch.abort("b1")
    assert dispatch.finals == 1
    assert started(dispatch) == ["a1"]
    assert dispatch.finals == 0


def make(dispatch: Scheduler, seconds: float) -> None:
    """Let the engine make one final that did not wait, until `NOW`."""
    queue(dispatch, job("made"), now=NOW - seconds)
    dispatch.actions()
    dispatch.begun("made", NOW - seconds)
    dispatch.made("made", NOW)
    dispatch.done("made")


def overloaded(dispatch: Scheduler) -> None:
    """Overload an engine with the finals of two rooms."""
    assert dispatch.admit("a", "", 1, NOW) == dispatch.admit("b", "", 1, NOW) == 0
    for now in (NOW, NOW + 5):
        queue(dispatch, job(f"f{now}", "b"), now=now - 4)
        dispatch.actions()
        dispatch.begun(f"f{now}", now - 1)
        dispatch.made(f"f{now}", now)
        dispatch.done(f"f{now}")
        dispatch.poll(now)
    assert dispatch.load.overloaded


def test_an_engine_that_does_not_keep_up_is_given_finals_alone() -> None:
    dispatch = Scheduler(capacity=1, depth=20)
    queue(dispatch, job("partial 1", "a", Priority.PARTIAL), job("final"))
    assert dispatch.admits(1, Priority.PARTIAL)
    assert dispatch.poll(NOW) == []
    assert started(dispatch) == ["final"]
    dispatch.done("final")
    (partial,) = started(dispatch)
    dispatch.begun(partial, NOW)
    dispatch.made("partial 1", NOW)
    dispatch.done("partial 1")
    overloaded(dispatch)
    queue(dispatch, job("partial 2", "a", Priority.PARTIAL), job("rest", "a", Priority.BACKFILL))
    assert not dispatch.admits(1, Priority.PARTIAL)
    assert not dispatch.admits(1, Priority.BACKFILL)
    assert dispatch.admits(1)
    assert [spared.id for spared in dispatch.poll(NOW + 5)] == ["partial 2"]
    assert started(dispatch) == ["rest"]


def test_something_new_is_refused_where_the_queue_or_the_engine_is_full() -> None:
    dispatch = Scheduler(capacity=1, depth=2)
    assert dispatch.admit("a", "", 4, NOW) == 1.0
    overloaded(dispatch)
    assert dispatch.admit("a", "", 1, NOW + 6) == 0
    assert dispatch.admit("new", "", 1, NOW + 6) > 0


def test_an_utterance_over_a_full_queue_is_told_how_long_half_of_the_queue_takes() -> None:
    dispatch = Scheduler(capacity=1, depth=2)
    make(dispatch, 8.0)
    queue(dispatch, job("1"), job("2"))
    assert dispatch.admit("a", "", 4, NOW) == pytest.approx(8.0)


def test_the_engine_can_be_judged_after_the_queue_was_full() -> None:
    dispatch = Scheduler(capacity=1, depth=2)
    overloaded(dispatch)
    assert dispatch.admit("a", "", 9, NOW + 6) > 0
    dispatch.poll(NOW + 7)
    assert dispatch.load.overloaded


def test_a_new_tenant_is_given_a_place_of_the_one_with_most() -> None:
    dispatch = Scheduler(capacity=1, depth=20)
    for room in ("c", "d", "e"):
        assert dispatch.admit(room, "many", 1, NOW) == 0
    overloaded(dispatch)
    assert dispatch.admit("new", "one", 1, NOW + 6) == 0
    assert dispatch.admit("f", "many", 1, NOW + 6) > 0


@pytest.mark.parametrize(
    ("capacity", "running", "alone"),
    [(1, 1, True), (8, 1, True), (8, 2, False), (16, 2, True), (16, 3, False)],
)
def test_a_final_is_made_without_load_if_an_eighth_of_the_slots_is_in_use(
    capacity: int, running: int, alone: bool
) -> None:
    dispatch = Scheduler(capacity=capacity, depth=20)
    make(dispatch, 1.0)
    before = dispatch.load.alone
    queue(dispatch, *(job(f"{n}") for n in range(running)))
    dispatch.actions()
    dispatch.begun("0", NOW)
    dispatch.made("0", NOW + 9)
    assert (dispatch.load.alone > before) is alone


def test_only_finals_count_as_asked_for() -> None:
    dispatch = Scheduler(capacity=1, depth=20)
    for priority in Priority:
        queue(dispatch, job(priority.name, priority=priority))
    assert dispatch.load._asked == 1


def test_finals_that_begin_at_once_are_no_overload_and_neither_is_an_idle_engine() -> None:
    dispatch = Scheduler(capacity=1, depth=20)
    dispatch.admit("a", "", 1, NOW)
    dispatch.admit("b", "", 1, NOW)
    make(dispatch, 1.0)
    dispatch.poll(NOW)
    dispatch.poll(NOW + 5)
    assert not dispatch.load.overloaded


@pytest.mark.parametrize(
    ("priority", "late"),
    [(Priority.FINAL, True), (Priority.PARTIAL, False), (Priority.BACKFILL, False)],
)
def test_a_final_that_waits_long_is_an_overload_and_other_jobs_may_wait(
    priority: Priority, late: bool
) -> None:
    dispatch = Scheduler(capacity=1, depth=20)
    dispatch.admit("a", "", 1, NOW)
    dispatch.admit("b", "", 1, NOW)
    make(dispatch, 1.0)
    dispatch.poll(NOW)
    queue(dispatch, job("running"), job("waiting", priority=priority))
    dispatch.actions()
    dispatch.poll(NOW + 9)
    assert dispatch.load.overloaded is late


def test_a_room_that_fills_the_queue_keeps_nobody_out_who_has_a_seat_and_says_less() -> None:
    dispatch = Scheduler(capacity=1, depth=20)
    overloaded(dispatch)
    now = NOW + 6
    queue(dispatch, *(job(f"b{n}", "b") for n in range(3)), now=now)
    assert dispatch.admit("b", "", 1, now) > 0  # the room has more than its share
    assert dispatch.admit("a", "", 3, now) > 0  # the room would have as much
    assert dispatch.admit("a", "", 2, now) == 0
    queue(dispatch, *(job(f"a{n}", "a") for n in range(2)), now=now)
    assert dispatch.admit("a", "", 1, now) > 0
    assert dispatch.admit("late", "", 1, now) > 0  # the room has no slot


def test_a_job_that_was_stopped_is_not_counted_as_made() -> None:
    dispatch = Scheduler(capacity=1, depth=2)
    queue(dispatch, job("1"))
    dispatch.actions()
    dispatch.begun("1", NOW)
    dispatch.done("1")
    dispatch.made("1", NOW + 1)
    assert dispatch.load.alone == 0
    assert not dispatch.load._running
