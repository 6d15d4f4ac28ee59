"""The terms of a room, and which of them occur in a text.

Owns: matching. Must not know: how a model is told of a term (that is its profile).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable


class Glossary:
    """Pairs of a term and its translation.

    It is prepared when a text is looked through for the first time: a client that sets glossaries
    one after the other has none of them prepared.
    """

    __slots__ = ("_sought", "_terms")

    def __init__(self, terms: dict[str, str] | None = None) -> None:
        self._terms = terms or {}
        self._sought: list[tuple[str, tuple[str, str]]] | None = None

    def find(self, text: str) -> tuple[tuple[str, str], ...]:
        """Return the pairs whose term occurs in ``text``, whatever the case."""
        if self._sought is None:
            sought = ((_folded(term), (term, to)) for term, to in self._terms.items())
            self._sought = [(term, pair) for term, pair in sought if term]
        folded = _folded(text) if self._sought else ""
        return tuple(
            pair for term, pair in self._sought if term in folded and _begins(folded, term)
        )


def missed(terms: Iterable[tuple[str, str]], text: str) -> bool:
    """Return whether a translation lacks the translation of one of the ``terms`` of its source.

    Endings that a language puts behind a word are let pass, other forms of it are not.
    """
    sought = [_folded(translation) for _, translation in terms]
    folded = _folded(text) if sought else ""
    return any(not _begins(folded, translation) for translation in sought)


def named(names: Iterable[str], text: str) -> list[str]:
    """The names of people that ``text`` has in this spelling, whole or one word of them.

    Names are words too ("Will", "Mark"), so one in small letters, or at the beginning of a text,
    where every word is written large, is not taken for a name unless it stands there whole.
    """
    found: dict[str, None] = {}
    for name in names:
        words = [name] if " " not in name else [name, *name.split()]
        for word in words:
            if len(word) > 2 and _stands(text, word, 0 if " " in word else 1):
                found[word] = None
                break
    return list(found)


def _stands(text: str, word: str, start: int) -> bool:
    """Whether ``word`` stands somewhere from ``start`` on, and not as a part of another."""
    while (at := text.find(word, start)) >= 0:
        start = at + len(word)
        before, behind = text[max(0, at - 1) : at], text[start : start + 1]
        if not (before.isalnum() or behind.isalnum()):
            return True
    return False


def _folded(text: str) -> str:
    """Return ``text`` as it is compared: one case, one width, no vowel points.

    Full-width letters, half-width kana and Arabic presentation forms are other spellings of the
    same letters (NFKC). Arabic and Hebrew are usually written without their vowel points.
    """
    if text.isascii():
        return text.lower()
    return _POINTS.sub("", unicodedata.normalize("NFKC", text)).casefold()


def _begins(text: str, term: str) -> bool:
    """Return whether ``term`` occurs in ``text``, and not from the middle of a word on.

    "AI" is not in "said". Only scripts that have case are sure to put spaces between words: in the
    others a term may begin anywhere.
    """
    at = text.find(term)
    while at > 0 and _in_word(text[at - 1]) and _in_word(text[at]):
        at = text.find(term, at + 1)
    return at >= 0


def _in_word(char: str) -> bool:
    return char.isdigit() or char.lower() != char.upper()


_POINTS = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652\u0670]")
"""Points of Hebrew, vowels of Arabic, and the stroke that makes an Arabic word longer."""
