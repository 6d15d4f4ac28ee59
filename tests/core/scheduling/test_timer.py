"""The one timer of a room."""

from __future__ import annotations

from gateway.core.scheduling.timer import RoomTimer


def test_a_timer_is_set_again_by_an_earlier_time_only() -> None:
    times: list[float] = []
    timer = RoomTimer(times.append)
    for when in (5.0, 7.0, 5.0, 3.0):
        timer.at(when)
    assert times == [5.0, 3.0]


def test_a_timer_that_has_gone_off_is_set_by_any_time() -> None:
    times: list[float] = []
    timer = RoomTimer(times.append)
    timer.at(3.0)
    timer.expired()
    timer.at(9.0)
    assert times == [3.0, 9.0]
