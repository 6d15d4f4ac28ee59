"""Sentences that the model translates for itself, and the translations that it learns from."""

from __future__ import annotations

from pathlib import Path

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


def test_loops_profanity_and_what_is_no_translation_are_sifted_out(tmp_path: Path) -> None:
    tokenizer = prepare.cut(iter(["Guten Tag"]), 300)
    tokenizer.save(str(tmp_path / prepare.TOKENIZER))
    outputs = ["Guten\tTag,\nAnna.", "ab" * 30, "So eine Scheiße.", ""]
    texts = [Text("Good day to you.", "en", "de")] * len(outputs)
    made = [(tokenizer.encode(output).ids, -float(n)) for n, output in enumerate(outputs)]
    assert extend.sifted(tmp_path / prepare.TOKENIZER, (texts, made)) == [
        (0.0, Pair("synthetic", "de", "Good day to you.", "Guten Tag, Anna."))
    ]
