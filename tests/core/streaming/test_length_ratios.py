"""Lengths of translations: what is learnt of them, and how much of one is needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.streaming.length_ratios import MARGIN, MEMORY, LengthRatios
from gateway.core.streaming.stability import StabilityRules

RULES = StabilityRules(mask=2, early=1, dense=4)
SPOKEN = "abcd " * 20  # 100 characters
WORDS = "wxyz " * 20  # as many, in 21 units: the last space is one


def needed(text: str, *, target: str = "de", translation: str = WORDS, prefix: str = "") -> int:
    """Return the needed part of the translation of ``text`` after one finished caption."""
    made = LengthRatios(RULES)
    made.learn("en", target, SPOKEN, translation)
    return made.needed("en", target, text, prefix)


def test_the_whole_translation_is_needed_until_the_pair_has_a_finished_caption() -> None:
    made = LengthRatios(RULES)
    assert made.needed("en", "de", SPOKEN) == 0
    made.learn("en", "de", SPOKEN, WORDS)
    assert made.needed("en", "de", SPOKEN) > 0
    assert made.needed("en", "fr", SPOKEN) == made.needed("de", "en", SPOKEN) == 0


def test_the_words_that_are_masked_are_not_needed() -> None:
    unit = 100 / 21
    assert needed(SPOKEN) == -(-(MARGIN * 100 - 2 * unit) // 1)


def test_a_language_with_shorter_texts_needs_fewer_characters() -> None:
    long, short = needed(SPOKEN), needed(SPOKEN, translation=WORDS[:50])
    assert short < long / 1.9


def test_in_scripts_without_spaces_the_masked_words_are_characters() -> None:
    assert needed(SPOKEN, target="zh", translation="字" * 50) == -(-(MARGIN * 50 - 2 * 4) // 1)


def test_the_words_that_are_shown_early_and_one_more_are_always_needed() -> None:
    assert needed("a") == needed("abcd abcd") == 10
    assert needed("a", target="zh", translation="字" * 50) == 4


def test_a_prefix_is_not_counted_and_one_character_behind_it_is_always_needed() -> None:
    assert needed(SPOKEN, prefix=WORDS[:20]) == needed(SPOKEN) - 20
    assert needed(SPOKEN, prefix=WORDS) == 1


def test_all_is_needed_if_no_word_is_masked() -> None:
    made = LengthRatios(StabilityRules(mask=0))
    made.learn("en", "de", SPOKEN, WORDS)
    assert made.needed("en", "de", SPOKEN) == 0


def test_an_empty_translation_teaches_nothing() -> None:
    assert needed(SPOKEN, translation="") == 0


def test_later_captions_count_more_than_earlier_ones() -> None:
    made = LengthRatios(RULES)
    for _ in range(100):
        made.learn("en", "de", SPOKEN, WORDS * 2)
    before = made.needed("en", "de", SPOKEN)
    made.learn("en", "de", SPOKEN, WORDS)
    after = made.needed("en", "de", SPOKEN)
    assert needed(SPOKEN) < after < before
    # The newest of very many captions has the weight that the others lack.
    assert after == pytest.approx(before - (1 - MEMORY) * MARGIN * 100, abs=2)


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_of_any_texts_at_least_one_character_is_needed_or_all(
    spoken: str, made: str, growing: str
) -> None:
    found = LengthRatios(RULES)
    found.learn("en", "ja", spoken, made)
    assert found.needed("en", "ja", growing, made) >= (1 if spoken and made else 0)
