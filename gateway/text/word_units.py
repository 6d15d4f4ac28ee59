"""Units of text: words, or characters in scripts that put no space between words.

Owns: splitting text into units, the key of a unit, by which two texts are compared, and the scripts
without spaces. Must not know: the purpose of a comparison.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TypeVar

from gateway.text import languages

T = TypeVar("T")

UNSPACED = frozenset(("Jpan", "Hans", "Hant", "Thai"))
"""ISO 15924 codes of scripts that put no space between words and need rules of their own here. Lao,
Khmer, Burmese and Tibetan put none either, but are treated as if they did: their text is cut at the
spaces between phrases."""

CJK = (
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Kana, Bopomofo and Han, for a character class of a regular expression. One such character says
about as much as 2.5 Latin letters."""

THAI = "\u0e00-\u0e7f"
"""Thai, for a character class of a regular expression. A character says about as much as a Latin
letter."""

_DENSITY = {"Thai": 3}
"""Units per word, for scripts other than Han and kana."""
_HAN = 2
"""Units per word of Chinese and Japanese. In the lines of a meeting an English word becomes 1.4
Chinese and 2.2 Japanese characters."""

_WORD = re.compile(r"\s*\S+|\s+")

# A character together with everything that combines with it: accents, vowels and tones of Thai,
# marks of kana, variation selectors, skin tones. A zero-width joiner includes the next character.
_MARKS = (
    "\u0300-\u036f\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\uff9e\uff9f"
    "\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef\u200d"
)
_CLUSTER = rf"\S(?:\u200d\S|[{_MARKS}])*"
# A word, number or address in other letters is one unit: `3.5%`, `C++`, `example.com`.
_OTHER = rf"[^\W{THAI}{CJK}]"
_RUN = rf"{_OTHER}(?:{_OTHER}|[{_MARKS}])*"
_CHARACTER = re.compile(rf"\s*(?:{_RUN}(?:['’.,:/@&+-]+{_RUN})*[%‰°+#{_MARKS}]*|{_CLUSTER})|\s+")

_SPOKEN = frozenset("%‰&@#§")
"""Characters that Unicode counts as punctuation, but that are spoken and therefore compared."""

_OPENING = frozenset("¿¡")
"""Marks that open a sentence, though their Unicode category is that of closing ones."""


def spaced(lang: str) -> bool:
    """Tell whether the language is written with spaces between words."""
    return languages.script(lang) not in UNSPACED


def density(lang: str) -> int:
    """Return how many units of the language say about as much as a word: 1 if units are words."""
    return 1 if spaced(lang) else _DENSITY.get(languages.script(lang), _HAN)


def split(text: str, spaced: bool) -> list[str]:
    """Split ``text`` into units. Joined they are the text.

    A unit includes the white space before it. White space at the end of the text is a unit.

    :param spaced: units are words, else characters
    """
    return (_WORD if spaced else _CHARACTER).findall(text)


def common(a: Sequence[T], b: Sequence[T]) -> int:
    """Return the length of the common prefix."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def key(unit: str) -> str:
    """Return a unit in the form that is compared: case-folded, without punctuation around it.

    The key of a unit that is only punctuation is empty.
    """
    word = unit.strip().casefold()
    if word.isalnum():  # the most frequent case, and a fast test
        return word
    start, end = 0, len(word)
    while start < end and _outer(word[start]):
        start += 1
    while start < end and _outer(word[end - 1]):
        end -= 1
    return word[start:end]


def keyed(text: str, spaced: bool) -> tuple[list[str], list[int]]:
    """Return the keys of the units that have one, and the index in ``text`` behind each of them.

    A closing mark that is a unit of its own (the full stop in Chinese) belongs to the unit before
    it, other marks to the unit behind them.

    :param spaced: units are words, else characters
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
        # After an opening mark, which belongs to the next word, the last end is before `start`.
        elif ends and ends[-1] == start and _closing(unit.lstrip()[:1]):
            ends[-1] = end
        start = end
    return keys, ends


def _outer(char: str) -> bool:
    """Tell whether a character around a word is left out of its key."""
    category = unicodedata.category(char)
    return char not in _SPOKEN and (category[0] in "PZ" or category in ("Cc", "Cf"))


def _closing(char: str) -> bool:
    """Tell whether a mark closes the text before it. An empty ``char`` closes nothing."""
    return char not in _OPENING and unicodedata.category(char or " ") in ("Pe", "Pf", "Po")
