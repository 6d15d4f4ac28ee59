"""Slots: one value in six languages, and the words before it that must agree."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from gateway.text.numbers import numbers
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
    assert slots.listed(table, random.Random(0)) == (*["Anna"] * 4, "アンナ", "安娜")
    names = [slots.part("given", random.Random(seed)) for seed in range(200)]
    assert any(len(set(name)) == 1 for name in names)
    assert any(len(set(name)) == 3 for name in names)


@given(st.sampled_from(("money", "millions", "words", "percent", "big")), SEEDS)
def test_amounts_are_read_back_as_the_same_number_in_all_languages(slot: str, seed: int) -> None:
    values = slots.SLOTS[slot](random.Random(seed))
    read = [
        [number.value for number in numbers(value, language)]
        for value, language in zip(values, figures.LANGUAGES, strict=True)
    ]
    assert len(read[0]) == 1 and read.count(read[0]) == len(read), values


@pytest.mark.parametrize("number", [13, 40, 108, 110, 117, 230, 999])
def test_chinese_and_japanese_number_words_are_read_back(number: int) -> None:
    for made, language in ((figures.hanzi, "zh"), (figures.kanji, "ja")):
        assert [one.value for one in numbers(made(number), language)] == [number]


@given(SEEDS)
def test_times_in_words_name_the_same_hour_and_minute_in_all_languages(seed: int) -> None:
    values = figures.clock(random.Random(seed))
    shown = re.fullmatch(r"(\d+)時(?:(\d+)分|半)?", values[4])
    assert shown
    hour = int(shown[1])
    minute = 30 if "半" in values[4] else int(shown[2] or 0)
    assert values[5].startswith(("两" if hour == 2 else figures.hanzi(hour)) + "点")
    for value, language in zip(values[:4], figures.LANGUAGES, strict=False):
        near = {hour, hour + 1, minute, 60 - minute, 1}  # a quarter
        assert near >= {number.value for number in numbers(value, language)}, values
    if minute == 30 and " Uhr " not in values[1]:
        assert values[1] == f"halb {num2words(hour + 1, lang='de')}"
        assert values[0].startswith("half past ")


@pytest.mark.parametrize(
    ("table", "width"), [(slots.NAMES, 4), (slots.SURNAMES, 3), (slots.CITIES, 6)]
)
def test_tables_have_every_column(table: list[list[str]], width: int) -> None:
    assert {len(row) for row in table} == {width}
    assert all(cell for row in table for cell in row)
    assert len({row[0] for row in table}) == len(table)
