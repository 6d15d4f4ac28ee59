"""Tables for terminals."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caption_tools.report.table import Cell, number, pairs, prose, text


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("text", "text"),
        (None, "-"),
        (math.nan, "-"),
        (math.inf, "inf"),
        (0, "0"),
        (1234, "1,234"),
        (0.0, "0.00"),
        (0.00123, "0.0012"),
        (0.0567, "0.057"),
        (1.234, "1.23"),
        (-12.34, "-12.3"),
        (1234.5, "1,234"),
    ],
)
def test_a_number_is_as_long_as_it_needs_to_be(value: Cell, written: str) -> None:
    assert number(value) == written


def test_columns_are_of_equal_width_and_numbers_flush_right() -> None:
    assert text(("name", "a"), (("one", 1), ("three", 1000))) == (
        "name       a\none        1\nthree  1,000"
    )


def test_columns_that_do_not_fit_go_on_below_behind_the_first_again() -> None:
    heads, rows = ("name", "aaaa", "bbbb", "cccc"), (("one", 1, 2, 3),)
    assert text(heads, rows, width=16) == (
        "name  aaaa  bbbb\none      1     2\n\nname  cccc\none      3"
    )
    assert text(heads, rows, width=22) == text(heads, rows)
    assert text(heads, rows, left=2, width=16) == (
        "name  aaaa  bbbb\none   1        2\n\nname  aaaa  cccc\none   1        3"
    )


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=12), st.integers(1, 60))
def test_no_column_is_lost_however_narrow_the_line(row: list[int], width: int) -> None:
    heads = [f"h{place}" for place in range(len(row))]
    folded = text(heads, [row], width=width)
    assert set(heads) <= set(folded.split())
    blocks = folded.split("\n\n")
    assert all(
        len(line) <= width or len(block.split("\n")[0].split()) <= 2
        for block in blocks
        for line in block.split("\n")
    )


def test_a_long_text_beside_a_name_is_folded_below_itself() -> None:
    rows = [("a", "one two three"), ("long", "four")]
    assert pairs(rows) == "a     one two three\nlong  four"
    assert pairs(rows, 14) == "a     one two\n      three\nlong  four"
    assert pairs([]) == ""


def test_a_sentence_is_broken_between_words_and_a_long_word_is_left_whole() -> None:
    assert prose("one two three") == "one two three"
    assert prose("one two three", 8) == "one two\nthree"
    assert prose("see http://a-long-address", 8, "  ") == "see\n  http://a-long-address"
