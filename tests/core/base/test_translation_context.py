"""The settings of a room that every translation job is told."""

from __future__ import annotations

from gateway.core.base.translation_context import NAMES, TranslationContext
from gateway.protocol.fields import RoomSettings
from gateway.text.glossary import Glossary


def test_a_new_room_has_no_topic_style_names_or_terms() -> None:
    context = TranslationContext()
    assert (context.topic, context.style, context.version) == ("", None, 0)
    assert not context.names and context.terms("any text", "de") == ()


def test_a_name_stays_as_it_is_unless_the_glossary_has_it() -> None:
    context = TranslationContext()
    for name in ("Ada", "Bob", "Bob", ""):
        context.add_speaker(name)
    context.glossary = Glossary({"bob": "Robert"})
    assert context.terms("ask Ada and Bob", "de") == (("bob", "Robert"), ("Ada", "Ada"))
    assert list(context.names) == ["Ada", "Bob"]


def test_a_room_whose_settings_nobody_changed_has_none_to_tell() -> None:
    assert TranslationContext().settings() is None


def test_the_settings_of_a_room_are_told_with_their_version() -> None:
    context = TranslationContext()
    context.topic, context.version = "a stand-up", 2
    context.glossary = Glossary({"sprint": {"de": "Etappe"}})
    assert context.settings() == RoomSettings(
        version=2, context="a stand-up", glossary={"sprint": {"de": "Etappe"}}
    )


def test_beyond_the_bound_the_oldest_name_is_forgotten() -> None:
    context = TranslationContext()
    for n in range(NAMES + 1):
        context.add_speaker(f"Speaker{n}")
    assert len(context.names) == NAMES
    assert "Speaker0" not in context.names
