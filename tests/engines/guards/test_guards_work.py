"""The work of guards on outputs that no person would write."""

from __future__ import annotations

import re

import pytest

from gateway.engines.guards import complete_output
from gateway.engines.guards.complete_output import is_copy
from gateway.engines.guards.patterns import NOTES


class Refused:
    """A comparison of the order of words that nobody should ask for."""

    def __init__(self, *_: object, **__: object) -> None:
        raise AssertionError("the order of the words was compared")


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("good morning everyone " * 500, True),
        ("good night " * 20 + "bonjour le monde " * 20, False),
    ],
    ids=["repeated", "other words"],
)
def test_the_order_of_words_is_not_compared_if_their_numbers_tell(
    text: str, copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complete_output, "SequenceMatcher", Refused)
    source = "good morning everyone " * 500 if copied else "good night everyone here " * 10
    assert is_copy(source, text, "en", "de") is copied


def test_a_search_for_notes_looks_a_few_characters_behind_each_bracket() -> None:
    assert NOTES.search("Gut. (*** Translator's note: no)") is not None
    (most,) = re.findall(r"\\W(\S*?)\(", NOTES.pattern)
    assert most == "{0,8}", "a search without a bound is quadratic in the brackets"
