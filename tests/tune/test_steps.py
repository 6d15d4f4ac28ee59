"""Which value of a setting is best, and when to stop looking."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.tune import steps
from gateway.tune.steps import Figures, Ladder, Spread, Verdict, best, compare, pooled, reason

USUAL = Figures(
    captions=100,
    seconds=10.0,
    made=10.0,
    final=Spread(0.2, 1.0, 1.2),
    first=Spread(0.05, 0.2, 0.3),
    queue=Spread(0.0, 0.05, 0.1),
    token=Spread(0.010, 0.012, 0.014),
    running=8,
)


def figures(
    *,
    final: float = 1.0,
    first: float = 0.2,
    queue: float = 0.05,
    token: float = 0.010,
    **others: float,
) -> Figures:
    """`USUAL` with other tails, in seconds."""
    changed = replace(
        USUAL,
        final=Spread(final / 5, final, final * 1.2),
        first=Spread(first / 4, first, first * 1.5),
        queue=Spread(0.0, queue, queue),
        token=Spread(token, token, token),
    )
    return replace(changed, **others)


# --- better and worse ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "verdict", "why"),
    [
        (figures(), Verdict.SAME, "no difference"),
        (figures(final=1.05), Verdict.SAME, "no difference"),
        (figures(final=1.2), Verdict.WORSE, "95 of 100 captions take 1200 ms, not 1000 ms"),
        (figures(final=0.8), Verdict.BETTER, "95 of 100 captions take 800 ms, not 1000 ms"),
        (figures(first=0.3), Verdict.WORSE, "95 of 100 first texts take 300 ms, not 200 ms"),
        (figures(first=0.1), Verdict.BETTER, "95 of 100 first texts take 100 ms, not 200 ms"),
        (figures(final=0.8, first=0.9), Verdict.BETTER, "95 of 100 captions take 800 ms"),
        (figures(growing=True), Verdict.WORSE, "it does not keep up with the load"),
        (figures(lost=2), Verdict.WORSE, "it does not keep up with the load"),
        (figures(lost=1), Verdict.SAME, "no difference"),
        (figures(preemptions=2), Verdict.WORSE, "throws 2 requests out"),
        (figures(preemptions=1), Verdict.SAME, "no difference"),
        (figures(cache=0.96), Verdict.WORSE, "it fills 96% of the KV cache"),
        (figures(token=0.015), Verdict.WORSE, "a token takes 15.0 ms, not 10.0 ms"),
        (figures(token=0.015, queue=0.0), Verdict.SAME, "no difference"),
    ],
)
def test_a_step_is_judged_beside_another_by_the_first_figure_that_differs(
    new: Figures, verdict: Verdict, why: str
) -> None:
    found, told = compare(new, figures())
    assert found is verdict
    assert why in told


def test_a_step_that_keeps_up_is_better_than_one_that_does_not_however_late_it_is() -> None:
    assert compare(figures(final=9.0), figures(growing=True))[0] is Verdict.BETTER


def test_where_neither_keeps_up_the_one_that_makes_more_is_better() -> None:
    slow, quick = figures(growing=True, made=5.0), figures(growing=True, made=8.0, final=3.0)
    assert compare(quick, slow) == (Verdict.BETTER, "8.0 captions a second, not 5.0")
    assert compare(slow, quick) == (Verdict.WORSE, "5.0 captions a second, not 8.0")
    assert compare(figures(growing=True, final=2.0), figures(growing=True))[0] is Verdict.WORSE


def test_a_full_cache_is_no_worse_than_a_full_cache() -> None:
    assert compare(figures(cache=0.99), figures(cache=0.96))[0] is Verdict.SAME


# --- the best ------------------------------------------------------------------------------------


def test_of_equal_steps_the_smallest_is_best_or_the_usual_one() -> None:
    found = {value: figures() for value in (4, 8, 16)}
    assert best(found) == 4
    assert best(found, 8) == 8
    assert best(found, 32) == 4


def test_a_usual_value_that_is_worse_is_not_the_best() -> None:
    assert best({4: figures(), 8: figures(final=2.0)}, 8) == 4


def test_a_step_is_not_best_for_less_than_chance_makes() -> None:
    assert best({1: figures(), 2: figures(final=0.95)}) == 1


def test_many_small_gains_are_a_gain() -> None:
    falling = {value: figures(final=1.0 * 0.94**place) for place, value in enumerate((1, 2, 4, 8))}
    assert best(falling) == 4


def test_first_texts_that_come_sooner_decide_between_captions_as_late() -> None:
    assert best({4: figures(first=0.4), 8: figures(final=1.01, first=0.05)}) == 8


def test_a_cache_that_is_too_small_is_taken_only_where_all_are() -> None:
    assert best({4: figures(cache=0.99, token=0.009), 8: figures()}) == 8
    assert best({4: figures(cache=0.99), 8: figures(preemptions=9)}) == 4


def test_where_nothing_keeps_up_the_most_is_best() -> None:
    assert best({n: figures(growing=True, made=float(n), final=n) for n in (1, 2, 4)}) == 4


def test_without_steps_there_is_no_best() -> None:
    with pytest.raises(ValueError, match="No step"):
        best({})


times = st.floats(0.001, 20.0)
measured = st.builds(
    figures,
    final=times,
    first=times,
    queue=times,
    token=st.floats(0.0005, 0.1),
    growing=st.booleans(),
    lost=st.integers(0, 3),
    made=st.floats(0.1, 20.0),
    cache=st.floats(0.0, 1.0),
    preemptions=st.integers(0, 5),
)
ladders = st.dictionaries(st.sampled_from((1, 2, 4, 8, 16, 32, 64)), measured, min_size=1)


def later(one: float, other: float) -> bool:
    """Whether a tail is later by more than chance makes it."""
    return one > other * (1 + steps.MARGIN) + steps.LEAST_S


@given(ladders)
def test_no_step_is_recommended_whose_tail_is_later_than_that_of_another_that_keeps_up(
    found: dict[int, Figures],
) -> None:
    value = best(found)
    if any(one.kept for one in found.values()):
        assert found[value].kept
        for one in found.values():
            assert not one.kept or not later(found[value].final.p95, one.final.p95)
    else:
        assert all(one.made <= 1.1 * found[value].made + 1e-9 for one in found.values())


@given(ladders)
def test_what_is_recommended_stays_so_when_it_gets_better(found: dict[int, Figures]) -> None:
    value = best(found)
    one = found[value]
    if one.kept:
        improved = replace(one, final=Spread(*(at / 2 for at in (one.final.p50, one.final.p95))))
        quicker = best(found | {value: improved})
        assert not later(found[quicker].final.p95, one.final.p95)
        assert quicker >= value or found[quicker].final.p95 <= improved.final.p95 * 1.1 + 0.01


@given(ladders, st.integers(2, 4))
def test_the_same_figures_again_change_nothing(found: dict[int, Figures], times: int) -> None:
    again = {value: pooled([one] * times) for value, one in found.items()}
    assert best(again) == best(found)


@given(measured, measured)
def test_two_steps_are_not_both_better_than_each_other(one: Figures, other: Figures) -> None:
    assert {compare(one, other)[0], compare(other, one)[0]} != {Verdict.BETTER}


# --- measuring again -----------------------------------------------------------------------------


def test_measurements_of_a_step_count_by_their_medians() -> None:
    found = pooled([figures(final=1.0, made=1.0), figures(final=3.0, made=2.0), figures(final=1.2)])
    assert found.final.p95 == 1.2
    assert found.made == 2.0


def test_a_step_grows_without_end_if_it_did_more_often_than_not() -> None:
    once, never = figures(growing=True), figures()
    assert not pooled([once, never]).growing
    assert pooled([once, once, never]).growing


@pytest.mark.parametrize(
    ("waits", "rising"),
    [
        ([], False),
        ([n / 2 for n in range(11)], False),
        ([n / 2 for n in range(12)], True),
        ([0.3] * 30, False),
        ([n / 10 for n in range(30)], True),
        ([n / 1000 for n in range(30)], False),
        ([3.0] * 10 + [1.0] * 20, False),
    ],
)
def test_waits_rise_where_the_last_are_longer_than_those_before(
    waits: Sequence[float], rising: bool
) -> None:
    assert steps.rises(waits) is rising


# --- the ladder ----------------------------------------------------------------------------------


def climb(ladder: Ladder, engine: Callable[[int], Figures]) -> list[int]:
    """The steps that are taken in front of an engine."""
    taken = []
    for value in ladder:
        taken.append(value)
        assert len(taken) < 100, "it never ends"
        ladder.tell(value, engine(value))
    return taken


def busy(value: int) -> Figures:
    """An engine that is best at 8: below jobs wait, above each is slow."""
    return figures(final=8 / value if value < 8 else value / 8, running=value)


def test_a_ladder_stops_at_a_step_that_is_worse_when_it_is_measured_again() -> None:
    ladder = Ladder((1, 2, 4, 8, 16, 32, 64), places=True)
    assert climb(ladder, busy) == [1, 2, 4, 8, 16, 16, 8]
    assert ladder.best == 8
    assert ladder.stopped == ("16 is worse than 8: 95 of 100 captions take 2000 ms, not 1000 ms.")
    assert ladder.verdicts[1] == "first step"
    assert ladder.verdicts[8].startswith("better: ")
    assert ladder.verdicts[16].startswith("worse: ")


def test_a_step_that_was_worse_by_chance_does_not_end_it() -> None:
    taken: list[int] = []

    def engine(value: int) -> Figures:
        taken.append(value)
        return figures(final=1.15 if taken == [1, 2] else 1.0, running=value)

    ladder = Ladder((1, 2, 4))
    assert climb(ladder, engine) == [1, 2, 2, 4, 1]
    assert ladder.best == 1
    assert ladder.stopped == "There are no more steps."


def test_places_that_nobody_takes_end_it() -> None:
    ladder = Ladder((1, 2, 4, 8, 16, 32, 64), places=True)
    assert climb(ladder, lambda value: figures(running=min(value, 5))) == [1, 2, 4, 8, 1]
    assert ladder.stopped == "There were never more than 5 jobs at once."


def test_a_setting_that_is_no_number_of_places_goes_on() -> None:
    assert climb(Ladder((512, 2048)), lambda value: figures(running=5)) == [512, 2048, 512]


def test_a_step_that_turns_out_worse_when_it_is_confirmed_is_not_recommended() -> None:
    taken: list[int] = []

    def engine(value: int) -> Figures:
        taken.append(value)
        lucky = value == 4 and taken.count(4) == 1
        return figures(final=0.7 if lucky else 1.4 if value == 4 else 1.0)

    ladder = Ladder((2, 4))
    assert climb(ladder, engine) == [2, 4, 4, 2]
    assert ladder.best == 2


def test_a_ladder_goes_on_where_what_was_better_turns_out_not_to_be() -> None:
    taken: list[int] = []

    def engine(value: int) -> Figures:
        taken.append(value)
        if value == 2:
            return figures(final=0.6 if taken.count(2) == 1 else 1.8)
        return figures(final={1: 1.5, 4: 1.0, 8: 2.0}[value])

    ladder = Ladder((1, 2, 4, 8))
    assert climb(ladder, engine) == [1, 2, 4, 4, 2, 8, 8]
    assert ladder.best == 4
    assert ladder.stopped.startswith("8 is worse than 4: ")
    assert ladder.verdicts[4].startswith("better: ")


def test_the_usual_value_is_known_already() -> None:
    ladder = Ladder((2048, 512), usual=8192, known=[figures(), figures()])
    assert climb(ladder, lambda value: figures(final=1.0 if value > 1000 else 2.0)) == [
        2048, 512, 512,
    ]  # fmt: skip
    assert ladder.best == 8192


def test_a_value_that_cannot_be_used_is_left_out() -> None:
    ladder = Ladder((1, 2))
    taken = []
    for value in ladder:
        taken.append(value)
        if value == 2:
            ladder.skip(2, "cannot be used: no memory")
        else:
            ladder.tell(value, figures())
    assert taken == [1, 2, 1]
    assert ladder.best == 1
    assert ladder.verdicts[2] == "cannot be used: no memory"


def test_a_best_that_cannot_be_confirmed_ends_it() -> None:
    ladder = Ladder((1,))
    taken = []
    for value in ladder:
        taken.append(value)
        if taken == [1]:
            ladder.tell(value, figures())
        else:
            ladder.skip(value, "cannot be used: no memory")
    assert taken == [1, 1]


@given(ladders)
def test_a_ladder_ends_and_recommends_what_it_has_measured_twice(
    found: dict[int, Figures],
) -> None:
    ladder = Ladder(sorted(found), places=True)
    climb(ladder, found.__getitem__)
    assert len(ladder.found[ladder.best]) >= steps.ENOUGH
    assert all(len(times) <= steps.ENOUGH for times in ladder.found.values())


# --- reasons -------------------------------------------------------------------------------------


def test_a_reason_names_what_is_worse_with_less_and_with_more() -> None:
    found = {
        4: figures(final=2.0, queue=1.0),
        8: figures(),
        16: figures(final=1.5, token=0.02),
        32: figures(final=9.0),
    }
    assert reason("max_num_seqs", found, 8) == [
        "With max_num_seqs = 8 95 of 100 captions are finished within 1000 ms of being said, and 95"
        " of 100 first texts come within 200 ms.",
        "4 is worse: 95 of 100 captions take 2000 ms, not 1000 ms (jobs wait 1000 ms for a place"
        " instead of 50 ms).",
        "16 is worse: 95 of 100 captions take 1500 ms, not 1000 ms (a token takes 20 ms instead of"
        " 10.0 ms).",
    ]


def test_a_load_that_nothing_keeps_up_with_is_said_to_be_one() -> None:
    found = {8: figures(growing=True, made=4.0, final=12.0)}
    told = reason("batch", found, 8)
    assert told[0] == (
        "No batch keeps up with this load: 8 makes 4.0 captions a second of the 10.0 that are asked"
        " for, the most there are."
    )
    assert "12.0 s" in told[1]
