"""Tests of numbers in figures, in words, and in both."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gateway.text.numbers import may_have_numbers, numbers, reads


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        # Figures
        ("1,234,567 people and 12.5%", "en", [1_234_567, 12.5]),
        ("1.234.567 Leute und 12,5 %", "de", [1_234_567, 12.5]),
        ("1 234 567 personnes", "fr", [1_234_567]),
        ("at 9:45 in 2025", "en-GB", [9, 45, 2025]),
        ("1.5 Tonnen", "xx", [1.5]),
        # Words
        ("three hundred and twenty-five chairs", "en", [325]),
        ("a hundred and three", "en", [103]),
        (
            "fifteen hundred, then nineteen ninety-five, or twenty twenty-six",
            "en",
            [1500, 1995, 2026],
        ),
        ("twenty 25 and 20 twenty-five", "en", [20, 25, 20, 25]),
        ("dreihundertfünfundzwanzig, elfhundert und siebzehn", "de", [325, 1100, 17]),
        ("quatre-vingt-dix-neuf, soixante et onze, septante-deux", "fr", [99, 71, 72]),
        ("deux cents, trois cent quatre, vingt pour cent", "fr", [200, 304, 20]),
        ("treinta y cinco, doscientas veintiuna, cien", "es", [35, 221, 100]),
        ("nine thirty or eleven fifteen", "en", [9, 30, 11, 15]),
        ("no number and nothing", "en", []),
        # Scales
        ("two million five hundred thousand euros", "en", [2_500_000]),
        ("two million and fifty thousand", "en", [2_050_000]),
        ("2.5 million, 3 billion", "en", [2_500_000, 3_000_000_000]),
        ("2,5 Mio. Euro und 3 Mrd", "de", [2_500_000, 3_000_000_000]),
        ("zweitausendfünfhundert, eine Million, tausend Dank", "de", [2500, 1_000_000]),
        ("mille deux cents", "fr", [1200]),
        ("trois milliards", "fr", [3_000_000_000]),
        ("treinta y cinco mil, tres mil millones, mil gracias", "es", [35_000, 3_000_000_000]),
        # Japanese and Chinese
        ("250万円", "ja", [2_500_000]),
        ("1億2000万円と8万2千ドル", "ja", [120_000_000, 82_000]),
        ("3,000万", "ja", [30_000_000]),
        ("二十五人、三百二十五、百八", "ja", [25, 325, 108]),
        ("二〇二五年的 200 万元", "zh", [2025, 2_000_000]),
        ("一千万和十二亿", "zh", [10_000_000, 1_200_000_000]),
        ("万里", "zh", []),
        ("一番、七八个人、数百万", "zh", []),
        ("星期五21:00", "zh", [21, 0]),
    ],
)
def test_numbers_are_read_as_the_language_writes_them(
    text: str, language: str, expected: list[float]
) -> None:
    assert [number.value for number in numbers(text, language)] == list(map(Fraction, expected))


def test_figures_of_a_number_are_given_if_it_has_neither_words_nor_a_scale() -> None:
    found = numbers("1,234.5 or 2.5 or 3 million or three", "en")
    assert [number.figures for number in found] == ["1234", "5", "2", "", ""]
    assert [number.figures for number in numbers("1,234人と3万", "ja")] == ["1234", ""]


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_every_number_word_to_999_is_read(language: str) -> None:
    num2words = pytest.importorskip("num2words").num2words
    for n in range(1, 1000):
        word = num2words(n, lang=language)
        assert [number.value for number in numbers(word, language)] == [n], word
        assert n < 13 or may_have_numbers(word, language), word


def test_a_text_without_numbers_is_told_by_a_cheap_test() -> None:
    assert not may_have_numbers("We are here.", "en")
    assert not may_have_numbers("ここです。", "ja")
    assert may_have_numbers("We are here.", "xx")


def test_languages_whose_number_words_are_read_are_known() -> None:
    assert reads("de-AT") and reads("zh") and not reads("ru")
