"""Tests of the rules by which a name, a number or a time survives its translation."""

from __future__ import annotations

import pytest

from training import survival
from training.figures import LANGUAGES, Values, same

ANNA: Values = ("Anna", "Anna", "Anna", "Anna", "アンナ", "安娜")
HALF: Values = (
    "half past nine",
    "halb zehn",
    "neuf heures et demie",
    "nueve y media",
    "9時半",
    "九点半",
)


@pytest.mark.parametrize(
    ("kind", "values", "language", "output", "kept"),
    [
        ("full name", ANNA, "ja", "昨日アンナさんと話しました。", True),
        ("full name", ANNA, "ja", "昨日Annaさんと話しました。", True),
        ("full name", ANNA, "ja", "昨日ハンナさんと話しました。", False),
        ("full name", ANNA, "de", "Ich sprach mit Hanna.", False),
        ("company", same("RGES"), "fr", "Un contrat avec rges.", True),
        ("digits", same("32"), "de", "Wir brauchen zweiunddreißig Stühle.", True),
        ("digits", same("32"), "de", "Wir brauchen 32 oder 33 Stühle.", False),
        ("millions", same("2.5 million yen"), "en", "It costs 250 million yen.", False),
        ("millions", same("2.5 million yen"), "en", "It costs 2,500,000 yen.", True),
        ("time in words", HALF, "de", "Treffen wir uns um halb zehn!", True),
        ("time in words", HALF, "de", "Treffen wir uns um 9:30 Uhr.", True),
        ("time in words", HALF, "de", "Treffen wir uns um halb neun.", False),
        ("time in words", HALF, "ja", "9時半に会いましょう。", True),
        ("time in words", HALF, "ja", "9時に会いましょう。", False),
        ("time in words", HALF, "ja", "九時三十分に会いましょう。", True),
        ("time in words", HALF, "zh", "我们九点半见面吧。", True),
        ("time in words", HALF, "zh", "我们九点五分见面吧。", False),
        ("time in words", HALF, "en", "Let's meet at nine thirty.", True),
        ("time in words", HALF, "en", "Let's meet at 9:30.", True),
        ("time in words", HALF, "en", "Let's meet at half past ten.", False),
    ],
)
def test_what_survives_is_told_by_spelling_or_by_value(
    kind: str, values: Values, language: str, output: str, kept: bool
) -> None:
    assert survival.survived(kind, values, language, output) is kept


def test_every_kind_survives_a_translation_by_its_own_frame() -> None:
    for kind, text, values in survival.asked(20):
        at = LANGUAGES.index(text.target)
        frame = survival.FRAMES[survival.SLOTS[kind][0]][at]
        assert survival.survived(kind, values, text.target, frame.format(values[at])), values
