"""The texts of a load have the lengths that were asked for, and both loads the same mean."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.journey.texts import COUNT, HIGH, LOW, cut, guess, lengths, mean, texts

WORDS = "the minutes of the last meeting are on the table".split()


def letters(text: str) -> int:
    return len(text)


def test_variable_lengths_reach_from_short_to_long_and_are_mixed() -> None:
    found = lengths("variable")
    assert len(found) == COUNT
    assert LOW <= min(found) < LOW + 2 and HIGH - 10 < max(found) <= HIGH
    assert found != sorted(found)
    assert sum(length < 50 for length in found) > COUNT / 2  # most are short


def test_uniform_texts_have_the_mean_length_of_the_variable_ones() -> None:
    (length,) = set(lengths("uniform"))
    assert abs(length - sum(lengths("variable")) / COUNT) <= 0.5


def test_every_length_occurs_once_before_they_begin_again() -> None:
    ratio = HIGH / LOW
    wanted = [round(LOW * ratio ** ((n + 0.5) / COUNT)) for n in range(COUNT)]
    assert sorted(lengths("variable")) == wanted


def test_texts_begin_in_different_places() -> None:
    assert len({text[:12] for text in texts("variable", WORDS, letters)}) > 5


def test_the_mean_is_that_of_the_texts() -> None:
    assert mean(["ab", "abcd"], letters) == 3


def test_token_counts_are_estimated_without_a_tokenizer() -> None:
    assert guess("one two three") == 4


@given(begin=st.integers(0, 50), wanted=st.integers(1, 400))
def test_a_text_is_the_fewest_words_that_are_long_enough(begin: int, wanted: int) -> None:
    text = cut(WORDS, begin, wanted, letters)
    shorter = text.rpartition(" ")[0]
    assert len(text) >= wanted and len(shorter) < wanted
    assert text.split()[0] == WORDS[begin % len(WORDS)]
