"""Limits, and the rate that a token bucket allows."""

from __future__ import annotations

import math

import msgspec

from gateway.limits import Limits, TokenBucket


def test_every_limit_is_finite_and_positive() -> None:
    for value in msgspec.structs.astuple(Limits()):
        assert 0 < value < math.inf


def test_a_full_bucket_gives_its_burst_at_once_and_no_more() -> None:
    bucket = TokenBucket(rate=10, burst=3, now=100)
    assert [bucket.take(100) for _ in range(3)] == [0, 0, 0]
    assert bucket.take(100) > 0


def test_the_wait_is_the_time_until_the_next_token() -> None:
    bucket = TokenBucket(rate=4, burst=1, now=0)
    bucket.take(0)
    assert bucket.take(0) == 0.25
    assert bucket.take(0.25) == 0


def test_a_failed_attempt_takes_no_token() -> None:
    bucket = TokenBucket(rate=1, burst=1, now=0)
    bucket.take(0)
    assert [bucket.take(0.5) for _ in range(3)] == [0.5, 0.5, 0.5]
    assert bucket.take(1) == 0


def test_a_bucket_holds_no_more_than_its_burst() -> None:
    bucket = TokenBucket(rate=10, burst=2, now=0)
    taken = [bucket.take(1_000_000) for _ in range(3)]
    assert taken[:2] == [0, 0]
    assert taken[2] > 0


def test_a_clock_that_goes_back_and_forth_adds_no_token_twice() -> None:
    bucket = TokenBucket(rate=1, burst=1, now=100)
    assert bucket.take(100) == 0
    for _ in range(5):
        assert bucket.take(95) == 1
        assert bucket.take(100) == 1
    assert bucket.take(101) == 0


def test_tokens_spent_beyond_the_balance_have_to_be_waited_for() -> None:
    bucket = TokenBucket(rate=2, burst=4, now=0)
    bucket.spend(7.5)
    assert bucket.take(0) == 2.25
    assert bucket.take(2.25) == 0


def test_a_bucket_tells_how_many_tokens_it_lacks_also_in_debt() -> None:
    bucket = TokenBucket(rate=2, burst=4, now=0)
    assert bucket.used(0) == 0
    bucket.spend(7)
    assert bucket.used(0) == 7
    assert bucket.used(2.5) == 2
    assert bucket.used(60) == 0
