"""Tests of the weight of text and of the word caches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.engines.guards.measures import (
    WORD_CACHE_LONGEST,
    WORD_CACHE_SIZE,
    WordCache,
    has_crude_sign,
    is_filler,
    weight,
)
from gateway.engines.guards.phrases import CRUDE, RUDE


def test_a_dense_character_weighs_as_much_as_two_and_a_half_others() -> None:
    assert weight("abcd") == 4
    assert weight("漢字") == 5


def test_a_word_cache_is_bounded() -> None:
    lexicon = WordCache(None)
    lexicon.learn("end.")
    for n in range(1, WORD_CACHE_SIZE):
        assert lexicon.learn(f"Word{n}") == f"word{n}"
    assert len(lexicon.words) == WORD_CACHE_SIZE
    assert lexicon.learn("Word1") == "word1"
    assert len(lexicon.words) == WORD_CACHE_SIZE
    assert lexicon.signed == {"end.": "end"}
    lexicon.learn("more")
    assert lexicon.words == {"more": "more"}
    assert not lexicon.signed
    assert lexicon.learn("A" * (WORD_CACHE_LONGEST + 1)) == "a" * (WORD_CACHE_LONGEST + 1)
    assert lexicon.words == {"more": "more"}
    assert [lexicon.learn(none) for none in (",", " ", "\u4e2d", "a b", "")] == [""] * 5


def test_a_word_is_cached_with_the_sign_that_ends_it() -> None:
    lexicon = WordCache(RUDE["de"])
    said = (
        "Tag,",
        "war.",
        "12!",
        ",",
        "a,b.",
        "Fick,",
        "\u4e2d,",
        "Tag",
        f"{'A' * WORD_CACHE_LONGEST}.",
    )
    assert [lexicon.learn(word) for word in said] == ["", "", "", "", "", "", "", "tag", ""]
    assert lexicon.signed == {"Tag,": "tag", "war.": "war", "12!": "12"}


@pytest.mark.parametrize("rest", ["", "a" * (WORD_CACHE_LONGEST + 1)], ids=["short", "long"])
def test_a_crude_word_is_found_beside_a_word_of_any_length(rest: str) -> None:
    assert has_crude_sign(f"this is shit {rest}")
    assert not has_crude_sign(f"this is fine {rest}")


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ("Hell", "hello", "(shit)", "bullshit", "n\u0113", "\u4ed6\u5988\u7684", "a" * 40)
            ),
            st.from_regex(CRUDE.pattern, fullmatch=True),
            st.text(max_size=4),
        )
    )
)
def test_a_text_is_crude_if_one_of_its_words_is(words: list[str]) -> None:
    text = " ".join(words)
    assert has_crude_sign(text) is (CRUDE.search(text) is not None)


@pytest.mark.parametrize("text", ["um", "Um, uh ...", "Äh!", "えっと、", "あのー", "嗯。", "euh"])
def test_words_that_fill_a_pause_are_fillers(text: str) -> None:
    assert is_filler(text)


@pytest.mark.parametrize("text", ["", "...", "um yes", "umbrella", "そうですね", "好的", "42"])
def test_text_with_any_other_word_and_text_without_words_is_no_filler(text: str) -> None:
    assert not is_filler(text)
