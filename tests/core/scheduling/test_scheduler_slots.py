"""Several engines behind one scheduler: a full one does not hold up jobs of the others."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.scheduling.scheduler import Lane, Scheduler, work
from gateway.job import Job, Priority
from tests.support.meeting import NOW


class OneEngine:
    """An engine worked by hand."""

    def __init__(self, capacity: int) -> None:
        self.capacity = self.free = capacity


class Engines:
    """Two engines for one pair each, and one more that has both."""

    def __init__(self, **sizes: int) -> None:
        self.engines = {name: OneEngine(size) for name, size in sizes.items()}
        self.given: dict[str, OneEngine] = {}

    def lane(self, source: str, target: str) -> Lane:
        names = () if target == "xx" else (target, "both")
        return tuple(self.engines[name] for name in names if name in self.engines)

    def give(self, job: Job) -> None:
        lane = [engine for engine in self.engines.values() if engine in self.lane("en", job.target)]
        if lane:
            engine = self.given[job.id] = max(lane, key=lambda engine: engine.free)
            engine.free -= 1

    def end(self, job_id: str) -> None:
        self.given.pop(job_id).free += 1


def job(id: str, target: str, **fields: Any) -> Job:
    return Job(
        **({"id": id, "room": "a", "text": "hello", "source": "en", "target": target} | fields)
    )


def scheduler(engines: Engines, depth: int = 10) -> Scheduler:
    return Scheduler(
        capacity=sum(engine.capacity for engine in engines.engines.values()),
        depth=depth,
        lanes=engines.lane,
    )


def started(dispatch: Scheduler, engines: Engines) -> list[str]:
    """Carry out the actions as a hub does, and return the ids of the jobs that start."""
    found = []
    while actions := dispatch.actions():
        for action in actions:
            assert isinstance(action, Job)
            engines.give(action)
            found.append(action.id)
    return found


def queue(dispatch: Scheduler, *jobs: Job) -> None:
    for each in jobs:
        dispatch.submit(each, NOW)


def test_jobs_for_a_free_engine_pass_those_that_wait_for_a_full_one() -> None:
    engines = Engines(de=1, fr=2)
    dispatch = scheduler(engines)
    queue(dispatch, *(job(f"d{n}", "de") for n in range(3)), job("f0", "fr"), job("f1", "fr"))
    assert started(dispatch, engines) == ["d0", "f0", "f1"]
    engines.end("d0")
    dispatch.done("d0")
    assert started(dispatch, engines) == ["d1"]
    assert dispatch.queued == 1


def test_a_job_that_two_engines_can_do_takes_the_one_that_is_free() -> None:
    engines = Engines(de=1, both=1)
    dispatch = scheduler(engines)
    queue(dispatch, *(job(f"d{n}", "de") for n in range(3)))
    assert started(dispatch, engines) == ["d0", "d1"]


def test_jobs_that_no_engine_can_do_are_given_at_once_so_that_they_fail() -> None:
    engines = Engines(de=1)
    dispatch = scheduler(engines)
    queue(dispatch, job("d0", "de"), job("x0", "xx"), job("x1", "xx"))
    assert started(dispatch, engines) == ["d0", "x0", "x1"]


def test_nothing_is_given_while_the_engines_start() -> None:
    engines = Engines(de=1)
    dispatch = scheduler(engines)
    dispatch.capacity = 0
    queue(dispatch, job("d0", "de"), job("x0", "xx"))
    assert started(dispatch, engines) == []


def test_rooms_and_tenants_with_jobs_for_full_engines_only_are_passed_over() -> None:
    engines = Engines(de=1, fr=1)
    dispatch = scheduler(engines)
    queue(
        dispatch,
        job("d0", "de"),
        job("d1", "de", tenant="t"),
        job("d2", "de", room="b"),
        job("f0", "fr", room="c", tenant="u"),
        job("f1", "fr", room="c", tenant="u"),
    )
    assert sorted(started(dispatch, engines)) == ["d0", "f0"]


def test_the_jobs_of_a_room_keep_their_order_within_a_pair() -> None:
    engines = Engines(de=1, fr=1)
    dispatch = scheduler(engines)
    queue(dispatch, job("d0", "de"), job("d1", "de"), job("f0", "fr"), job("f1", "fr"))
    assert started(dispatch, engines) == ["d0", "f0"]
    for done in ("d0", "f0"):
        engines.end(done)
        dispatch.done(done)
    assert started(dispatch, engines) == ["d1", "f1"]


def test_stops_and_one_start_come_together() -> None:
    engines = Engines(de=2)
    dispatch = scheduler(engines)
    queue(dispatch, job("d0", "de"))
    started(dispatch, engines)
    dispatch.abort("d0")
    queue(dispatch, job("d1", "de"), job("d2", "de"))
    actions = dispatch.actions()
    assert actions == ["d0", job("d1", "de")]


def test_each_lane_has_its_own_queue() -> None:
    engines = Engines(de=1, fr=1)
    dispatch = scheduler(engines, depth=2)
    german, french = ("en", "de"), ("en", "fr")
    queue(dispatch, *(job(f"d{n}", "de") for n in range(3)))
    started(dispatch, engines)
    assert dispatch.queue_of(engines.engines["de"]) == 2
    assert dispatch.queue_of(engines.engines["fr"]) == 0
    assert not dispatch.admits(1, pairs=[german])
    assert dispatch.admits(1, pairs=[french])
    assert not dispatch.admits(2, pairs=[german, french])
    assert dispatch.admits(1, Priority.BACKFILL, [french])
    assert dispatch.admit("b", "", 1, NOW, [french]) == 0
    assert dispatch.admit("b", "", 2, NOW, [german, french]) > 0
    assert dispatch.admits(1), "without pairs all engines count together"
    dispatch.abort("d1")
    assert dispatch.admits(1, pairs=[german])


def test_finals_that_wait_for_one_engine_delay_no_utterance_for_another() -> None:
    engines = Engines(de=1, fr=1)
    dispatch = scheduler(engines, depth=100)
    dispatch.load._run = 1.0  # a final takes a second
    dispatch.load._seats = {"a": ("", NOW), "b": ("", NOW)}
    queue(dispatch, *(job(f"d{n}", "de") for n in range(5)))
    queue(dispatch, job("p", "de", priority=Priority.PARTIAL))
    started(dispatch, engines)
    assert dispatch.admit("b", "", 1, NOW, [("en", "fr")]) == 0
    assert not dispatch.load.overloaded
    dispatch.admit("b", "", 1, NOW, [("en", "de")])
    assert dispatch.load.overloaded


def test_a_single_engine_has_one_queue_for_all_pairs() -> None:
    dispatch = Scheduler(capacity=1, depth=1)
    queue(dispatch, job("d0", "de"), job("d1", "de"))
    assert dispatch.queue_of("any") == 2
    assert not dispatch.admits(1, pairs=[("en", "fr")])


@pytest.mark.parametrize(("steps", "made"), [(1, 45), (2, 90)])
def test_a_job_in_two_steps_is_twice_the_work(steps: int, made: int) -> None:
    assert work(job("1", "de", steps=steps)) == made
    assert work(job("1", "de", steps=steps, prefix="hal")) == made - 3


def test_a_job_in_two_steps_is_not_taken_for_a_slow_engine() -> None:
    slow, plain = Scheduler(capacity=1, depth=1), Scheduler(capacity=1, depth=1)
    for dispatch, steps in ((slow, 2), (plain, 1)):
        queue(dispatch, job("1", "de", steps=steps))
        dispatch.actions()
        dispatch.begun("1", NOW)
        dispatch.made("1", NOW + steps)
    assert slow.load._pace == pytest.approx(plain.load._pace)
