"""Texts as the model is asked to translate them.

Owns: the ids that a translation continues. Must not know: what translates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

END = 2
"""The id of ``</s>``."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text, its language, and the one it is wanted in."""

    text: str
    source: str
    target: str
    part: bool = False
    """True if the utterance goes on."""
    begun: tuple[int, ...] = ()
    """Target tokens that the translation must begin with."""


def prompted(texts: Sequence[Text], tokenizer: Tokenizer) -> list[list[int]]:
    """Return ``<s> <SRC> <TGT> [<part>] source <sep> [begun]`` as ids."""
    id = tokenizer.get_vocab()
    sources = tokenizer.encode_batch([text.text for text in texts], add_special_tokens=False)
    return [
        [
            id["<s>"],
            id[f"<{text.source}>"],
            id[f"<{text.target}>"],
            *[id["<part>"]] * text.part,
            *source.ids,
            id["<sep>"],
            *text.begun,
        ]
        for text, source in zip(texts, sources, strict=True)
    ]
