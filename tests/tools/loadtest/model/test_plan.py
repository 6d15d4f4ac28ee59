"""The parameters of a load test."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from caption_tools.loadtest.model.plan import Goal, Plan, assigned, virtual_users

PLAN = Plan(url="ws://x", langs=("de", "fr"), rooms=2, speakers=2, readers=3, run="7")


def test_speakers_come_first_and_read_all_a_reader_reads_one_language_in_turn() -> None:
    found = list(virtual_users(PLAN))
    assert [user.speaker for user in found] == [0, 1, 2, 3, *[None] * 6]
    assert [user.langs for user in found[:4]] == [("de", "fr")] * 4
    assert [user.langs for user in found[4:]] == [("de",)] * 2 + [("fr",)] * 2 + [("de",)] * 2
    assert len(found) == PLAN.sockets


def test_rooms_belong_to_one_run_and_have_equal_numbers_of_users() -> None:
    rooms = [user.room for user in virtual_users(PLAN)]
    assert {room: rooms.count(room) for room in rooms} == {"bench-7-0": 5, "bench-7-1": 5}


@pytest.mark.parametrize("processes", range(1, 10))
def test_every_virtual_user_is_in_one_process(processes: int) -> None:
    plan = msgspec.structs.replace(PLAN, processes=processes)
    found = [user for process in range(processes) for user in assigned(plan, process)]
    assert Counter(found) == Counter(virtual_users(plan))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seconds": 0.5, "warm": 0.0}, r"between --warm \(0 s\) and --seconds \(0.5 s\)"),
        ({"seconds": 2.9, "warm": 1.5}, r"between --warm \(1.5 s\) and --seconds \(2.9 s\)"),
        ({"warm": 30.0}, r"--warm \(30 s\) must be less than --seconds \(30 s\)"),
        ({"words": (3, 2)}, "--words 3-2 is not a range"),
        ({"rate": 1e300}, "exceeds the 10,000 utterances"),
        ({"pace": 0.001}, "--pace 0.001 is too slow; the least is 10"),
        ({"processes": 500}, r"--processes \(500\) exceeds the number of sockets"),
        ({"words": (0, 2)}, "--words 0-2 is not a range"),
    ],
)
def test_an_impossible_plan_is_refused_with_a_sentence(
    change: dict[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        msgspec.structs.replace(PLAN, **change).checked()


def test_a_possible_plan_is_returned_unchanged() -> None:
    assert PLAN.checked() is PLAN
    assert msgspec.structs.replace(PLAN, words=None).checked().words is None
    assert (PLAN.span, msgspec.structs.replace(PLAN, seconds=1000.0).span) == (1, 10)


def test_the_name_of_a_goal_is_that_of_its_flag() -> None:
    assert Goal("final", 95, 1000).name == "final-p95"
    assert Goal("errors", 0, 0.01).name == "errors"
