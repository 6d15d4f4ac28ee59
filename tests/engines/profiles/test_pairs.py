"""The pairs of several models together, also through a pivot language."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.engines.profiles import Profile
from gateway.engines.profiles.pairs import PairTable
from gateway.engines.profiles.profile import TemplateBlock
from gateway.errors import ClientFault, ErrorCode


def model(*pairs: tuple[str, str]) -> Profile:
    langs = tuple(dict.fromkeys(tag for pair in pairs for tag in pair))
    return Profile(name="+".join(langs), kind="raw", languages=langs, pairs=pairs)


def table(*models: Profile, pivot: str | None = "en") -> PairTable:
    return PairTable(
        models, lambda one, other: any(each.supports(one, other) for each in models), pivot
    )


GERMAN = model(("de", "en"), ("en", "de"))
FRENCH = model(("fr", "en"), ("en", "fr"))


def test_languages_of_all_models_are_listed_once_in_their_order() -> None:
    both = table(GERMAN, FRENCH)
    assert (both.sources, both.targets) == (("de", "en", "fr"), ("en", "de", "fr"))
    assert both.name == "de+en, fr+en"


def test_models_together_are_told_a_glossary_if_each_of_them_is() -> None:
    told = replace(FRENCH, template=(TemplateBlock("{glossary}{text}"),))
    assert table(told).glossary
    assert not table(GERMAN, told).glossary


def test_a_pair_without_a_model_of_its_own_takes_the_pivot() -> None:
    both = table(GERMAN, FRENCH)
    assert both.supports("de", "fr") and both.pivots("de", "fr")
    assert both.supports("de", "en") and not both.pivots("de", "en")
    assert both.resolve("de-AT", "fr-CA") == ("de", "fr")


def test_nothing_is_translated_into_its_own_language_by_way_of_another() -> None:
    both = table(GERMAN, FRENCH)
    assert not both.supports("de", "de") and not both.pivots("de", "de-AT")


def test_without_a_pivot_the_fault_for_an_impossible_pair_names_the_possible_ones() -> None:
    both = table(GERMAN, FRENCH, pivot=None)
    assert not both.supports("de", "fr")
    with pytest.raises(ClientFault, match="from `de` into `fr`") as caught:
        both.resolve("de", "fr")
    assert caught.value.code is ErrorCode.PAIR_UNSUPPORTED
    assert caught.value.hint == "From `de` it translates into en."


def test_a_pair_stays_impossible_if_one_of_its_steps_is() -> None:
    one_way = table(model(("de", "en")), model(("fr", "it")))
    assert not one_way.supports("de", "it") and not one_way.supports("fr", "de")
    with pytest.raises(ClientFault) as caught:
        table(model(("en", "de")), model(("fr", "de"))).resolve("fr", "en")
    assert caught.value.code is ErrorCode.LANG_UNSUPPORTED


def test_a_language_that_nothing_can_be_translated_from_or_into_is_not_listed() -> None:
    narrowed = PairTable([GERMAN, FRENCH], lambda *pair: pair == ("de", "en"), "en")
    assert (narrowed.sources, narrowed.targets) == (("de",), ("en",))
    with pytest.raises(ClientFault, match="does not have the language `fr`"):
        narrowed.resolve("de", "fr")
