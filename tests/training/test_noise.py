"""Clean sentences spoilt as speech recognition spoils them, and utterances that grow."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import noise
from training.figures import LANGUAGES

TEXTS = (
    st.text(st.sampled_from("aB ä.,:;-–'’\"«»„“!?…¿(）。、「」7é漢カ１ "), max_size=40) | st.text()
)
CODES = st.sampled_from(LANGUAGES)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Okay, can you see it?", "okay can you see it"),
        ("en", "It’s 10:30 – we're late!", "it's 10:30 we're late"),
        ("en", "See example.org/a, v2.4.1.", "see example.org/a v2.4.1"),
        ("de", "„Ja“, sagte er: 1.200,50 Euro.", "ja sagte er 1.200,50 euro"),
        ("fr", "Tu viens ? « Oui. »", "tu viens oui"),
        ("es", "¿Vienes? ¡Sí!", "vienes sí"),
        ("ja", "はい、「そう」です。", "はいそうです"),
        ("zh", "好的，12:30见！", "好的12:30见"),
    ],
)
def test_recognised_text_has_no_capitals_and_no_marks_but_those_inside_of_words(
    language: str, text: str, expected: str
) -> None:
    assert noise.recognised(text, language) == expected


@given(TEXTS, CODES)
def test_recognised_text_is_recognised_as_itself(text: str, language: str) -> None:
    once = noise.recognised(text, language)
    assert noise.recognised(once, language) == once


@given(TEXTS, CODES)
def test_the_units_of_a_text_are_the_text(text: str, language: str) -> None:
    joined = "".join(noise.units(text, language))
    assert joined == (text if language in noise.SPACELESS else text.rstrip())


@pytest.mark.parametrize(
    ("language", "text", "units"),
    [
        ("en", "Yes, I can.", ["Yes,", " I", " can."]),
        ("ja", "はいv2.1で", ["は", "い", "v2.1", "で"]),
        ("zh", "共1,200元，", ["共", "1,200", "元", "，"]),
        ("ja", "3,はい", ["3", ",", "は", "い"]),
    ],
)
def test_an_utterance_grows_by_words_or_by_characters(
    language: str, text: str, units: list[str]
) -> None:
    assert noise.units(text, language) == units


@given(TEXTS.filter(str.strip), CODES, TEXTS, CODES, st.data())
def test_a_prefix_of_the_source_has_a_prefix_of_the_target(
    source: str, language: str, target: str, other: str, data: st.DataObject
) -> None:
    units = noise.units(source, language)
    count = data.draw(st.integers(1, len(units)))
    begun, translated = noise.grown(units, noise.units(target, other), count)
    assert source.startswith(begun)
    assert target.startswith(translated)


@given(TEXTS.filter(str.strip), CODES, TEXTS, CODES)
def test_more_of_the_source_never_has_less_of_the_target(
    source: str, language: str, target: str, other: str
) -> None:
    units, goal = noise.units(source, language), noise.units(target, other)
    targets = [noise.grown(units, goal, count)[1] for count in range(1, len(units) + 1)]
    assert targets == sorted(targets, key=len)


def test_a_prefix_waits_for_the_units_that_its_share_does_not_reach() -> None:
    source, target = ["I", " am", " late"], ["Ich", " bin,", " spät."]
    assert noise.grown(source, target, 1) == ("I", "Ich")
    assert noise.grown(source, target, 2) == ("I am", "Ich bin")
    assert noise.grown(source, ["Spät."], 2) == ("I am", "")
    assert noise.grown(source, target, 3) == ("I am late", "Ich bin, spät.")


@given(CODES, st.integers())
def test_hesitation_adds_to_a_sentence_and_takes_nothing_away(language: str, seed: int) -> None:
    text = "一二三" if language in noise.SPACELESS else "one two three"
    made = noise.hesitant(text, language, random.Random(seed))
    assert len(made) > len(text)
    rest = iter(noise.units(made, language))
    assert all(unit.strip() in map(str.strip, rest) for unit in noise.units(text, language))
