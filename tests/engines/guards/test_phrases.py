"""Tests that the data in `gateway.engines.guards.phrases` has the form that the rules need."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.engines.guards.measures import WORD
from gateway.engines.guards.phrases import (
    AROUND,
    ASSISTANTS,
    NEAR,
    REFUSALS,
    REFUSING,
    Phrases,
)


@pytest.mark.parametrize("word", sorted(AROUND))
def test_words_of_preambles_are_single_lower_case_words(word: str) -> None:
    assert WORD.fullmatch(word)
    assert word == word.casefold()


def test_languages_have_no_script_or_region() -> None:
    tags = {tag for family in NEAR for tag in family} | set(REFUSING)
    assert all(tag.isalpha() and tag.islower() and len(tag) in (2, 3) for tag in tags)


@pytest.mark.parametrize("phrases", [REFUSALS, ASSISTANTS])
def test_every_match_of_a_pattern_has_one_of_its_signs(phrases: Phrases) -> None:
    @given(st.from_regex(phrases.pattern), st.data())
    def check(text: str, data: st.DataObject) -> None:
        dotless, dotted = text.replace("i", "\u0131"), text.replace("i", "\u0130")
        spelt = (text, text.upper(), text.lower(), dotless, dotted, dotted.replace("I", "\u0130"))
        text = data.draw(st.sampled_from(spelt))
        assert str(phrases.search(text)) == str(phrases.pattern.search(text))

    check()
