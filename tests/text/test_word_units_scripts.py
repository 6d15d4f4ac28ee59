"""Scripts that put no space between words, and their letters."""

from __future__ import annotations

import re
import unicodedata

import pytest

from gateway.engines.guards import measures
from gateway.text import languages
from gateway.text.word_units import CJK, THAI, UNSPACED

LETTERS = re.compile(f"[{THAI}{CJK}]")


@pytest.mark.parametrize("tag", ["ja", "zh", "zh-Hant", "yue", "th", "en", "ru", "ar", "hi", "ko"])
def test_the_name_of_a_language_has_such_letters_only_if_its_script_has_no_spaces(tag: str) -> None:
    letters = [char for char in languages.endonym(tag) if unicodedata.category(char)[0] in "LM"]
    found = [LETTERS.match(char) is not None for char in letters]
    assert found == [languages.script(tag) in UNSPACED] * len(letters)


@pytest.mark.parametrize("char", ["々", "ー", "ﾃ", "ㄅ", "㐀", "\U00020000", "ㇰ"])
def test_rare_letters_of_chinese_and_japanese_are_included(char: str) -> None:
    assert re.match(f"[{CJK}]", char)


@pytest.mark.parametrize("char", ["、", "。", "「", "한", "Ａ", "　", "👍"])
def test_punctuation_and_letters_of_other_scripts_are_not_included(char: str) -> None:
    assert not LETTERS.match(char)


@pytest.mark.parametrize("char", ["々", "ㄅ", "ﾃ"])
def test_guards_weigh_rare_letters_like_the_common_ones(char: str) -> None:
    assert measures.weight(char) == measures.weight("漢")
    assert measures.is_dense(char)
