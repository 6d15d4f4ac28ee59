"""The comparison of steps, and the best value of a setting."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from caption_tools.report.stats import Summary
from caption_tools.speech.text import lines
from caption_tools.tune.model import steps
from caption_tools.tune.model.load import Load, described
from caption_tools.tune.model.steps import Figures, Tried, TuneReport, best, compare, made, rises
from gateway.settings import catalogue, loading


def summary(p95: float, count: int = 100) -> Summary:
    """Return waits whose 95th percentile is ``p95`` ms."""
    return Summary(count, p95 / 4, p95 / 5, p95 / 2, p95, p95 * 1.2, p95 * 1.2, p95 * 1.2)


def figures(*, final: float = 1000.0, first: float = 200.0, **others: Any) -> Figures:
    given = {"made": 10.0, "asked": 10.0, "token": 10.0, "running": 8} | others
    return Figures(final=summary(final), first=summary(first), **given)


@pytest.mark.parametrize(
    ("new", "verdict", "why"),
    [
        (figures(), 0, "no difference"),
        (figures(final=1050), 0, "no difference"),
        (figures(final=1200), -1, "95 of 100 captions take 1200 ms, not 1000 ms"),
        (figures(final=800), 1, "95 of 100 captions take 800 ms, not 1000 ms"),
        (figures(first=300), -1, "95 of 100 first texts take 300 ms, not 200 ms"),
        (figures(first=100), 1, "95 of 100 first texts take 100 ms, not 200 ms"),
        (figures(final=800, first=900), 1, "95 of 100 captions take 800 ms"),
        (figures(growing=True), -1, "it does not keep up with the load"),
        (figures(lost=0.02), -1, "it does not keep up with the load"),
        (figures(lost=0.01), 0, "no difference"),
    ],
)
def test_a_step_is_judged_beside_another_by_the_first_figure_that_differs(
    new: Figures, verdict: int, why: str
) -> None:
    found, told = compare(new, figures())
    assert found == verdict
    assert why in told


def test_a_step_that_keeps_up_is_better_than_one_that_does_not_however_late_it_is() -> None:
    assert compare(figures(final=9000), figures(growing=True))[0] == 1


def test_if_no_step_keeps_up_the_one_that_makes_more_is_better() -> None:
    slow, quick = figures(growing=True, made=5.0), figures(growing=True, made=8.0, final=3000)
    assert compare(quick, slow) == (1, "8.0 captions a second, not 5.0")
    assert compare(slow, quick) == (-1, "5.0 captions a second, not 8.0")
    assert compare(figures(growing=True, final=2000), figures(growing=True))[0] == -1


def test_the_smallest_of_equal_steps_is_best() -> None:
    assert best({value: figures() for value in (8, 4, 16)}) == 4


def test_a_step_is_not_best_by_a_difference_that_chance_explains() -> None:
    assert best({1: figures(), 2: figures(final=950)}) == 1


def test_many_small_gains_are_a_gain() -> None:
    falling = {value: figures(final=1000 * 0.94**n) for n, value in enumerate((1, 2, 4, 8))}
    assert best(falling) == 4


def test_earlier_first_texts_decide_between_equal_captions() -> None:
    assert best({4: figures(first=400), 8: figures(final=1010, first=50)}) == 8


def test_if_nothing_keeps_up_the_step_that_makes_most_is_best() -> None:
    assert best({n: figures(growing=True, made=float(n), final=n) for n in (1, 2, 4)}) == 4


times = st.floats(1.0, 20_000.0)
measured = st.builds(
    figures,
    final=times,
    first=times,
    growing=st.booleans(),
    lost=st.floats(0.0, 0.03),
    made=st.floats(0.1, 20.0),
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


# --- the report ----------------------------------------------------------------------------------


def load(text: str = "9 streams, 5-60 words", seconds: float = 60.0) -> Load:
    return described(text, seconds, lines(), "en", Random(0))


def tried(**changes: object) -> Tried:
    fields: dict[str, object] = {
        "setting": "max_num_seqs",
        "usual": 16,
        "steps": {4: figures(final=2000), 8: figures(cache=0.25, running=7)},
    }
    return Tried(**(fields | changes))  # type: ignore[arg-type]


LOAD = load()


def found(*all: Tried, load: Load = LOAD) -> TuneReport:
    return made("vllm:qwen", load, all or (tried(),))


def test_a_report_is_a_table_reasons_and_settings() -> None:
    text = steps.text(found())
    rows = [line for line in text.splitlines() if line.startswith(("4 ", "8 <-", "max_num_seqs "))]
    assert len({len(row) for row in rows[:3]}) == 1
    assert rows[0].split()[:3] == ["max_num_seqs", "captions/s", "final"]
    assert rows[1].split()[:4] == ["4", "10.0", "400", "2,000"]
    assert rows[2].split()[:5] == ["8", "<-", "10.0", "200", "1,000"]
    assert "4 is worse: 95 of 100 captions take 2000 ms, not 1000 ms." in text
    assert "With max_num_seqs = 8 95 of 100 captions are finished within 1000 ms" in text
    assert text.endswith("max_num_seqs = 8")


def test_on_a_narrow_terminal_no_line_is_longer_than_it() -> None:
    wide = load("9 streams, 5-60 words, 3 languages, partials")
    whole = steps.text(found(load=wide))
    text = steps.text(found(load=wide), 80)
    assert max(map(len, whole.splitlines())) > 80
    said = text.partition("# Found by")[0]
    assert max(map(len, said.splitlines())) <= 80
    assert set(whole.split()) == set(text.split()), "nothing is left out"


@pytest.mark.parametrize("name", ["max_num_batched_tokens", "batch", "inter_threads"])
def test_the_settings_are_a_file_that_the_gateway_takes(tmp_path: Path, name: str) -> None:
    other = tried(setting=name, steps={4: figures()})
    path = tmp_path / "tuned.toml"
    path.write_text(found(tried(), other).toml, "utf-8")
    loaded = loading.load({"config": str(path)}, {}).settings
    assert (loaded.max_num_seqs, catalogue.value(loaded, name)) == (8, 4)


def test_the_settings_of_one_table_name_the_table_that_they_belong_to() -> None:
    report = made("vllm:qwen", LOAD, (tried(),), table="large")
    assert report.engine == "large (vllm:qwen)"
    text = steps.text(report)
    assert text.endswith('[[engine]]\nname = "large"\nmax_num_seqs = 8')


def test_a_value_that_no_engine_starts_with_is_named_with_the_reason() -> None:
    assert "2 cannot be used: no memory" in found(tried(unusable={2: "no memory"})).reasons


def test_the_reason_says_if_no_step_keeps_up_with_the_load() -> None:
    told = found(tried(steps={8: figures(growing=True, made=4.0, final=12_000)})).reasons
    assert told[0] == (
        "No max_num_seqs keeps up with this load: 8 makes 4.0 captions a second of the 10.0 that"
        " are asked for."
    )


def test_weaknesses_of_a_search_are_warnings() -> None:
    assert found().warnings == ()
    weak = {8: figures(doubts=("A client process used 99% of its core.",), running=7)}
    few = replace(LOAD, texts=5)
    uneven = replace(few, lengths=(40.0,) * 5)
    first, uniform, late = found(tried(steps=weak), load=uneven).warnings
    assert "from 5 different texts" in first
    assert "uniform" in uniform
    assert late == "max_num_seqs = 8 is in doubt: A client process used 99% of its core."
    assert "Warning: This load is known from" in steps.text(found(load=few))
    quiet = found(tried(steps={8: replace(figures(running=7), final=summary(1000, 30))}))
    assert "A step had 30 captions" in quiet.warnings[0]


@pytest.mark.parametrize("tight", [{"cache": 0.96}, {"evicted": 2}])
def test_a_kv_cache_that_is_too_small_is_a_warning(tight: dict[str, Any]) -> None:
    (told,) = found(tried(steps={8: figures(running=7, **tight)})).warnings
    assert "of the KV cache" in told


def test_a_best_value_that_is_the_largest_tried_is_a_warning() -> None:
    def warned(running: int, best: int = 4, setting: str = "max_num_seqs") -> bool:
        waits = {value: 1000 if value == best else 2000 for value in (2, 4)}
        some = {value: figures(running=running, final=ms) for value, ms in waits.items()}
        told = found(tried(setting=setting, steps=some)).warnings
        assert not told or told[0].endswith("--try max_num_seqs=4,8")
        return bool(told)

    assert warned(4)
    assert not warned(3)
    assert not warned(4, best=2)
    assert not warned(4, setting="inter_threads")
