"""Limits are finite, and the bucket never gives more than its rate."""

from __future__ import annotations

import math

import msgspec

from gateway.limits import Limits, TokenBucket


def test_every_limit_is_finite_and_positive() -> None:
    for value in msgspec.structs.astuple(Limits()):
        assert 0 < value < math.inf


def test_a_burst_is_taken_at_once_and_no_more() -> None:
    bucket = TokenBucket(rate=10, burst=3, now=100)
    assert [bucket.take(100) for _ in range(3)] == [0, 0, 0]
    assert bucket.take(100) > 0


def test_the_wait_is_the_time_until_the_next_token() -> None:
    bucket = TokenBucket(rate=4, burst=1, now=0)
    bucket.take(0)
    assert bucket.take(0) == 0.25
    assert bucket.take(0.25) == 0


def test_asking_in_vain_costs_nothing() -> None:
    bucket = TokenBucket(rate=1, burst=1, now=0)
    bucket.take(0)
    assert [bucket.take(0.5) for _ in range(3)] == [0.5, 0.5, 0.5]
    assert bucket.take(1) == 0


def test_no_more_than_the_burst_is_saved_up() -> None:
    bucket = TokenBucket(rate=10, burst=2, now=0)
    taken = [bucket.take(1_000_000) for _ in range(3)]
    assert taken[:2] == [0, 0]
    assert taken[2] > 0


def test_a_clock_that_goes_back_and_forth_gives_nothing_twice() -> None:
    bucket = TokenBucket(rate=1, burst=1, now=100)
    assert bucket.take(100) == 0
    for _ in range(5):
        assert bucket.take(95) == 1
        assert bucket.take(100) == 1
    assert bucket.take(101) == 0


def test_what_is_spent_at_once_is_waited_for_after_it() -> None:
    bucket = TokenBucket(rate=2, burst=4, now=0)
    bucket.spend(7.5)
    assert bucket.take(0) == 2.25
    assert bucket.take(2.25) == 0
