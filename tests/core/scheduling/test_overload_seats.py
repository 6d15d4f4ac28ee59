"""The rooms that are served during an overload, on a clock moved by hand."""

from __future__ import annotations

from gateway.core.scheduling.overload import CALM, SEAT_S
from tests.core.scheduling.overload import CAPACITY, Engine


def test_rooms_that_are_served_keep_their_place_and_others_wait_for_one() -> None:
    engine = Engine()
    served = engine.overload()
    assert engine.seat(*served, "late") == [True] * 10 + [False]
    assert engine.load.admit("late", "", 0, CAPACITY, engine.now) == CALM
    assert engine.load.refused == {"seat": 2}


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
