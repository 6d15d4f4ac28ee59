"""Slots: one value in six languages, and the words before it that must agree."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import figures, slots

SEEDS = st.integers(0, 2**32)


@given(st.sampled_from(sorted(slots.SLOTS)), SEEDS)
def test_every_slot_has_a_value_in_each_of_the_six_languages(slot: str, seed: int) -> None:
    values = slots.SLOTS[slot](random.Random(seed))
    assert len(values) == len(figures.LANGUAGES) == 6
    assert all(value == value.strip() and value for value in values)
    assert not any("{" in value or "\t" in value for value in values)


@given(st.sampled_from(sorted(slots.SLOTS)), SEEDS)
def test_a_seed_gives_the_same_value_again(slot: str, seed: int) -> None:
    assert slots.SLOTS[slot](random.Random(seed)) == slots.SLOTS[slot](random.Random(seed))


@given(SEEDS)
def test_a_slot_that_stands_twice_has_one_value(seed: int) -> None:
    filled = slots.fill(["{n} and {n}"] * 6, random.Random(seed))
    assert all(text.split(" and ")[0] == text.split(" and ")[1] for text in filled)


def test_an_unknown_slot_is_an_error() -> None:
    with pytest.raises(KeyError, match="colour"):
        slots.fill(["{colour}"] * 6, random.Random(0))


def filled(monkeypatch: pytest.MonkeyPatch, language: str, text: str, value: str) -> str:
    monkeypatch.setitem(slots.SLOTS, "name", lambda _: (value,) * 6)
    columns = slots.fill([text] * 6, random.Random(0))
    return columns[figures.LANGUAGES.index(language)]


@pytest.mark.parametrize(
    ("language", "text", "value", "expected"),
    [
        ("fr", "Le rapport de {name}", "Anna", "Le rapport d'Anna"),
        ("fr", "Le rapport de {name}", "Peter", "Le rapport de Peter"),
        ("fr", "Que {name} vienne", "Emma", "Qu'Emma vienne"),
        ("fr", "Parce que {name} vient", "Yuki", "Parce que Yuki vient"),
        ("es", "Marta y {name}", "Isabel", "Marta e Isabel"),
        ("es", "Marta y {name}", "Anna", "Marta y Anna"),
        ("es", "Marta o {name}", "Omar", "Marta u Omar"),
        ("en", "a {name} rise", "8%", "an 8% rise"),
        ("en", "a {name} rise", "18%", "an 18% rise"),
        ("en", "a {name} rise", "180%", "a 180% rise"),
        ("en", "Via {name}", "Oslo", "Via Oslo"),
        ("de", "Das a {name}", "Oslo", "Das a Oslo"),
    ],
)
def test_the_word_before_a_slot_agrees_with_its_value(
    monkeypatch: pytest.MonkeyPatch, language: str, text: str, value: str, expected: str
) -> None:
    assert filled(monkeypatch, language, text, value) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (999, ("999",) * 6),
        (1200, ("1,200", "1.200", "1 200", "1.200", "1,200", "1,200")),
    ],
)
def test_large_figures_have_the_separators_of_each_language(
    number: int, expected: figures.Values
) -> None:
    assert figures.thousands(number) == expected


def test_known_names_are_transcribed_and_coined_ones_stay_in_latin_letters() -> None:
    table = [["Anna", "アンナ", "安娜", "f"]]
    people = {slots.person(table, random.Random(seed)) for seed in range(50)}
    known = ("Anna", "Anna", "Anna", "Anna", "アンナ", "安娜")
    assert known in people
    assert all(len(set(person)) == 1 for person in people - {known})


@pytest.mark.parametrize(
    ("table", "width"), [(slots.NAMES, 4), (slots.SURNAMES, 3), (slots.CITIES, 6)]
)
def test_tables_have_every_column(table: list[list[str]], width: int) -> None:
    assert {len(row) for row in table} == {width}
    assert all(cell for row in table for cell in row)
    assert len({row[0] for row in table}) == len(table)
