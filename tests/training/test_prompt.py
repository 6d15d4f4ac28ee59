"""Prompts of the embedded model."""

from __future__ import annotations

from training import prepare
from training.prompt import END, Text, prompted

TOKENIZER = prepare.cut(iter(["hello there"] * 3), 300)


def tokens(text: Text) -> list[str | None]:
    (ids,) = prompted([text], TOKENIZER)
    return [TOKENIZER.id_to_token(id) for id in ids]


def test_a_prompt_names_both_languages_before_the_text() -> None:
    assert tokens(Text("7", "en", "ja")) == ["<s>", "<en>", "<ja>", "7", "<sep>"]


def test_a_growing_utterance_says_so() -> None:
    assert tokens(Text("7", "zh", "en", part=True)) == [
        "<s>",
        "<zh>",
        "<en>",
        "<part>",
        "7",
        "<sep>",
    ]


def test_a_translation_goes_on_from_what_it_must_begin_with() -> None:
    begun = tuple(TOKENIZER.encode("8").ids)
    assert tokens(Text("7", "en", "de", begun=begun))[-2:] == ["<sep>", "8"]


def test_the_end_is_where_the_tokenizer_has_it() -> None:
    assert TOKENIZER.token_to_id("</s>") == END
