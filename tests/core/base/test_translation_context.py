"""The settings of a room that every translation job is told."""

from __future__ import annotations

from gateway.core.base.translation_context import NAMES, TranslationContext
from gateway.text.glossary import Glossary


def test_a_new_room_has_no_topic_style_names_or_terms() -> None:
    context = TranslationContext()
    assert (context.topic, context.style, context.version) == ("", None, 0)
    assert not context.names and context.terms("any text") == ()


def test_a_name_stays_as_it_is_unless_the_glossary_has_it() -> None:
    context = TranslationContext()
    for name in ("Ada", "Bob", "Bob", ""):
        context.add_speaker(name)
    context.glossary = Glossary({"bob": "Robert"})
    assert context.terms("ask Ada and Bob") == (("bob", "Robert"), ("Ada", "Ada"))
    assert list(context.names) == ["Ada", "Bob"]


def test_beyond_the_bound_the_oldest_name_is_forgotten() -> None:
    context = TranslationContext()
    for n in range(NAMES + 1):
        context.add_speaker(f"Speaker{n}")
    assert len(context.names) == NAMES
    assert "Speaker0" not in context.names
