"""The beginning and the end of an overload of the engine, on a clock moved by hand."""

from __future__ import annotations

import pytest

from gateway.core.scheduling.overload import AT_LEAST, HOLD
from tests.core.scheduling.overload import CAPACITY, SIZE, Engine
from tests.support.typed import current


def test_the_time_of_a_final_without_load_is_measured_for_each_byte() -> None:
    engine = Engine()
    assert engine.load.alone == 0
    engine.learn(2.0)
    assert engine.load.alone == pytest.approx(2.0)
    engine.make(9.0)
    assert engine.load.alone == pytest.approx(2.0), "it was not alone"
    engine.make(1.0, alone=True)
    assert 1.8 < engine.load.alone < 2.0


def test_the_first_final_without_load_is_the_measure_until_there_are_others() -> None:
    engine = Engine()
    engine.make(2.0, alone=True)
    assert engine.load.alone == pytest.approx(2.0)


def test_another_engine_is_measured_from_the_beginning() -> None:
    engine = Engine()
    engine.learn(9.0)
    engine.load.renew()
    assert engine.load.alone == 0
    engine.make(2.0)
    assert engine.load.alone == pytest.approx(2.0)


def test_a_final_costs_as_much_as_forty_bytes_more_than_its_text() -> None:
    engine = Engine()
    engine.load.begun("long", 60, 0.0, engine.now - 1, alone=True)
    engine.load.made("long", engine.now)
    engine.load.begun("short", 10, 0.0, engine.now - 1, alone=False)
    engine.load.made("short", engine.now)
    usual = 100 + 0.2 * (50 - 100)
    assert engine.load.alone == pytest.approx(usual / 100)


def test_the_fastest_finals_count_if_none_was_ever_alone() -> None:
    engine = Engine()
    for seconds, alone in ((3.0, 3.0), (1.0, 2.6), (5.0, 2.648)):
        engine.make(seconds)
        assert engine.load.alone == pytest.approx(alone)


def test_a_burst_that_the_engine_gets_over_is_not_too_much() -> None:
    engine = Engine()
    engine.learn()
    engine.seat("a", "b")
    engine.second((0.0, 1.0), *((n / 10, 1.0) for n in range(40)))
    assert not engine.load.overloaded


def test_a_queue_that_does_not_become_empty_is_too_much() -> None:
    engine = Engine()
    engine.learn()
    engine.seat("a", "b")
    engine.second((0.4, 1.0), (3.0, 1.0))
    assert not current(engine.load.overloaded)
    engine.second((0.6, 1.0), (3.0, 1.0))
    assert engine.load.overloaded


def test_finals_that_take_longer_than_alone_are_too_much_though_they_do_not_wait() -> None:
    engine = Engine()
    engine.learn()
    engine.seat("a", "b")
    for _ in range(5):
        engine.second(*[(0.0, 3.0)] * 5)
    assert engine.load.overloaded


def test_half_a_second_is_soon_enough_however_fast_the_engine_could_be() -> None:
    engine = Engine()
    engine.learn(0.2)
    engine.seat("a", "b")
    engine.second((0.25, 0.2))
    assert not engine.load.overloaded
    engine.second((0.4, 0.2))
    assert engine.load.overloaded


def test_a_slow_engine_may_take_longer() -> None:
    engine = Engine()
    engine.learn(2.0)
    engine.seat("a", "b")
    engine.second((0.5, 2.0))
    assert not engine.load.overloaded
    engine.second((1.5, 2.0))
    assert engine.load.overloaded


def test_nothing_is_too_much_before_the_first_final_was_made() -> None:
    engine = Engine()
    engine.seat("a", "b")
    engine.load.begun("x", SIZE, 9.0, engine.now, alone=False)
    engine.second()
    assert engine.load.overloaded is False


def test_finals_that_come_soon_enough_are_no_overload() -> None:
    engine = Engine(soon=4.0)
    engine.learn()
    engine.seat("a", "b")
    for _ in range(5):
        engine.second(*[(0.9, 3.0)] * 5)
    assert not engine.load.overloaded


def test_a_room_by_itself_is_never_too_much() -> None:
    engine = Engine()
    engine.learn()
    engine.seat("a")
    engine.second((5.0, 5.0))
    assert engine.load.admit("a", "", 500, CAPACITY, engine.now) == 0
    assert not engine.load.overloaded


def test_finals_that_wait_while_none_begins_are_too_much() -> None:
    engine = Engine()
    engine.learn()
    engine.seat("a", "b")
    engine.second()
    assert not current(engine.load.overloaded), "there is nothing to do"
    engine.oldest = 0.1
    engine.second()
    engine.second()
    assert not current(engine.load.overloaded), "it began a moment ago"
    engine.oldest = 3.0
    engine.second()
    assert engine.load.overloaded


def test_more_than_the_engine_makes_in_time_is_too_much_at_once() -> None:
    engine = Engine()
    engine.learn()
    engine.seat("a", "b")
    engine.second((0.0, 1.0))
    assert engine.load.admit("b", "", 20, CAPACITY, engine.now) == 0
    assert engine.load.admit("b", "", 21, CAPACITY, engine.now) == pytest.approx(2.1)
    assert engine.load.overloaded


def test_an_overload_that_a_burst_began_ends_as_any_other() -> None:
    engine = Engine()
    engine.learn()
    engine.seat("a", "b")
    engine.second((0.0, 1.0))
    assert engine.load.admit("b", "", 21, CAPACITY, engine.now) > 0
    for _ in range(int(HOLD[0])):
        assert engine.load.overloaded
        engine.second((0.0, 1.0))
    assert not engine.load.overloaded


def test_an_engine_with_one_slot_refuses_what_is_new_while_a_final_waits() -> None:
    engine = Engine()
    engine.learn()
    engine.seat("a", "b")
    engine.second((0.0, 1.0))
    assert engine.load.admit("a", "", 2, 1, engine.now) == 0
    assert engine.load.admit("a", "", 3, 1, engine.now) == pytest.approx(3.0)
    assert engine.load.overloaded
    assert engine.load.admit("a", "", 0, 1, engine.now) == 0
    assert engine.load.admit("a", "", 1, 1, engine.now) == pytest.approx(1.0)


def test_a_burst_beside_a_single_room_leaves_a_place_to_that_room_alone() -> None:
    engine = Engine()
    engine.learn()
    engine.seat("a")
    assert engine.load.admit("b", "", 30, CAPACITY, engine.now) > 0
    assert engine.seat("a", "b") == [True, False]


def test_the_queue_may_be_longer_where_finals_may_take_longer() -> None:
    engine = Engine(stretch=3.0)
    engine.learn()
    engine.seat("a", "b")
    engine.second((3.0, 1.0))
    assert engine.load.overloaded
    assert engine.load.admit("a", "", 14, CAPACITY, engine.now) == 0
    assert engine.load.admit("a", "", 15, CAPACITY, engine.now) > 0


def test_overload_is_decided_once_a_second() -> None:
    engine = Engine()
    engine.learn()
    engine.seat("a", "b")
    engine.second((0.0, 1.0))
    engine.make(1.0, waited=3.0)
    engine.load.poll(0.0, engine.now + 0.5)
    assert not engine.load.overloaded


def test_rooms_that_are_served_may_not_fill_the_queue() -> None:
    engine = Engine()
    (room, *_) = engine.overload()
    assert engine.load.admit(room, "", 7, CAPACITY, engine.now) == 0
    assert engine.load.admit(room, "", 8, CAPACITY, engine.now) == pytest.approx(0.8)
    assert engine.load.refused == {"queue": 1}


def test_all_is_as_usual_again_when_nobody_was_refused_for_a_while() -> None:
    engine = Engine()
    engine.overload()
    for _ in range(int(HOLD[0]) - 1):
        engine.second((0.0, 1.0))
    assert current(engine.load.overloaded)
    engine.second((0.0, 1.0))
    assert engine.load.overloaded is False


def test_a_relapse_is_waited_out_twice_as_long_up_to_a_bound() -> None:
    engine = Engine()
    engine.overload()
    for wait in (10, 20, 40, 80, 120, 120):
        for n in range(wait):
            assert engine.load.overloaded, n
            engine.seat("r0", "r1")
            engine.second((0.0, 1.0))
        assert not engine.load.overloaded
        engine.second((2.0, 1.0), (2.0, 1.0))
    for _ in range(500):
        engine.second((0.0, 1.0))
        engine.seat("r0", "r1")
    engine.second((2.0, 1.0), (2.0, 1.0))
    assert engine.load.overloaded
    assert engine.load._hold == HOLD[0]


def test_a_queue_that_is_full_is_told_with_the_time_that_half_of_it_takes() -> None:
    engine = Engine()
    assert engine.load.full(40, CAPACITY, engine.now) == 1.0, "nothing is known yet"
    engine.learn()
    assert engine.load.full(40, CAPACITY, engine.now) == pytest.approx(2.0)
    assert engine.load.full(1, CAPACITY, engine.now) == AT_LEAST
    assert engine.load.refused == {"queue": 3}
    engine.make(3.0)
    lately = 1.0 + 0.2 * (3.0 - 1.0)
    assert engine.load.full(40, CAPACITY, engine.now) == pytest.approx(2 * lately)


def test_a_slow_engine_with_one_slot_has_to_be_waited_for_longer() -> None:
    engine = Engine()
    engine.learn(2.0)
    assert engine.load.full(10, 1, engine.now) == pytest.approx(10.0)


def test_an_overload_lasts_while_the_queue_is_full() -> None:
    engine = Engine()
    engine.overload()
    for _ in range(int(HOLD[0]) - 1):
        engine.second((0.0, 1.0))
    engine.load.full(40, CAPACITY, engine.now)
    for _ in range(int(HOLD[0])):
        assert engine.load.overloaded
        engine.second((0.0, 1.0))
    assert not engine.load.overloaded


def test_a_job_that_was_stopped_tells_nothing() -> None:
    engine = Engine()
    engine.load.begun("x", SIZE, 0.0, engine.now, alone=True)
    engine.load.dropped("x")
    engine.load.dropped("x")
    assert engine.load.alone == 0
    assert not engine.load._running
