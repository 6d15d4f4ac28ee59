"""Clean sentences made into the output of speech recognition: for the source side only.

Owns: lower case without punctuation, fillers, repeated words, and the cut of a growing utterance.
Must not know: corpora, tokens, tensors.
"""

from __future__ import annotations

import random
import re

SPACELESS = frozenset({"ja", "zh"})
"""Languages written without spaces, which are cut by characters."""

FILLERS: dict[str, tuple[str, ...]] = {
    "en": ("um", "uh", "you know", "like", "well", "so", "er", "i mean"),
    "de": ("äh", "ähm", "also", "halt", "na ja", "hm", "sozusagen"),
    "fr": ("euh", "ben", "enfin", "du coup", "hein", "bah", "voilà"),
    "es": ("eh", "este", "pues", "o sea", "bueno", "em", "a ver"),
    "ja": ("えっと", "あの", "ええと", "まあ", "その", "えー"),
    "zh": ("嗯", "那个", "呃", "就是", "这个"),
}

# Marks that end or divide sentences; those inside of figures, addresses and words stay.
_MARKS = re.compile(
    r"[.,:;!?]+(?=\s|$|[\"«»„“”¿¡「」『』（）()。、，！？；：…])|[\"«»„“”¿¡「」『』（）()。、，！？；：…]"
)
_DASH = re.compile(r"(?<!\S)[-–—]+(?!\S)")
_SPACES = re.compile(r"\s+")


def recognised(text: str, language: str) -> str:
    """Return ``text`` as a speech recogniser without a language model writes it."""
    text = _MARKS.sub("" if language in SPACELESS else " ", text.replace("’", "'"))
    return _SPACES.sub(" ", _DASH.sub(" ", text)).strip().lower()


def hesitant(text: str, language: str, draw: random.Random) -> str:
    """Return ``text`` with one or two fillers or a word said twice.

    The translation stays the same.
    """
    if language in SPACELESS:
        return draw.choice(FILLERS[language]) + text
    words = text.split(" ")
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(len(words) + 1)
        if draw.random() < 0.7:
            words.insert(at, draw.choice(FILLERS[language]))
        else:
            words.insert(at, words[min(at, len(words) - 1)])
    return " ".join(words)


# In Japanese and Chinese: a word, figure or address in Latin letters is said at once.
_CHARACTERS = re.compile(r"(?:[A-Za-z0-9À-ɏ@./:_%+-]|(?<=\d),(?=\d))+|.", re.DOTALL)


def units(text: str, language: str) -> list[str]:
    """Return the units an utterance grows by: words with the space before them, or characters."""
    if language in SPACELESS:
        return _CHARACTERS.findall(text)
    return re.findall(r"\s*\S+", text)


def grown(source: list[str], target: list[str], count: int) -> tuple[str, str]:
    """Return the first ``count`` units of ``source`` and the same share of ``target``, rounded
    down.
    """
    share = len(target) * count // len(source)
    return "".join(source[:count]), "".join(target[:share]).rstrip(" ,;:、，；：-–—")
