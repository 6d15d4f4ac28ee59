"""Send times of an open loop."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caption_tools.speech.text import Arrivals, arrivals


def test_fixed_arrivals_are_even() -> None:
    assert list(arrivals(4, 1.0, "fixed", Random(0))) == [0, 0.25, 0.5, 0.75]


def test_many_fixed_steps_do_not_drift() -> None:
    assert list(arrivals(3, 1000, "fixed", Random(0)))[-1] == 2999 / 3


def test_the_same_seed_makes_the_same_schedule() -> None:
    assert list(arrivals(9, 20, "poisson", Random(1))) == list(
        arrivals(9, 20, "poisson", Random(1))
    )
    assert list(arrivals(9, 20, "poisson", Random(1))) != list(
        arrivals(9, 20, "poisson", Random(2))
    )


def test_independent_callers_come_at_the_rate_and_in_bunches() -> None:
    times = list(arrivals(50, 200, "poisson", Random(7)))
    gaps = [later - sooner for sooner, later in zip(times, times[1:], strict=False)]
    mean = sum(gaps) / len(gaps)
    assert len(times) == pytest.approx(10_000, rel=0.05)
    # Of an exponential distribution the spread is the mean.
    assert sum((gap - mean) ** 2 for gap in gaps) / len(gaps) == pytest.approx(mean**2, rel=0.1)


@given(
    st.floats(min_value=0.01, max_value=500),
    st.floats(min_value=0, max_value=5),
    st.sampled_from(["poisson", "fixed"]),
    st.integers(),
)
def test_arrivals_are_in_order_and_within_the_time(
    rate: float, seconds: float, kind: Arrivals, seed: int
) -> None:
    times = list(arrivals(rate, seconds, kind, Random(seed)))
    assert times == sorted(times)
    assert all(0 <= at < seconds for at in times)


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_a_rate_is_above_zero(rate: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        next(arrivals(rate, 1, "fixed", Random(0)))
