"""The language that a speaker has stated, or that texts show."""

import pytest

from gateway.core.base.validation import SpokenLanguage
from gateway.engines.profiles import Profile
from gateway.errors import ClientFault, ErrorCode


def spoken(stated: str, *sources: str, heard: str | None = None) -> SpokenLanguage:
    model = Profile(name="test", kind="raw", languages=sources)
    return SpokenLanguage(stated, model, lambda text, among: heard)


def test_a_speaker_has_english_if_the_model_reads_it_and_else_its_first_language() -> None:
    assert spoken("auto", "de", "en").of("Na ja") == "en"
    assert spoken("auto", "de", "fr").of("Na ja") == "de"
    assert spoken("auto").of("Na ja") == "en"


def test_a_text_is_in_the_stated_language_or_in_the_one_that_it_names() -> None:
    language = spoken("en", "de", "en", heard="fr")
    assert language.of("Good morning") == "en"
    assert language.of("Guten Morgen", "DE") == "de"
    with pytest.raises(ClientFault) as caught:
        language.of("qaq", "tlh")
    assert caught.value.code is ErrorCode.LANG_UNSUPPORTED


def test_a_text_in_none_of_the_stated_languages_counts_as_the_first_of_them() -> None:
    assert spoken("de,fr", "de", "en", "fr", heard="en").of("Good morning") == "de"
    assert spoken("de,fr", "de", "en", "fr", heard="fr").of("Bonjour") == "fr"


def test_a_language_that_is_not_translated_is_not_assumed_of_the_next_text() -> None:
    heard: list[str | None] = ["de", "tlh", None]
    model = Profile(name="test", kind="raw", languages=("de", "en"))
    language = SpokenLanguage("auto", model, lambda text, among: heard.pop(0))
    assert [language.of("text") for _ in range(3)] == ["de", "tlh", "de"]
