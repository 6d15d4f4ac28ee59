"""What a text grows by: words, or characters in scripts that put no space between words.

Owns: where a unit begins, and what of it counts when two texts are compared. Must not know: who
compares, and what for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TypeVar

from gateway.text import languages, sentences

T = TypeVar("T")

DENSE = (
    "\u0e00-\u0e7f"  # Thai
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Letters of the scripts in `sentences.UNSPACED`, as a range of a regular expression."""

DENSITY = {"Thai": 3}
"""Units that say as much as a word, where it is not `_HAN`. In a meeting's lines an English word
becomes 1.4 Chinese and 2.2 Japanese characters."""
_HAN = 2

_WORD = re.compile(r"\s*\S+|\s+")

# A character with what combines with it: accents, the vowels and tones of Thai, the marks of kana,
# variants, skin tones. A zero-width joiner takes the next one in.
_MARKS = (
    "\u0300-\u036f\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\uff9e\uff9f"
    "\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef\u200d"
)
_CLUSTER = rf"\S(?:\u200d\S|[{_MARKS}])*"
# A word, figure or address in other letters is said at once: `3.5%`, `C++`, `example.com`.
_RUN = rf"[^\W{DENSE}](?:[^\W{DENSE}]|[{_MARKS}])*"
_CHARACTER = re.compile(rf"\s*(?:{_RUN}(?:['’.,:/@&+-]+{_RUN})*[%‰°+#{_MARKS}]*|{_CLUSTER})|\s+")

_MEANT = frozenset("%‰&@#§")
"""Punctuation (as Unicode has it) that is spoken."""

_OPENING = frozenset("¿¡")


def spaced(lang: str) -> bool:
    """Whether the language is written with spaces between words. ``lang`` is canonical."""
    return languages.script(lang) not in sentences.UNSPACED


def density(lang: str) -> int:
    """How many units of the language say about as much as a word: 1 where they are words."""
    return 1 if spaced(lang) else DENSITY.get(languages.script(lang), _HAN)


def split(text: str, spaced: bool) -> list[str]:
    """The units of ``text``; joined they are the text.

    A unit carries the white space before it; white space at the end is one more.
    """
    return (_WORD if spaced else _CHARACTER).findall(text)


def common(a: Sequence[T], b: Sequence[T]) -> int:
    """How many elements both begin with."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def key(unit: str) -> str:
    """What of a unit counts in a comparison: no case, no punctuation around it; maybe nothing."""
    word = unit.strip().casefold()
    if word.isalnum():
        return word
    start, end = 0, len(word)
    while start < end and _outer(word[start]):
        start += 1
    while start < end and _outer(word[end - 1]):
        end -= 1
    return word[start:end]


def keyed(text: str, spaced: bool) -> tuple[list[str], list[int]]:
    """The keys of the units that have one, and where in ``text`` each of these units ends.

    Marks that stand alone and close belong to the unit before them (the full stop in Chinese),
    others to the one that follows.
    """
    keys: list[str] = []
    ends: list[int] = []
    start = 0
    for unit in split(text, spaced):
        end = start + len(unit)
        word = key(unit)
        if word:
            keys.append(word)
            ends.append(end)
        elif ends and ends[-1] == start and _closing(unit.lstrip()[:1]):
            ends[-1] = end
        start = end
    return keys, ends


def _outer(char: str) -> bool:
    category = unicodedata.category(char)
    return char not in _MEANT and (category[0] in "PZ" or category in ("Cc", "Cf"))


def _closing(char: str) -> bool:
    return char not in _OPENING and unicodedata.category(char or " ") in ("Pe", "Pf", "Po")
