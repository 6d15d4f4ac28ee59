"""Languages that an instruction to a translator names."""

from __future__ import annotations

import pytest

from gateway.text import languages
from gateway.text.mentions import direction


@pytest.mark.parametrize(
    ("instruction", "source", "target"),
    [
        ("Translate into German.", None, "de"),
        ("translate the following text to german, and only to German", None, "de"),
        ("Translate from English into German.", "en", "de"),
        ("Translate to German from English.", "en", "de"),
        ("You are a professional English to Japanese translator.", "en", "ja"),
        ("You are an English-to-French interpreter.", "en", "fr"),
        ("French -> German. Answer in German only.", "fr", "de"),
        ("If it is German already, translate German to English.", "de", "en"),
        ("Translate to Simplified Chinese.", None, "zh"),
        ("Translate to Chinese.", None, "zh"),
        ("Translate to Traditional Chinese.", None, "zh-Hant"),
        ("Translate into Brazilian Portuguese.", None, "pt-BR"),
        ("Übersetze alles auf Deutsch.", None, "de"),
        ("请翻译成日本語。", None, "ja"),
        ("แปลเป็นภาษาไทยให้หน่อย", None, "th"),
        ("Переведи: English → Русский", "en", "ru"),
        ("Answer in German or French.", None, None),
        ("You are a helpful assistant.", None, None),
        ("Germanic studies, Englishman, unpolished, Thailand", None, None),
        ("Translate from German.", "de", None),
        ("İtalian", None, None),
        ("", None, None),
    ],
)
def test_an_instruction_names_a_target_and_perhaps_a_source(
    instruction: str, source: str | None, target: str | None
) -> None:
    assert direction(instruction) == (source, target)


def test_every_language_is_found_by_both_of_its_names() -> None:
    for tag in languages.named_tags():
        for name in (languages.name(tag), languages.endonym(tag)):
            found = direction(f"Translate the text to {name}, please.").target
            assert found is not None and name in (languages.name(found), languages.endonym(found))


def test_a_language_behind_the_beginning_of_a_long_instruction_is_ignored() -> None:
    assert direction("x " * 5_000 + "German").target is None
