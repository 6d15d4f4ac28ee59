"""Normalising and matching language tags, and names of languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ClientFault, ErrorCode
from gateway.text import languages


@pytest.mark.parametrize(
    ("asked", "tag"),
    [
        ("en", "en"),
        ("pt_BR", "pt-BR"),
        (" DE ", "de"),
        ("ZH-hans", "zh-Hans"),
        ("zh", "zh"),
        ("zh-CN", "zh-CN"),
        ("deu", "de"),
        ("ger", "de"),
        ("iw", "he"),
        ("tl", "fil"),
        ("cmn", "zh"),
        ("arb", "ar"),
        ("zh-yue", "yue"),
        ("de-Latn-DE", "de-DE"),
        ("sr-latn", "sr-Latn"),
        ("de-1996", "de"),
        ("en-US-u-ca-buddhist", "en-US"),
        ("en-x-private", "en"),
        ("en-UK", "en-GB"),
    ],
)
def test_a_tag_is_spelled_as_bcp_47_and_reduced_to_language_script_and_region(
    asked: str, tag: str
) -> None:
    assert languages.normalise(asked) == tag


@pytest.mark.parametrize(
    "nonsense",
    ["", "  ", "alien", "auto", "en us", "日本", "xx", "und", "mul", "x-foo", "en-USA", "a", "\0"],
)
def test_text_that_is_no_language_is_refused_with_a_hint(nonsense: str) -> None:
    with pytest.raises(ClientFault) as caught:
        languages.normalise(nonsense)
    assert caught.value.code is ErrorCode.LANG_UNSUPPORTED
    assert str(caught.value).endswith(".")
    assert "pt-BR" in str(caught.value.hint)


def test_a_long_tag_is_refused_and_quoted_only_in_part() -> None:
    with pytest.raises(ClientFault) as caught:
        languages.normalise("de-" + "a" * 100_000)
    assert len(str(caught.value)) < 100


@given(st.one_of(st.text(max_size=40), st.from_regex(r"[a-z]{2,3}([-_][A-Za-z0-9]{1,8}){0,3}")))
def test_normalise_is_idempotent_or_refuses(text: str) -> None:
    try:
        tag = languages.normalise(text)
    except ClientFault:
        return
    assert languages.normalise(tag) == tag
    assert languages.same(tag, tag)
    assert languages.match(tag, [tag]) == tag
    assert languages.name(tag)
    assert languages.script(tag)


@pytest.mark.parametrize(
    ("tag", "supported", "found"),
    [
        ("de", ["en", "de"], "de"),
        ("de-AT", ["en", "de"], "de"),
        ("de", ["de-CH", "de-DE"], "de-DE"),
        ("pt", ["pt-PT", "pt-BR"], "pt-BR"),
        ("pt-PT", ["pt-BR", "pt-PT"], "pt-PT"),
        ("pt-AO", ["pt-BR", "pt-PT"], "pt-PT"),
        ("pt-PT", ["pt-BR"], "pt-BR"),
        ("es-MX", ["es-ES", "es-419"], "es-419"),
        ("nb", ["no"], "no"),
        ("no", ["nn", "nb"], "nb"),
        ("fr", ["en", "de"], None),
        ("fr", [], None),
        ("nn", ["nb"], None),
        ("yue", ["zh", "zh-Hant"], None),
        ("sr-Latn", ["sr"], None),
    ],
)
def test_match_returns_the_closest_language_of_the_same_script(
    tag: str, supported: list[str], found: str | None
) -> None:
    assert languages.match(tag, supported) == found


@pytest.mark.parametrize("tag", ["zh", "zh-Hans", "zh-CN", "zh-SG"])
def test_chinese_without_a_script_is_simplified(tag: str) -> None:
    assert languages.match(tag, ["zh-Hant", "zh"]) == "zh"
    assert languages.match(tag, ["zh-Hant", "zh-Hans"]) in ("zh-Hans", tag)


@pytest.mark.parametrize("tag", ["zh-Hant", "zh-TW", "zh-HK", "zh-MO"])
def test_traditional_chinese_is_never_served_by_simplified(tag: str) -> None:
    assert languages.match(tag, ["zh", "zh-Hant"]) == "zh-Hant"
    assert languages.match(tag, ["zh", "zh-Hans", "en"]) is None


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ("en-GB", "en-US", True),
        ("pt-BR", "pt-PT", True),
        ("no", "nb", True),
        ("zh", "zh-Hans", True),
        ("zh-Hans", "zh-Hant", False),
        ("sr", "sr-Latn", False),
        ("nb", "nn", False),
        ("hr", "sr-Latn", False),
        ("de", "nl", False),
    ],
)
def test_readers_need_no_translation_within_one_language_and_script(
    a: str, b: str, verdict: bool
) -> None:
    assert languages.same(a, b) is verdict
    assert languages.same(b, a) is verdict


@pytest.mark.parametrize(
    ("tag", "name", "endonym", "script"),
    [
        ("de", "German", "Deutsch", "Latn"),
        ("de-AT", "German", "Deutsch", "Latn"),
        ("pt-BR", "Brazilian Portuguese", "Português (Brasil)", "Latn"),
        ("zh", "Simplified Chinese", "简体中文", "Hans"),
        ("zh-Hans", "Simplified Chinese", "简体中文", "Hans"),
        ("zh-TW", "Traditional Chinese", "繁體中文", "Hant"),
        ("ja", "Japanese", "日本語", "Jpan"),
        ("ru", "Russian", "Русский", "Cyrl"),
        ("ar-EG", "Arabic", "العربية", "Arab"),
        ("tlh", "tlh", "tlh", "Latn"),
    ],
)
def test_languages_have_a_name_for_prompts_one_for_menus_and_a_script_for_guards(
    tag: str, name: str, endonym: str, script: str
) -> None:
    assert languages.name(tag) == name
    assert languages.endonym(tag) == endonym
    assert languages.script(tag) == script


@pytest.mark.parametrize(("name", "tag"), [(" english", "en"), ("Deutsch", "de"), ("日本語", "ja")])
def test_a_language_named_in_words_is_found_and_its_tag_is_the_hint(name: str, tag: str) -> None:
    assert languages.named(name) == tag
    with pytest.raises(ClientFault) as fault:
        languages.normalise(name)
    assert fault.value.hint == f"The tag of this language is `{tag}`."


def test_a_word_that_is_no_name_of_a_language_is_not_found() -> None:
    assert languages.named("Nonsense") is None


@pytest.mark.parametrize(
    ("tag", "region"),
    [("de", "de-DE"), ("en", "en-US"), ("zh", "zh-CN"), ("zh-Hant", "zh-TW"), ("pt-PT", "pt-PT")],
)
def test_a_language_has_a_likely_region(tag: str, region: str) -> None:
    assert languages.with_region(tag) == region


def test_a_list_names_each_language_once_and_at_most_as_many_as_are_allowed() -> None:
    assert languages.listed("de, DE,,fr-ca") == ("de", "fr-CA")
    with pytest.raises(ClientFault) as raised:
        languages.listed(",".join(["de"] * (languages.MAX_TAGS + 1)))
    assert raised.value.code is ErrorCode.TOO_MANY_TARGETS
