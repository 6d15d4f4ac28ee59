"""Overload of the engine, and the rooms that are served during it, on a clock moved by hand."""

from __future__ import annotations

import itertools

import pytest

from gateway.core.scheduling.overload import AT_LEAST, CALM, HOLD, SEAT_S, OverloadMonitor
from tests.support.meeting import NOW
from tests.support.typed import current

SIZE = 60
CAPACITY = 10


class Engine:
    """A monitor and its clock. The monitor is polled once a second."""

    def __init__(self, **options: float) -> None:
        self.load = OverloadMonitor(**options)
        self.now = NOW
        self.ids = map(str, itertools.count())
        self.oldest = 0.0

    def learn(self, seconds: float = 1.0) -> None:
        """Measure the time of a final without load."""
        for _ in range(10):
            self.make(seconds, alone=True)
        self.second()

    def make(self, seconds: float, waited: float = 0.0, *, alone: bool = False) -> None:
        """Make a final while the clock stands still."""
        id = next(self.ids)
        self.load.asked += 1
        self.load.begun(id, SIZE, waited, self.now - seconds, alone=alone)
        self.load.made(id, self.now)

    def second(self, *finals: tuple[float, float], asked: int | None = None) -> None:
        """Let a second pass in which finals were made, each as (seconds waited, seconds taken)."""
        self.now += 1
        for waited, took in finals:
            self.make(took, waited)
        for _ in range((asked or 0) - len(finals)):
            self.load.asked += 1
        self.load.poll(self.oldest, self.now)

    def seat(self, *rooms: str, tenant: str = "") -> list[bool]:
        """Return the rooms among these that are admitted."""
        return [not self.load.admit(room, tenant, 0, CAPACITY, self.now) for room in rooms]

    def overload(self, rooms: int = 10) -> list[str]:
        """Return an overloaded engine that served this many rooms."""
        self.learn()
        names = [f"r{n}" for n in range(rooms)]
        assert all(self.seat(*names))
        self.second((1.0, 1.0), (2.0, 1.0))
        assert self.load.overloaded
        return names


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
    assert repr(engine.load) == "<OverloadMonitor overloaded, 2 seats, 2 rooms, 1.000 s a final>"


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


def test_rooms_that_are_served_keep_their_place_and_others_wait_for_one() -> None:
    engine = Engine()
    served = engine.overload()
    assert engine.seat(*served, "late") == [True] * 10 + [False]
    assert engine.load.admit("late", "", 0, CAPACITY, engine.now) == CALM
    assert engine.load.refused == {"seat": 2}


def test_rooms_that_are_served_may_not_fill_the_queue() -> None:
    engine = Engine()
    (room, *_) = engine.overload()
    assert engine.load.admit(room, "", 7, CAPACITY, engine.now) == 0
    assert engine.load.admit(room, "", 8, CAPACITY, engine.now) == pytest.approx(0.8)
    assert engine.load.refused == {"queue": 1}


def test_a_place_is_free_again_after_a_while_of_silence_or_at_the_end_of_the_room() -> None:
    engine = Engine()
    served = engine.overload(3)
    engine.load.vacate(served[0])
    engine.load.vacate("unknown")
    assert engine.seat("late", "later") == [True, False]
    for _ in range(int(SEAT_S) + 1):
        engine.seat(*served[1:])
        engine.second()
    assert engine.load.rooms == 2
    for _ in range(int(SEAT_S) - 1):
        engine.second()
    assert engine.load.rooms == 2
    engine.second()
    assert engine.load.rooms == 0
    engine.seat(*served, "late")
    for room in served:
        engine.load.vacate(room)
    engine.load.vacate("late")
    assert engine.load.rooms == 0


def test_a_room_has_the_place_of_the_tenant_that_spoke_in_it_first() -> None:
    engine = Engine()
    engine.seat("shared", tenant="one")
    engine.seat("shared", tenant="two")
    assert engine.load._seats_held == {"one": 1}
    engine.load.vacate("shared")
    assert not engine.load._seats_held


def test_the_newest_slots_are_taken_away_as_many_as_the_engine_is_short_of() -> None:
    engine = Engine()
    served = engine.overload()
    for _ in range(6):
        engine.second(*[(2.0, 1.0)] * 5, asked=10)
    kept = engine.load.rooms
    assert kept < 6
    assert engine.seat(*served) == [True] * kept + [False] * (10 - kept)


def test_no_place_is_taken_while_the_queue_shrinks_or_the_engine_stands_still() -> None:
    engine = Engine()
    engine.overload()
    for _ in range(4):
        engine.second(*[(2.0, 1.0)] * 2)
    before = engine.load.rooms
    engine.load.asked -= 100
    for _ in range(5):
        engine.load.asked -= 4
        engine.second(*[(2.0, 1.0)] * 5)
    assert engine.load.rooms == before
    still = Engine()
    still.overload()
    still.load._rates = (0.0, 0.0)
    still.oldest = 9.0
    for _ in range(5):
        still.second()
    assert still.load.rooms == 10


def test_the_last_place_is_never_taken_away() -> None:
    engine = Engine()
    served = engine.overload(2)
    for _ in range(20):
        engine.second(*[(9.0, 1.0)] * 5, asked=50)
        engine.seat(served[0], served[1])
    assert engine.seat(*served) == [True, False]


def test_the_tenant_with_most_places_gives_up_its_own_first() -> None:
    engine = Engine()
    engine.learn()
    engine.seat("small", tenant="one")
    engine.seat(*(f"r{n}" for n in range(9)), tenant="many")
    engine.seat("last", tenant="one")
    for _ in range(3):
        engine.second(*[(2.0, 1.0)] * 5, asked=8)
    assert engine.load.rooms == 6
    assert engine.seat("small", "last", tenant="one") == [True, True]
    assert engine.seat("another", tenant="new") == [True], "in the place of one of many"
    assert engine.seat("yet another", tenant="new") == [True]
    assert engine.seat("one too many", tenant="new") == [False]


def test_a_tenant_takes_no_place_of_one_that_has_as_many() -> None:
    engine = Engine()
    engine.learn()
    engine.seat("a1", "a2", tenant="a")
    engine.seat("b1", tenant="b")
    engine.second((2.0, 1.0))
    assert engine.load.overloaded
    assert engine.seat("b2", tenant="b") == [False]


def test_places_come_back_little_by_little_and_more_slowly_where_it_was_too_soon() -> None:
    engine = Engine()
    engine.overload()
    for _ in range(int(CALM)):
        engine.second((0.0, 1.0))
        engine.seat("late")
    assert engine.seat("late", "later") == [True, False]
    for _ in range(3):
        engine.second(*[(2.0, 1.0)] * 5, asked=10)
    assert engine.seat("late") == [False]
    assert engine.load.admit("late", "", 0, CAPACITY, engine.now) == 2 * CALM


def test_another_place_comes_back_after_as_long_again() -> None:
    engine = Engine()
    engine.overload()
    late = ("late", "later", "last")
    for places in (1, 2):
        for _ in range(int(CALM)):
            engine.second((0.0, 1.0))
            admitted = engine.seat(*late)
        assert admitted == [True] * places + [False] * (3 - places)


def test_of_many_places_a_tenth_comes_back_at_once() -> None:
    engine = Engine()
    engine.overload(32)
    for _ in range(int(CALM)):
        engine.second((0.0, 1.0))
    assert engine.seat(*map(str, range(4))) == [True] * 3 + [False]


def test_all_is_as_usual_again_when_nobody_was_refused_for_a_while() -> None:
    engine = Engine()
    engine.overload()
    for _ in range(int(HOLD[0]) - 1):
        engine.second((0.0, 1.0))
    assert current(engine.load.overloaded)
    engine.second((0.0, 1.0))
    assert engine.load.overloaded is False
    assert repr(engine.load).startswith("<OverloadMonitor as usual")


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
