"""Texts and languages of clients are normalised, or refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from gateway.auth.permissions import EVERYTHING, Permissions
from gateway.core.base import validation
from gateway.engines.profiles import Profile
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.messages import Say, Set
from gateway.text import languages

PROFILE = Profile(name="test", kind="raw", languages=("en", "de", "fr"))


LONGER = "\u0958"
"""क़, of which NFC makes two characters."""


def refused(work: Callable[..., object], *given: object) -> ErrorCode:
    with pytest.raises(ClientFault) as caught:
        work(*given)
    return caught.value.code


def test_a_text_is_kept_without_what_nobody_sees() -> None:
    assert validation.said("  gu\u0308ten\tTag \x07\n", 100) == "güten Tag"
    assert validation.clean("\u2028\x00 \u200b") == ""


def test_a_text_that_begins_with_a_sign_is_kept_as_it_is() -> None:
    for text in ("¿Qué?", "…und dann", "«Да»", "「はい」", "?!"):
        assert validation.clean(text) == text


def test_a_speaker_may_let_the_language_be_detected_only_where_there_is_a_detector() -> None:
    assert validation.speakable("auto", PROFILE, lambda text, among: "en") == "auto"
    assert refused(validation.speakable, "auto", PROFILE, None) is ErrorCode.LANG_UNSUPPORTED


def test_a_language_is_spoken_in_its_normal_spelling_or_refused_with_those_there_are() -> None:
    assert validation.speakable("DE", PROFILE, None) == "de"
    assert validation.speakable("DE, en,de", PROFILE, None) == "de,en"
    for list_of_tags in ("de,tlh", "de,", "de,auto"):
        fault = refused(validation.speakable, list_of_tags, PROFILE, None)
        assert fault is ErrorCode.LANG_UNSUPPORTED
    with pytest.raises(ClientFault) as caught:
        validation.speakable("tlh", PROFILE, None)
    assert caught.value.code is ErrorCode.LANG_UNSUPPORTED
    assert "'tlh'" in str(caught.value)
    assert caught.value.hint == "It has: en, de, fr."


def test_a_refusal_repeats_at_most_five_tags_of_32_characters() -> None:
    for letter in "xя語":
        fault = validation.unsupported([letter * 33] * 6, ("en",))
        assert str(fault).count(repr(letter * 32)) == 5
        assert letter * 33 not in str(fault)


def test_a_text_that_is_too_long_or_has_nothing_in_it_is_refused() -> None:
    assert validation.said("12345", 5) == "12345"
    assert refused(validation.said, "123456", 5) is ErrorCode.TOO_LONG
    assert refused(validation.said, " \n ", 5) is ErrorCode.EMPTY_TEXT


def test_known_languages_are_normalised_and_one_fault_names_all_the_others() -> None:
    there, fault = validation.readable(["DE", "no language", "fr", "tlh"], PROFILE, 10, EVERYTHING)
    assert there == ("de", "fr")
    assert fault is not None and fault.code is ErrorCode.LANG_UNSUPPORTED
    assert "'no language', 'tlh'" in str(fault)
    assert validation.readable(["de"], PROFILE, 1, EVERYTHING) == (("de",), None)


def test_an_unknown_language_does_not_hide_those_named_after_it() -> None:
    there, fault = validation.readable(["tlh", "de"], PROFILE, 10, EVERYTHING)
    assert there == ("de",)
    assert fault is not None and "'tlh'" in str(fault)


def test_a_language_that_is_not_permitted_is_forbidden_and_the_others_are_read() -> None:
    there, fault = validation.readable(["fr", "de"], PROFILE, 10, Permissions(langs=("de",)))
    assert there == ("de",)
    assert fault is not None and fault.code is ErrorCode.FORBIDDEN


def test_more_languages_than_are_allowed_are_refused_whatever_they_are() -> None:
    many = ["de"] * 3
    code = refused(validation.readable, many, PROFILE, 2, EVERYTHING)
    assert code is ErrorCode.TOO_MANY_TARGETS
    assert refused(validation.named, many, 2) is ErrorCode.TOO_MANY_TARGETS


def test_languages_that_are_named_may_be_none_and_match_nothing_then() -> None:
    assert validation.named(["DE", "de", "no language"], 3) == ("de", "no language")


def test_settings_are_made_uniform_and_terms_of_which_nothing_is_left_are_gone() -> None:
    change = Set(
        speaker=" Ana\x00", context="\ta court ", glossary={" a ": " b\n", "c": " ", "": "d"}
    )
    assert validation.cleaned(change, 100) == Set(
        speaker="Ana", context="a court", glossary={"a": "b"}
    )
    assert validation.cleaned(Set(style="formal"), 100) == Set(style="formal")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("speaker", LONGER * 65),
        ("style", LONGER * 17),
        ("context", LONGER * 2_001),
        ("glossary", {"a": LONGER * 101}),
        ("glossary", {LONGER * 101: "a"}),
        ("glossary", {"a": {"de": LONGER * 101}}),
    ],
)
def test_text_that_its_normal_form_makes_too_long_is_refused(field: str, value: object) -> None:
    message = msgspec.convert({"type": "set", field: value}, Set)
    assert refused(validation.cleaned, message, 100) == ErrorCode.BAD_FRAME


def test_a_text_that_its_normal_form_makes_too_long_is_refused_as_too_long() -> None:
    assert refused(validation.cleaned, Say(text=LONGER * 51), 100) == ErrorCode.TOO_LONG
    assert len(validation.cleaned(Say(text=LONGER * 50, speaker=LONGER * 64), 100).text) == 100


def test_the_translations_of_a_term_have_uniform_tags_and_texts() -> None:
    change = Set(glossary={"a": {"DE_at": " b\n", "fr": "\u200b"}, "c": {"ja": " "}})
    assert validation.cleaned(change, 100) == Set(glossary={"a": {"de-AT": "b"}})


def test_a_translation_of_a_term_into_no_language_is_refused() -> None:
    with pytest.raises(ClientFault) as raised:
        validation.cleaned(Set(glossary={"a": {"no language": "b"}}), 100)
    assert raised.value.code is ErrorCode.LANG_UNSUPPORTED


def test_a_glossary_names_a_bounded_number_of_languages() -> None:
    tags = [f"de-{code}" for code in (*range(100, 100 + validation.GLOSSARY_TAGS), "AT")]
    glossary = {f"term {n}": {tag: "b"} for n, tag in enumerate(tags)}
    with pytest.raises(ClientFault) as raised:
        validation.cleaned(Set(glossary=glossary), 100)
    assert raised.value.code is ErrorCode.TOO_MANY_TARGETS


def test_each_tag_of_a_glossary_is_normalised_once_however_many_terms_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    normalised: list[str] = []

    def normalise(tag: str) -> str:
        normalised.append(tag)
        return tag

    monkeypatch.setattr(languages, "normalise", normalise)
    validation.cleaned(Set(glossary={f"term {n}": {"de": "b", "fr": "c"} for n in range(500)}), 100)
    assert sorted(normalised) == ["de", "fr"]


def test_impossible_pairs_are_listed_by_source_without_those_of_one_language() -> None:
    pairs = (("en", "de"), ("zh", "en"), ("en", "zh-Hant"))
    langs = ("en", "de", "zh", "zh-Hant")
    model = Profile(name="few", kind="raw", languages=langs, pairs=pairs)
    assert validation.impossible(model) == {"zh": ("de", "zh-Hant")}
    assert validation.impossible(PROFILE) == {}
    assert validation.impossible(model) is validation.impossible(model), "each socket asks for it"


def test_impossible_pairs_of_very_many_languages_are_not_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validation, "PAIRS", 3)
    model = Profile(name="english", kind="raw", languages=("de", "en", "fr"), pairs="english")
    assert validation.impossible(model) == {}
