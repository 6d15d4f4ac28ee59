"""The comparison of steps, and the best value of a setting."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.cli.report.stats import Summary
from gateway.cli.tune.model import steps
from gateway.cli.tune.model.steps import Figures, Verdict, best, compare, reason, rises


def summary(p95: float, count: int = 100) -> Summary:
    """Return waits whose 95th percentile is ``p95`` ms."""
    return Summary(count, p95 / 4, p95 / 5, p95 / 2, p95, p95 * 1.2, p95 * 1.2, p95 * 1.2)


def figures(*, final: float = 1000.0, first: float = 200.0, **others: Any) -> Figures:
    given = {"made": 10.0, "asked": 10.0, "token": 10.0, "running": 8} | others
    return Figures(final=summary(final), first=summary(first), **given)


@pytest.mark.parametrize(
    ("new", "verdict", "why"),
    [
        (figures(), Verdict.SAME, "no difference"),
        (figures(final=1050), Verdict.SAME, "no difference"),
        (figures(final=1200), Verdict.WORSE, "95 of 100 captions take 1200 ms, not 1000 ms"),
        (figures(final=800), Verdict.BETTER, "95 of 100 captions take 800 ms, not 1000 ms"),
        (figures(first=300), Verdict.WORSE, "95 of 100 first texts take 300 ms, not 200 ms"),
        (figures(first=100), Verdict.BETTER, "95 of 100 first texts take 100 ms, not 200 ms"),
        (figures(final=800, first=900), Verdict.BETTER, "95 of 100 captions take 800 ms"),
        (figures(growing=True), Verdict.WORSE, "it does not keep up with the load"),
        (figures(lost=0.02), Verdict.WORSE, "it does not keep up with the load"),
        (figures(lost=0.01), Verdict.SAME, "no difference"),
        (figures(preemptions=2), Verdict.WORSE, "throws 2 requests out"),
        (figures(preemptions=1), Verdict.SAME, "no difference"),
        (figures(cache=0.96), Verdict.WORSE, "it fills 96% of the KV cache"),
        (figures(token=15), Verdict.WORSE, "a token takes 15.0 ms, not 10.0 ms"),
        (figures(token=5), Verdict.SAME, "no difference"),
    ],
)
def test_a_step_is_judged_beside_another_by_the_first_figure_that_differs(
    new: Figures, verdict: Verdict, why: str
) -> None:
    found, told = compare(new, figures())
    assert found is verdict
    assert why in told


def test_a_step_that_keeps_up_is_better_than_one_that_does_not_however_late_it_is() -> None:
    assert compare(figures(final=9000), figures(growing=True))[0] is Verdict.BETTER


def test_if_no_step_keeps_up_the_one_that_makes_more_is_better() -> None:
    slow, quick = figures(growing=True, made=5.0), figures(growing=True, made=8.0, final=3000)
    assert compare(quick, slow) == (Verdict.BETTER, "8.0 captions a second, not 5.0")
    assert compare(slow, quick) == (Verdict.WORSE, "5.0 captions a second, not 8.0")
    assert compare(figures(growing=True, final=2000), figures(growing=True))[0] is Verdict.WORSE


def test_a_full_cache_is_no_worse_than_a_full_cache() -> None:
    assert compare(figures(cache=0.99), figures(cache=0.96))[0] is Verdict.SAME


def test_the_smallest_of_equal_steps_is_best_or_the_usual_one() -> None:
    found = {value: figures() for value in (4, 8, 16)}
    assert best(found) == 4
    assert best(found, 8) == 8
    assert best(found, 32) == 4


def test_a_usual_value_that_is_worse_is_not_the_best() -> None:
    assert best({4: figures(), 8: figures(final=2000)}, 8) == 4


def test_a_step_is_not_best_by_a_difference_that_chance_explains() -> None:
    assert best({1: figures(), 2: figures(final=950)}) == 1


def test_many_small_gains_are_a_gain() -> None:
    falling = {value: figures(final=1000 * 0.94**n) for n, value in enumerate((1, 2, 4, 8))}
    assert best(falling) == 4


def test_earlier_first_texts_decide_between_equal_captions() -> None:
    assert best({4: figures(first=400), 8: figures(final=1010, first=50)}) == 8


def test_a_step_with_a_full_cache_is_best_only_if_all_caches_are_full() -> None:
    assert best({4: figures(cache=0.99, token=9.0), 8: figures()}) == 8
    assert best({4: figures(cache=0.99), 8: figures(preemptions=9)}) == 4


def test_if_nothing_keeps_up_the_step_that_makes_most_is_best() -> None:
    assert best({n: figures(growing=True, made=float(n), final=n) for n in (1, 2, 4)}) == 4


def test_without_steps_there_is_no_best() -> None:
    with pytest.raises(ValueError, match="No step"):
        best({})


times = st.floats(1.0, 20_000.0)
measured = st.builds(
    figures,
    final=times,
    first=times,
    token=st.floats(0.5, 100.0),
    growing=st.booleans(),
    lost=st.floats(0.0, 0.03),
    made=st.floats(0.1, 20.0),
    cache=st.floats(0.0, 1.0),
    preemptions=st.integers(0, 5),
)
found_steps = st.dictionaries(st.sampled_from((1, 2, 4, 8, 16, 32, 64)), measured, min_size=1)


def later(one: float, other: float) -> bool:
    """Return whether a percentile is later by more than chance explains."""
    return one > other * (1 + steps.MARGIN) + steps.LEAST_MS


@given(found_steps)
def test_no_recommended_step_is_later_than_another_that_keeps_up(
    found: dict[int, Figures],
) -> None:
    value = best(found)
    if any(one.kept for one in found.values()):
        assert found[value].kept
        for one in found.values():
            assert not one.kept or not later(found[value].final.p95, one.final.p95)
    else:
        assert all(one.made <= 1.1 * found[value].made + 1e-9 for one in found.values())


@given(found_steps)
def test_a_recommended_step_is_still_recommended_when_it_improves(
    found: dict[int, Figures],
) -> None:
    value = best(found)
    one = found[value]
    if one.kept:
        improved = replace(one, final=summary(one.final.p95 / 2))
        quicker = best(found | {value: improved})
        assert not later(found[quicker].final.p95, one.final.p95)


@pytest.mark.parametrize(
    ("waits", "rising"),
    [
        ((), False),
        ((1.0, 1.0, 9000.0, 9000.0, 9000.0), False),
        ((100.0, 100.0, 200.0, 200.0, 900.0, 900.0), True),
        ((10.0, 10.0, 90.0, 90.0, 200.0, 200.0), False),
        ((900.0,) * 6, False),
    ],
)
def test_waits_grow_if_the_last_are_twice_as_long_as_the_first(
    waits: tuple[float, ...], rising: bool
) -> None:
    assert rises(waits) is rising


def test_a_reason_names_what_is_worse_with_less_and_with_more() -> None:
    found = {
        4: figures(final=2000),
        8: figures(),
        16: figures(final=1500),
        32: figures(final=9000),
    }
    assert reason("max_num_seqs", found, 8) == [
        "With max_num_seqs = 8 95 of 100 captions are finished within 1000 ms of being said, and 95"
        " of 100 first texts come within 200 ms.",
        "4 is worse: 95 of 100 captions take 2000 ms, not 1000 ms.",
        "16 is worse: 95 of 100 captions take 1500 ms, not 1000 ms.",
    ]


def test_the_reason_says_if_no_step_keeps_up_with_the_load() -> None:
    found = {8: figures(growing=True, made=4.0, final=12_000)}
    told = reason("batch", found, 8)
    assert told[0] == (
        "No batch keeps up with this load: 8 makes 4.0 captions a second of the 10.0 that are asked"
        " for, the most there are."
    )
    assert "12.0 s" in told[1]
