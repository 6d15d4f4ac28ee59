"""The scripts of letters and languages."""

from __future__ import annotations

import unicodedata

import pytest

from gateway.text.languages import NAMED, script
from gateway.text.letters import (
    DENSE,
    KNOWN,
    LETTERS,
    foreign_script,
    likely_language,
    written_in,
)

GREETINGS = {
    "ar": "مرحبا كيف حالك",
    "el": "Καλημέρα σε όλους",
    "he": "בוקר טוב לכולם",
    "hi": "हैलो आप कैसे हैं",
    "hy": "Բարի լույս բոլորին",
    "ja": "おはようございます",
    "ka": "დილა მშვიდობისა",
    "ko": "여러분 안녕하세요",
    "ru": "Привет, как дела?",
    "th": "สวัสดีครับ",
    "zh": "大家早上好",
}
"""A greeting in each of eleven scripts."""


def test_every_script_has_names_that_unicode_has() -> None:
    found = {unicodedata.name(chr(code), "").split(" ")[0] for code in range(0x10000)}
    assert {name for names in LETTERS.values() for name in names} <= found
    assert DENSE <= KNOWN


def test_every_language_with_a_name_is_written_in_a_script_that_is_judged() -> None:
    assert [tag for tag in NAMED if script(tag) not in LETTERS] == []


@pytest.mark.parametrize("lang", GREETINGS)
def test_a_text_is_foreign_to_languages_of_other_scripts_and_not_to_its_own(lang: str) -> None:
    text = GREETINGS[lang]
    assert foreign_script(text, [lang]) is None
    # A few Chinese characters may be Japanese or Korean words.
    others = {"en", *GREETINGS} - ({lang, "ja", "ko"} if lang == "zh" else {lang})
    found = {foreign_script(text, [other]) for other in others}
    assert len(found) == 1 and likely_language(found.pop() or "") == lang


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("en", "Let's meet in 東京 tomorrow"),
        ("en", "naïve café, Łódź, ʻokina, straße"),
        ("en", "α + β < Ω, 5 µm"),
        ("en", "😀 123 !? ½"),
        ("en", ""),
        ("ja", "Google Meet"),
        ("ja", "ＡＢＣ ｶﾀｶﾅ"),
        ("ja", "東京都知事選挙投票日"),
        ("ja", "東京でAnnaさんに会う"),
        ("zh", "用iPhone打开Google Maps"),
        ("zh", "优の良品"),
        ("ko", "漢字"),
        ("ru", "Встретимся в Zoom, OK?"),
        ("sr", "Здраво свима"),
        ("sr", "Ćao, šta ima?"),
        ("sr-Latn", "Здраво свима"),
        ("bs", "Добар дан"),
        ("uz", "Салом"),
        ("az", "Салам"),
        ("az", "سلام"),
        ("kk", "سالەم"),
        ("mn", "ᠰᠠᠶᠢᠨ"),
        ("pa", "ست سری اکال"),
    ],
)
def test_names_symbols_and_second_scripts_of_a_language_are_not_foreign(
    lang: str, text: str
) -> None:
    assert foreign_script(text, [lang]) is None


@pytest.mark.parametrize(
    ("lang", "text", "found"),
    [
        ("en", "東京", "Hani"),
        ("en", "Anna: Привет, как дела?", "Cyrl"),
        ("en", "ｶﾀｶﾅ", "Kana"),
        ("zh", "これはペンです", "Hira"),
        ("ja", "我今天去北京参加一个关于机器翻译的国际会议", "Hani"),
        ("ja", "안녕하세요", "Hang"),
    ],
)
def test_a_text_mostly_in_another_script_is_foreign(lang: str, text: str, found: str) -> None:
    assert foreign_script(text, [lang]) == found


def test_a_text_may_be_in_any_of_several_languages() -> None:
    assert foreign_script("Привет, как дела?", ["en", "bg"]) is None
    assert foreign_script("おはようございます", ["zh", "ja"]) is None
    assert foreign_script("Привет, как дела?", ["en", "de"]) == "Cyrl"


def test_a_language_is_written_in_all_of_its_scripts() -> None:
    assert written_in("sr", "Cyrl") and written_in("sr", "Latn") and not written_in("sr", "Arab")


def test_texts_of_a_language_whose_script_is_not_known_are_not_judged() -> None:
    assert foreign_script("Привет, как дела?", ["chr"]) is None
