"""Cutting longer texts into sentences and joining their translations."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.sentences import join, split


def pieces(text: str, limit: int = 1000) -> list[str]:
    return [piece for piece, _ in split(text, limit)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello.", ["Hello."]),
        ("Hello. How are you? Fine!", ["Hello.", "How are you?", "Fine!"]),
        ("He said “Stop.” Then he left.", ["He said “Stop.”", "Then he left."]),
        ("Mr. Smith met Dr. Jones. They spoke.", ["Mr. Smith met Dr. Jones.", "They spoke."]),
        ("J. S. Bach wrote it.", ["J. S. Bach wrote it."]),
        ("At 3 p.m. Eastern we start.", ["At 3 p.m. Eastern we start."]),
        ("It costs 3.50 euros. Cheap.", ["It costs 3.50 euros.", "Cheap."]),
        ("see www.example.com today", ["see www.example.com today"]),
        ("und so weiter. und mehr", ["und so weiter. und mehr"]),
        ("Es ist so. Über uns.", ["Es ist so.", "Über uns."]),
        ("你好。今天开会吗？是的。", ["你好。", "今天开会吗？", "是的。"]),
        ("one\ntwo\n\nthree", ["one", "two", "three"]),
        ("  \n ", []),
        ("", []),
    ],
)
def test_a_text_is_cut_where_a_sentence_or_a_line_ends(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


def test_a_sentence_over_the_limit_is_cut_at_a_space() -> None:
    assert pieces("one two three four", 9) == ["one two", "three", "four"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two, three four five", ["one two,", "three four", "five"]),
        ("a, three four", ["a, three", "four"]),
        ("in 1,200 cases", ["in 1,200", "cases"]),
        ("今日は雨なので、家にいます", ["今日は雨なので、", "家にいます"]),
    ],
)
def test_a_sentence_over_the_limit_is_rather_cut_behind_a_late_comma(
    text: str, expected: list[str]
) -> None:
    assert pieces(text, 10) == expected


def test_a_word_over_the_limit_is_cut_where_the_limit_is() -> None:
    assert pieces("abcdefgh", 3) == ["abc", "def", "gh"]


def test_translated_pieces_keep_their_lines_and_get_the_spaces_of_their_script() -> None:
    gaps = [gap for _, gap in split("One. Two.\n\nThree.", 1000)]
    assert join(list(zip(["A.", "B.", "C."], gaps, strict=True)), spaced=True) == "A. B.\n\nC."
    assert join(list(zip(["一。", "二。", "三。"], gaps, strict=True)), spaced=False) == (
        "一。二。\n\n三。"
    )


@example("0\x1f0", 1)
@given(
    st.text(max_size=200) | st.text(alphabet="ab .!。\n?' Aé你", max_size=60), st.integers(1, 50)
)
def test_no_word_is_lost_and_every_piece_can_be_said(text: str, limit: int) -> None:
    cut = split(text, limit)
    assert all(0 < len(piece) <= limit and piece.strip() for piece, _ in cut)
    assert "".join("".join(piece.split()) for piece, _ in cut) == "".join(text.split())
