"""Tests of repetitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.engines.guards.loops import NGRAM, RepeatCounter, stutters


@given(st.lists(st.sampled_from("abc"), max_size=40), st.data())
def test_repetitions_of_the_last_phrase_are_counted(tokens: list[str], data: st.DataObject) -> None:
    runs = RepeatCounter()
    for at, token in enumerate(tokens):
        if token not in runs.seen and data.draw(st.booleans()):
            runs.seen[token] = at
            runs.tokens.append(token)
            continue
        best = (1, 1)
        for n in range(1, min(NGRAM, at) + 1):
            same = 0
            while at - same - n >= 0 and tokens[at - same] == tokens[at - same - n]:
                same += 1
            if same // n + 1 > best[1]:
                best = (n, same // n + 1)
        phrase, times = runs.add(token)
        if phrase > NGRAM:
            assert tokens[at - NGRAM : at + 1] == tokens[at - phrase - NGRAM : at - phrase + 1]
            assert times > 1
        else:
            assert (phrase, times) == best


def test_a_phrase_longer_than_eight_words_repeats_from_its_ninth_word_on() -> None:
    runs = RepeatCounter()
    found = [runs.add(token) for token in "abcdefghijkl" * 3]
    assert found[:20] == [(1, 1)] * 20
    assert found[20:] == [(12, 2)] * 4 + [(12, 3)] * 12


@pytest.mark.parametrize(
    ("text", "stutter"),
    [
        ("he laughed hahahahahahahahahaha", True),
        ("und-und-und-und-und-und", True),
        ("Ja . . . . . . . . . . .", True),
        ("no, no, no, no, no, no, no", False),  # words
        ("哈" * 20, False),  # dense characters are words
        ("hahaha", False),
        ("Donaudampfschifffahrtsgesellschaft", False),
    ],
)
def test_a_word_or_signs_that_repeat_a_few_characters_stutter(text: str, stutter: bool) -> None:
    assert stutters(text, 18) is stutter
