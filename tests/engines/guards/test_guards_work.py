"""The work of guards on outputs that no person would write."""

from __future__ import annotations

import re

import pytest

from gateway.engines.guards import complete_output
from gateway.engines.guards.complete_output import Guard, is_copy, is_other_language, judge
from gateway.engines.guards.phrases import NOTES
from gateway.errors import Rejected
from gateway.job import Job


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


@pytest.mark.parametrize(
    ("output", "judged", "refused"),
    [
        ("Er sagte je ne sais pas", "Er sagte", False),  # the rest is the source's
        ("On ne sait jamais", "On sait jamais", True),
        ("JE NE SAIS PAS", "JE NE SAIS PAS", True),  # nothing is its own
    ],
)
def test_the_language_of_an_output_is_that_of_its_own_words(
    output: str, judged: str, refused: bool
) -> None:
    asked = []

    def instead(text: str, lang: str) -> str | None:
        asked.append((text, lang))
        return "fr" if refused else None

    job = Job(id="j", text="he said je ne sais pas", source="en", target="de", partial=True)
    if refused:
        with pytest.raises(Rejected) as caught:
            judge(job, output, instead)
        assert caught.value.guard == Guard.LANGUAGE
    else:
        assert judge(job, output, instead) == ()
    assert asked == [(judged, "de")]


def test_a_near_language_is_not_taken_for_another_one() -> None:
    assert not is_other_language("Good.", "Det vet vi ikke.", "da", lambda text, lang: "nb")
    assert is_other_language("Good.", "Det vet vi ikke.", "de", lambda text, lang: "nb")
