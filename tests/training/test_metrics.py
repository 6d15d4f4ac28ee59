"""Figures that must survive translation, and text that is taken back."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import metrics
from training.figures import LANGUAGES, thousands
from training.slots import SLOTS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("No figure at all.", []),
        ("240,000 euros, 240.000 Euro, 240 000 euros", [240_000] * 3),
        ("24万ユーロ, 24万欧元, ２４万", [240_000] * 3),
        ("1億2000万人", [120_000_000]),
        ("1.5 million, 1,5 Millionen, 1,5 millón, 150万", [1_500_000] * 4),
        ("3亿", [300_000_000]),
        ("At 10:30 on the 5th", [5, 10, 30]),
        ("１２時３０分", [12, 30]),
        ("in 2023 400 people", [400, 2023]),
        ("version 2.4.1", [1, 2, 4]),
        ("2.5 or 2,5", [2, 2, 5, 5]),
        ("12 milestones", [12]),
    ],
)
def test_figures_are_numbers_however_they_are_written(text: str, found: list[int]) -> None:
    assert sorted(metrics.figures(text).elements()) == found


@given(st.integers(0, 10**7))
def test_separators_do_not_change_a_figure(number: int) -> None:
    assert {tuple(metrics.figures(text)) for text in thousands(number)} == {(number,)}


@pytest.mark.parametrize(
    ("source", "made", "languages"),
    [
        ("Um 3 Uhr mit 12 Leuten.", "At three o'clock with twelve people.", "de en"),
        ("We need eleven of them.", "Wir brauchen 11 davon.", "en de"),
        ("We meet on June 12.", "6月12日に会います。", "en ja"),
        ("6月12日开会。", "The meeting is on June 12.", "zh en"),
        ("At half past three.", "3:30に。", "en ja"),
        ("It costs 240,000 euros.", "24万ユーロです。", "en ja"),
        ("2 people", "两个人", "en zh"),
    ],
)
def test_a_small_figure_may_become_a_word_and_a_word_a_figure(
    source: str, made: str, languages: str
) -> None:
    assert metrics.kept(source, made, *languages.split())


@pytest.mark.parametrize(
    ("source", "made", "languages"),
    [
        ("It costs 240,000 euros.", "2万4千ユーロです。", "en ja"),
        ("We meet on June 12.", "6月13日に会います。", "en ja"),
        ("Um 3 Uhr.", "At four o'clock.", "de en"),
        ("Um 3 Uhr.", "At three, or 5.", "de en"),
        ("13 people", "thirteen people", "en en"),
        ("2 and 2", "two", "en en"),
    ],
)
def test_another_figure_is_not_the_same(source: str, made: str, languages: str) -> None:
    assert not metrics.kept(source, made, *languages.split())


@given(st.sampled_from(["n", "big", "money", "year", "date", "phone"]), st.randoms())
def test_what_slots_become_is_kept_in_every_direction(slot: str, draw: Random) -> None:
    values = dict(zip(LANGUAGES, SLOTS[slot](draw), strict=True))
    for language in LANGUAGES[1:]:
        assert metrics.kept(values["en"], values[language], "en", language)
        assert metrics.kept(values[language], values["en"], language, "en")


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([["a"], ["a", "b"], ["a", "b", "c"]], 0.0),
        ([["a", "b"], ["a", "c"]], 0.5),
        ([["x", "y"], ["a", "b"]], 1.0),
        ([[]], 0.0),
    ],
)
def test_erasure_counts_units_taken_back_for_each_unit_in_the_end(
    history: list[list[str]], expected: float
) -> None:
    assert metrics.erasure([history]) == expected


def test_erasure_is_taken_over_all_units_of_all_utterances() -> None:
    assert metrics.erasure([[["x"], ["a"]], [["a", "b", "c"]]]) == 0.25
