"""The language of an utterance among the languages of its speaker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.recognition.spoken_utterance import ENOUGH, STAY, SWITCH, LanguageChoice


def test_one_language_needs_no_choice() -> None:
    choice = LanguageChoice(("de",), "")
    assert choice.decided == "de" and choice.langs == ("de",)
    assert choice.hear("en", 1.0, 3.0)
    assert choice.decided == "de"


def test_a_clear_language_is_believed_at_once() -> None:
    choice = LanguageChoice(("de", "en"), "")
    before = choice.langs
    assert choice.hear("en", 0.95, 3.0)
    assert [before, choice.langs] == [("de", "en"), ("en",)]


def test_a_doubtful_language_is_believed_when_it_comes_again() -> None:
    choice = LanguageChoice((), "")
    assert not choice.hear("en", 0.6, 3.0)
    assert not choice.hear("de", 0.6, 3.0)
    assert choice.hear("de", 0.6, 3.0)


def test_the_language_of_the_last_utterance_needs_less_to_be_believed() -> None:
    assert LanguageChoice(("de", "en"), "de").hear("de", 0.6, 3.0)
    assert not LanguageChoice(("de", "en"), "de").hear("en", 0.6, 3.0)
    assert not LanguageChoice(("fr", "en"), "de").hear("en", 0.6, 3.0)


def test_a_recogniser_that_knows_no_language_is_believed() -> None:
    choice = LanguageChoice(("de", "en"), "de")
    assert choice.hear("", 1.0, 3.0) and choice.decided == ""


def test_a_language_that_is_not_allowed_is_never_believed() -> None:
    choice = LanguageChoice(("de", "en"), "")
    assert not choice.hear("cy", 0.99, 3.0) and not choice.hear("cy", 0.99, 3.0)
    assert not choice.settle()
    assert choice.decided == "de"


def test_short_audio_does_not_change_the_language() -> None:
    choice = LanguageChoice(("de", "en"), "de")
    assert not choice.hear("en", 0.99, 0.5) and not choice.hear("en", 0.99, 1.0)
    assert choice.hear("en", 0.99, 2.0)
    assert LanguageChoice(("de", "en"), "de").hear("de", 0.6, 0.5)


def test_at_the_end_a_very_likely_language_is_believed_however_short_the_audio() -> None:
    choice = LanguageChoice(("de", "en"), "de")
    choice.hear("en", 0.95, 1.0)
    assert choice.settle() and choice.decided == "en"


def test_the_end_decides_for_the_last_language_or_the_one_detected() -> None:
    choice = LanguageChoice(("de", "en"), "de")
    choice.hear("en", 0.6, 3.0)
    assert not choice.settle() and choice.decided == "de"
    choice = LanguageChoice(("de", "en"), "")
    choice.hear("en", 0.6, 3.0)
    assert choice.settle() and choice.decided == "en"


def test_a_language_at_a_threshold_is_believed() -> None:
    assert LanguageChoice(("de", "en"), "de").hear("de", STAY, 0.5)
    assert LanguageChoice(("de", "en"), "de").hear("en", SWITCH, ENOUGH)
    choice = LanguageChoice(("de", "en"), "de")
    assert not choice.hear("en", 0.6, ENOUGH) and choice.hear("en", 0.6, ENOUGH)
    choice = LanguageChoice(("de", "en"), "de")
    choice.hear("en", SWITCH, 1.0)
    assert choice.settle() and choice.decided == "en"


def test_the_end_decides_for_the_first_language_if_none_was_detected() -> None:
    choice = LanguageChoice(("de", "en"), "")
    assert not choice.settle() and choice.decided == "de"


def test_the_end_never_decides_for_a_last_language_that_is_not_allowed_any_more() -> None:
    choice = LanguageChoice(("fr", "en"), "de")
    choice.hear("en", 0.6, 3.0)
    assert choice.settle() and choice.decided == "en"


@given(
    st.lists(st.sampled_from(["de", "en", "fr"]), unique=True).map(tuple),
    st.sampled_from(["", "de", "en", "fr"]),
    st.lists(st.tuples(st.sampled_from(["", "de", "en", "fr"]), st.floats(0, 1))),
)
def test_the_language_never_changes_once_it_is_decided(
    allowed: tuple[str, ...], last: str, results: list[tuple[str, float]]
) -> None:
    choice = LanguageChoice(allowed, last)
    for lang, probability in results:
        before = choice.decided
        choice.hear(lang, probability, 3.0)
        assert choice.decided in ((before,) if before else (lang, ""))
        assert not allowed or choice.decided in (*allowed, "")
