"""Tables for terminals and for Markdown."""

from __future__ import annotations

import math

import pytest

from gateway.bench.table import Cell, markdown, number, text


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


def test_a_table_of_markdown() -> None:
    assert markdown(("name", "a"), (("one", 1.5),)) == "| name | a |\n| --- | --- |\n| one | 1.50 |"
