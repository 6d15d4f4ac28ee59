"""Sentences that the model translates for itself, and the translations that it learns from."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from training import extend, prepare
from training.pairs import Pair
from training.prompt import Text

ROWS = [
    Pair("tatoeba", "de", "Good morning.", "Guten Morgen."),
    Pair("tatoeba", "ja", "Good morning.", "おはようございます。"),
    Pair("python_docs", "fr", "A manual.", "Un manuel."),
    Pair("tatoeba", "de", "word " * 41, "Wort " * 41),
]


def test_english_is_translated_into_the_languages_that_it_lacks() -> None:
    made = extend.missing(ROWS, 100)
    assert {(text.text, text.target) for text in made} == {
        ("Good morning.", language) for language in ("fr", "es", "zh")
    }
    assert extend.missing(ROWS, 2) == made[:2]


def test_text_in_one_language_goes_into_english_and_english_into_all_others() -> None:
    made = extend.foreign([("de", "Guten Tag."), ("en", "Good day.")])
    assert made[0] == Text("Guten Tag.", "de", "en")
    assert {text.target for text in made[1:]} == {"de", "fr", "es", "ja", "zh"}


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    made = prepare.cut(iter(["Guten Tag"]), 300)
    made.save(str(tmp_path / prepare.TOKENIZER))
    return made


def test_loops_profanity_and_what_is_no_translation_are_sifted_out(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    outputs = ["Guten\tTag,\nAnna.", "ab" * 30, "So eine Scheiße.", ""]
    texts = [Text("Good day to you.", "en", "de")] * len(outputs)
    made = [
        (tokenizer.encode(output).ids, -float(n), "Good day to you.")
        for n, output in enumerate(outputs)
    ]
    assert extend.sifted(tmp_path / prepare.TOKENIZER, (texts, made)) == [
        (0.0, Pair("synthetic", "de", "Good day to you.", "Guten Tag, Anna.", way="into"))
    ]


def test_text_that_somebody_wrote_is_a_target_and_never_a_source(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    text, made = Text("Guten Tag.", "de", "en"), tokenizer.encode("Good day.").ids
    kept = extend.sifted(tmp_path / prepare.TOKENIZER, ([text], [(made, -1.0, "Guten Tag")]))
    assert kept == [(-1.0, Pair("synthetic", "de", "Good day.", "Guten Tag.", way="from"))]


def test_what_comes_back_as_something_else_is_sifted_out(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    texts = [Text("Good day to you.", "en", "de"), Text("今日はいい天気です。", "ja", "en")] * 2
    back = ["The roof is on fire.", "昨日は雨でした。", "Good day, you.", "今日は天気がいい。"]
    made = [(tokenizer.encode("Guten Tag, Anna.").ids, 0.0, again) for again in back]
    kept = extend.sifted(tmp_path / prepare.TOKENIZER, (texts, made))
    assert [pair.language for _, pair in kept] == ["de", "ja"]


def test_agreement_is_that_of_letters_in_any_case() -> None:
    assert extend.agreement("Good day.", "good day") == 1
    assert extend.agreement("abc", "xyz") == extend.agreement("abc", "") == 0
    assert extend.agreement("", "") == 1


class Reversing:
    """An engine whose translation of a text into a language is the text, reversed."""

    def __init__(self) -> None:
        self.asked: list[Text] = []

    def scored(self, texts: list[Text], *, loops: bool) -> list[tuple[list[int], float]]:
        assert not loops
        self.asked += texts
        return [([ord(sign) for sign in reversed(text.text)], -0.5) for text in texts]

    def texts(self, many: list[list[int]]) -> list[str]:
        return ["".join(map(chr, ids)) for ids in many]


def test_each_translation_is_translated_back_into_the_language_of_the_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Reversing()
    monkeypatch.setattr(extend, "_engine", lambda: engine)
    made = extend._there_and_back([Text("ab", "en", "de"), Text("cd", "fr", "en")])
    assert made == [([98, 97], -0.5, "ab"), ([100, 99], -0.5, "cd")]
    assert engine.asked[2:] == [Text("ba", "de", "en"), Text("dc", "en", "fr")]
