"""Units of text, and the keys by which they are compared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.word_units import common, density, key, keyed, spaced, split

TEXTS = st.text(max_size=80) | st.text(
    alphabet="ab1 .,'-。「」今日ไม้\u0301\u200d👍🏽\n", max_size=40
)


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("", []),
        ("  ", ["  "]),
        ("so it goes", ["so", " it", " goes"]),
        (" so  it\ngoes ", [" so", "  it", "\ngoes", " "]),
        (
            "it costs 3.50 euros, doesn't it?",
            ["it", " costs", " 3.50", " euros,", " doesn't", " it?"],
        ),
    ],
)
def test_a_word_carries_the_space_before_it(text: str, units: list[str]) -> None:
    assert split(text, True) == units


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("", []),
        ("今日は。", ["今", "日", "は", "。"]),
        ("今日 は ", ["今", "日", " は", " "]),
        ("Python 3.12を使う", ["Python", " 3.12", "を", "使", "う"]),
        ("約50%です", ["約", "50%", "で", "す"]),
        ("C++とdon't", ["C++", "と", "don't"]),
        ("OK,好。", ["OK", ",", "好", "。"]),
        ("看example.com/a吧", ["看", "example.com/a", "吧"]),
        ("が\u3099ぱ", ["が\u3099", "ぱ"]),
        ("cafe\u0301s好", ["cafe\u0301s", "好"]),
        ("น้ำดื่ม", ["น้ำ", "ดื่", "ม"]),
        ("好👩‍👩‍👧了👍🏽", ["好", "👩‍👩‍👧", "了", "👍🏽"]),
    ],
)
def test_without_spaces_a_unit_is_a_character_or_a_word_in_other_letters(
    text: str, units: list[str]
) -> None:
    assert split(text, False) == units


@given(TEXTS, st.booleans())
def test_the_units_joined_are_the_text(text: str, spaced: bool) -> None:
    assert "".join(split(text, spaced)) == text


@given(TEXTS, st.booleans())
def test_only_the_last_unit_may_be_white_space_and_no_other_ends_with_it(
    text: str, spaced: bool
) -> None:
    units = split(text, spaced)
    assert all(unit.rstrip() == unit != "" for unit in units[:-1])


@given(TEXTS)
def test_no_unit_begins_with_a_mark_that_belongs_to_the_character_before_it(text: str) -> None:
    marks = {"\u0301", "\u200d", "\u0e49", "\U0001f3fd"}
    assert not any(unit[0] in marks for unit in split(text, False)[1:])


@pytest.mark.parametrize(
    ("lang", "words", "size"),
    [
        ("en", True, 1),
        ("ko", True, 1),
        ("ar", True, 1),
        ("ja", False, 2),
        ("zh", False, 2),
        ("zh-Hant", False, 2),
        ("th", False, 3),
        ("zh-Latn", True, 1),
    ],
)
def test_the_script_decides_whether_units_are_words_and_how_many_make_a_word(
    lang: str, words: bool, size: int
) -> None:
    assert spaced(lang) is words
    assert density(lang) == size


def test_words_joined_by_a_dash_have_one_key() -> None:
    assert keyed("a—b c", True)[0] == ["a—b", "c"]


def test_a_closing_quotation_mark_belongs_to_the_unit_before_it() -> None:
    assert keyed("你好”他", False) == (["你", "好", "他"], [1, 3, 4])


def test_control_characters_around_a_word_do_not_count() -> None:
    assert key("\x07word\x07") == "word"


@pytest.mark.parametrize(
    ("a", "b", "count"),
    [("", "", 0), ("abc", "", 0), ("abc", "abd", 2), ("ab", "abc", 2), ("xb", "ab", 0)],
)
def test_common_returns_the_length_of_the_common_prefix(a: str, b: str, count: int) -> None:
    assert common(a, b) == common(b, a) == count
    assert common(list(a), list(b)) == count


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (" Hello", "hello"),
        (" “Hello,”", "hello"),
        (" don't!", "don't"),
        ("(3.50)", "3.50"),
        ("Straße", "strasse"),
        ("50%", "50%"),
        ("C++,", "c++"),
        ("#1", "#1"),
        ("R&D", "r&d"),
        ("“&”", "&"),
        ("¿Qué", "qué"),
        ("\u200bzero\ufeff", "zero"),
        ("。", ""),
        (" ...", ""),
        ("-", ""),
        (" ", ""),
        ("", ""),
        ("👍", "👍"),
    ],
)
def test_case_and_punctuation_around_a_unit_do_not_count(unit: str, expected: str) -> None:
    assert key(unit) == expected


@given(TEXTS)
def test_a_key_is_its_own_key(text: str) -> None:
    assert key(key(text)) == key(text)


@pytest.mark.parametrize(
    ("text", "lang", "heads"),
    [
        ("Yes, well.", "en", ["Yes,", "Yes, well."]),
        ("so ... go on", "en", ["so ...", "so ... go", "so ... go on"]),
        ("so - go", "en", ["so", "so - go"]),
        ("... so", "en", ["... so"]),
        ("so . . go", "en", ["so . .", "so . . go"]),
        ("¿ qué ¡", "es", ["¿ qué"]),
        ("好。「是", "zh", ["好。", "好。「是"]),
        ("好」。是 ", "zh", ["好」。", "好」。是"]),
    ],
)
def test_separate_closing_marks_belong_to_the_unit_before_them(
    text: str, lang: str, heads: list[str]
) -> None:
    keys, ends = keyed(text, spaced(lang))
    assert [text[:end] for end in ends] == heads
    assert len(keys) == len(heads)


@given(TEXTS, st.booleans())
def test_a_text_cut_behind_a_keyed_unit_has_the_keys_up_to_there(text: str, spaced: bool) -> None:
    keys, ends = keyed(text, spaced)
    assert all(keys)
    assert ends == sorted(set(ends))
    for count, end in enumerate(ends, 1):
        assert keyed(text[:end], spaced) == (keys[:count], ends[:count])
