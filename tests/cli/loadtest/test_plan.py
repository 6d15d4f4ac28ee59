"""What a load is made of."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.loadtest.plan import Goal, Plan, guests, share

PLAN = Plan(url="ws://x", langs=("de", "fr"), rooms=2, speakers=2, readers=3, slow=1, run="7")


def test_speakers_come_first_and_read_all_a_reader_reads_one_language_in_turn() -> None:
    found = list(guests(PLAN))
    assert [guest.speaker for guest in found] == [0, 1, 2, 3, *[None] * 6]
    assert [guest.langs for guest in found[:4]] == [("de", "fr")] * 4
    assert [guest.langs for guest in found[4:]] == [("de",)] * 2 + [("fr",)] * 2 + [("de",)] * 2
    assert [guest.number for guest in found] == list(range(PLAN.sockets))


def test_rooms_are_of_this_run_alone_and_equally_full() -> None:
    rooms = [guest.room for guest in guests(PLAN)]
    assert {room: rooms.count(room) for room in rooms} == {"bench-7-0": 5, "bench-7-1": 5}


def test_the_last_readers_of_each_room_are_slow() -> None:
    slow = [guest for guest in guests(PLAN) if guest.slow]
    assert [(guest.number, guest.room) for guest in slow] == [(8, "bench-7-0"), (9, "bench-7-1")]


@given(st.integers(min_value=1, max_value=9))
def test_every_guest_is_in_one_process(processes: int) -> None:
    plan = msgspec.structs.replace(PLAN, processes=processes)
    found = [guest for process in range(processes) for guest in share(plan, process)]
    assert sorted(found, key=lambda guest: guest.number) == list(guests(plan))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"slow": 4}, "Of 3 readers 4 cannot be slow"),
        ({"seconds": 0.5, "warm": 0.0}, "none from 0 to 0.5 s"),
        ({"seconds": 2.9, "warm": 1.5}, "none from 1.5 to 2.9 s"),
        ({"warm": 30.0}, "All 30 s would be the first 30 s"),
        ({"words": (3, 2)}, "No utterance has 3 to 2 words"),
        ({"rate": 1e300}, "more than the 10,000"),
        ({"pace": 0.001}, "Nobody speaks 0.001 words a minute: --pace 10 or more"),
        ({"processes": 500}, "Of 500 client processes only"),
        ({"words": (0, 2)}, "No utterance has 0 to 2 words"),
    ],
)
def test_what_cannot_be_is_a_sentence(change: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        msgspec.structs.replace(PLAN, **change).checked()


def test_a_plan_that_can_be_is_itself() -> None:
    assert PLAN.checked() is PLAN
    assert msgspec.structs.replace(PLAN, words=None).checked().words is None
    assert (PLAN.span, msgspec.structs.replace(PLAN, seconds=1000.0).span) == (1, 10)


def test_a_goal_is_called_as_its_flag() -> None:
    assert Goal("final", 95, 1000).name == "final-p95"
    assert Goal("errors", 0, 0.01).name == "errors"
