"""Finding glossary terms and names in texts, and terms that a translation lacks."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text import glossary, languages
from gateway.text.glossary import Glossary, missed, named


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
def test_a_term_is_found_at_the_beginning_of_a_word(term: str, text: str, occurs: bool) -> None:
    assert Glossary({term: "T"}).find(text, "de") == (((term, "T"),) if occurs else ())


def test_one_place_at_the_beginning_of_a_word_is_enough() -> None:
    for text in ("AI, he said", "said AI said", "he said AI"):
        assert Glossary({"AI": "KI"}).find(text, "de") == (("AI", "KI"),)


def test_a_name_within_another_word_is_none_but_beside_it_is() -> None:
    for text in ("oAnna", "hi oAnna here", "we saw Annas dog"):
        assert named(["Anna"], text) == []
    assert named(["Anna"], "say Anna or oAnna") == ["Anna"]


def test_an_empty_glossary_finds_nothing() -> None:
    assert Glossary().find("anything", "de") == ()
    assert Glossary({}).find("anything", "de") == ()


def test_a_term_has_the_translation_of_the_language_or_of_the_nearest_one() -> None:
    by_tag = {"de": "Morgenrunde", "pt-BR": "reunião", "ja": "朝会"}
    made = Glossary({"standup": by_tag, "AI": "KI"})
    text = "AI in the standup"
    assert made.find(text, "de-AT") == (("standup", "Morgenrunde"), ("AI", "KI"))
    assert made.find(text, "pt") == (("standup", "reunião"), ("AI", "KI"))
    assert made.find(text, "ja") == (("standup", "朝会"), ("AI", "KI"))


def test_a_text_is_searched_once_for_all_its_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[str] = []

    def fold(text: str) -> str:
        folded.append(text)
        return text.casefold()

    made = Glossary({"standup": {"de": "Morgenrunde", "fr": "point"}, "AI": "KI"})
    made.find("nothing", "de")
    monkeypatch.setattr(glossary, "_folded", fold)
    text = "AI in the standup"
    assert made.find(text, "de") == (("standup", "Morgenrunde"), ("AI", "KI"))
    assert made.find(text, "fr") == (("standup", "point"), ("AI", "KI"))
    assert folded == [text]
    assert made.find("no standup", "fr") == (("standup", "point"),)


def test_tags_are_compared_once_for_all_terms_of_a_glossary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []

    def distance(_: str, tag: str) -> int:
        compared.append(tag)
        return {"de-AT": 4, "de-CH": 5}[tag]

    monkeypatch.setattr(languages, "tag_distance", distance)
    texts = [{"de-CH": "c"}, {"de-CH": "c", "de-AT": "a"}, {"fr": "f"}]
    made = Glossary({f"t{n}": texts[n % 3] for n in range(300)})
    text = " ".join(made.terms)
    for _ in range(2):
        found = made.find(text, "de")
        assert found[:2] == (("t0", "c"), ("t1", "a")) and len(found) == 200
    assert sorted(compared) == ["de-AT", "de-CH"]


def test_a_term_without_a_translation_into_the_language_is_left_out() -> None:
    made = Glossary({"standup": {"de": "Morgenrunde", "zh-Hant": "站立會"}})
    assert made.find("the standup", "fr") == ()
    assert made.find("the standup", "zh") == ()


# --- what a translation lacks -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "translation", "lacks"),
    [
        ({}, "Der Sprint endet", False),
        ({"sprint": "Sprint"}, "Der Sprint endet", False),
        ({"sprint": "Sprint"}, "des SPRINTS Ende", False),
        ({"sprint": "Sprint"}, "Der Lauf endet", True),
        ({"sprint": "Sprint", "review": "Review"}, "Der Sprint endet", True),
        ({"house": "Haus"}, "zwei Häuser", True),
        ({"AI": "KI"}, "Das geht mit Kitt", False),
        ({"AI": "KI"}, "Das geht mit Skiern", True),
        ({"sprint": "冲刺"}, "这个冲刺结束了", False),
    ],
)
def test_a_translation_lacks_a_term_if_no_word_of_it_begins_with_the_term(
    terms: dict[str, str], translation: str, lacks: bool
) -> None:
    assert missed(terms.items(), translation) is lacks


# --- names --------------------------------------------------------------------------------------

PEOPLE = ("Will", "Mark Miller", "Ada", "Jo", "李明")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Then Will said so", ["Will"]),
        ("Will you come?", []),
        ("we will see, and mark it", []),
        ("I saw Mark and Ada", ["Mark", "Ada"]),
        ("ask Miller", ["Miller"]),
        ("Mark Miller is here", ["Mark Miller"]),
        ("Mark is here", []),
        ("ask Adam", []),
        ("Was it Adam or Ada?", ["Ada"]),
        ("ask McAda", []),
        ("is it Jo", []),
        ("(Ada)", ["Ada"]),
        ("", []),
    ],
)
def test_a_name_is_found_as_a_whole_word_in_its_own_spelling(text: str, found: list[str]) -> None:
    assert named(PEOPLE, text) == found


def test_a_name_that_two_people_share_is_found_once() -> None:
    assert named(("Ada Miller", "Bob Miller"), "ask Miller") == ["Miller"]


# --- scripts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "text", "occurs"),
    [
        ("AI", "今日はＡＩの話です", True),
        ("カメラ", "新しいｶﾒﾗです", True),
        ("がく", "ｶﾞｸを学ぶ", False),
        ("会議", "国会議員", True),
        ("회의", "오늘 회의가 있다", True),
        ("كتاب", "هذا كِتَابٌ", True),
        ("كتاب", "كتـــاب", True),
        ("كتاب", "\ufedb\ufe98\ufe8e\ufe8f", True),
        ("ـ", "كتـاب", False),
        ("ספר", "סֵפֶר", True),
        ("बैठक", "आज बैठक है", True),
        ("ΑΘΗΝΑΣ", "της Αθήνας", False),
        ("Αθήνας", "ΤΗΣ ΑΘΉΝΑΣ", True),
        ("😀", "nice 😀", True),
        ("кот", "мой кот", True),
        ("AI", "said AI", True),
        ("AI", "said, braid", False),
    ],
)
def test_a_term_is_found_in_every_spelling_of_its_letters(
    term: str, text: str, occurs: bool
) -> None:
    assert Glossary({term: "T"}).find(text, "de") == (((term, "T"),) if occurs else ())


def test_a_glossary_can_be_searched_repeatedly() -> None:
    made = Glossary({"one": "1", "two": "2"})
    one, two = ("one", "1"), ("two", "2")
    assert [made.find(text, "de") for text in ("one", "one", "two", "", "one two")] == [
        (one,),
        (one,),
        (two,),
        (),
        (one, two),
    ]


def reference(term: str, text: str) -> bool:
    """Search for a term at places where a word may begin, character by character."""

    def letter(char: str) -> bool:
        return char.isdigit() or char.lower() != char.upper()

    term, text = (unicodedata.normalize("NFKC", one).casefold() for one in (term, text))
    return any(
        text[at : at + len(term)] == term and not (at and letter(text[at - 1]) and letter(text[at]))
        for at in range(len(text))
    )


@given(
    st.text("aAbßéΣς1 ä字が人بت😀ﬁ", min_size=1, max_size=3),
    st.text("aAbßéΣς1 ä字が人بت😀ﬁ", max_size=12),
)
def test_find_agrees_with_a_search_character_by_character(term: str, text: str) -> None:
    assert bool(Glossary({term: "T"}).find(text, "de")) == reference(term, text)
