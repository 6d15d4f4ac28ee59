"""The list of frequent words that the corpora lack."""

from __future__ import annotations

from collections import Counter

from training import coverage
from training.pairs import Pair


def words(text: str, language: str) -> list[str]:
    return text.lower().split()


def test_an_english_sentence_counts_once_for_all_its_translations() -> None:
    corpora = [Pair("a", "de", "Good day", "Guten Tag"), Pair("b", "fr", "Good day", "Bonjour")]
    seen = coverage.count(coverage.texts(corpora, []), words)
    assert seen["en"] == {"good": 1, "day": 1}
    assert (seen["de"]["tag"], seen["fr"]["bonjour"]) == (1, 1)


def test_own_sentences_count_in_every_language_without_their_slots() -> None:
    own = [("{name} waits", "{name} wartet", "{name} attend", "{name} espera", "待つ", "等")]
    seen = coverage.count(coverage.texts([], own), words)
    assert [sum(seen[language].values()) for language in seen] == [1, 1, 1, 1, 1, 1]


def test_a_form_counts_once_in_a_sentence() -> None:
    seen = coverage.count([("en", "no no no")], words)
    assert seen["en"]["no"] == 1


def test_rare_forms_are_listed_by_rank_without_numbers_and_letters() -> None:
    seen = Counter({"the": 30, "cockroach": 2})
    rare = coverage.rare_forms(["the", "a", "0000", "cockroach", "虫", "lounge"], seen, 20)
    assert rare == [(4, "cockroach", 2), (5, "虫", 0), (6, "lounge", 0)]
