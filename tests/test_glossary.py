"""Which terms of a glossary occur in a text."""

from __future__ import annotations

import pytest

from gateway.glossary import Glossary


@pytest.mark.parametrize(
    ("term", "text", "occurs"),
    [
        ("AI", "what AI can do", True),
        ("AI", "he said so", False),
        ("ai", "AI", True),
        ("stand-up", "two Stand-ups a day", True),
        ("7", "17 people", False),
        ("7", "at 7 sharp", True),
        ("New York", "in new york", True),
        ("Straße", "die STRASSE", True),
        ("人工", "今天人工智能", True),
        ("AI", "今天AI很好", True),
        ("кот", "скот", False),
        ("بيت", "البيت", True),
        ("x", "", False),
        ("C++", "We write C++ here.", True),
        ("v2", "the v2.1 release", True),
    ],
)
def test_a_term_of_the_glossary_is_found_where_a_word_begins(
    term: str, text: str, occurs: bool
) -> None:
    assert Glossary({term: "T"}).find(text) == (((term, "T"),) if occurs else ())


def test_an_empty_glossary_finds_nothing() -> None:
    assert Glossary().find("anything") == ()
    assert Glossary({}).find("anything") == ()
