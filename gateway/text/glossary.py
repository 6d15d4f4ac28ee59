"""Glossary terms and names of a room, and finding them in a text.

Owns: matching. Must not know: how a term is given to a model, which is decided by its profile.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable


class Glossary:
    """Pairs of a term and its translation.

    The terms are prepared by the first search. Otherwise a client could make the gateway prepare
    one large glossary after the other.
    """

    __slots__ = ("_sought", "_terms")

    def __init__(self, terms: dict[str, str] | None = None) -> None:
        self._terms = terms or {}
        # Folded terms with their pairs. A term that folds to nothing would match everywhere.
        self._sought: list[tuple[str, tuple[str, str]]] | None = None

    @property
    def words(self) -> Iterable[str]:
        """Terms without their translations."""
        return self._terms

    def find(self, text: str) -> tuple[tuple[str, str], ...]:
        """Return the (term, translation) pairs whose term occurs in ``text``, in any case."""
        if self._sought is None:
            sought = ((_folded(term), (term, to)) for term, to in self._terms.items())
            self._sought = [(term, pair) for term, pair in sought if term]
        folded = _folded(text) if self._sought else ""
        return tuple(
            pair for term, pair in self._sought if term in folded and _begins(folded, term)
        )


def missed(terms: Iterable[tuple[str, str]], text: str) -> bool:
    """Tell whether a translation lacks the translation of one of the ``terms`` of its source.

    A word with an ending is accepted, other inflected forms are not.

    :param terms: (term, translation) pairs found in the source
    :param text: the translation
    """
    sought = [_folded(translation) for _, translation in terms]
    folded = _folded(text) if sought else ""
    return any(not _begins(folded, translation) for translation in sought)


def named(names: Iterable[str], text: str) -> list[str]:
    """Return the names of people, or one word of each, that occur in ``text`` in this spelling.

    Names can be ordinary words ("Will", "Mark"). So a word of a name does not count in lower case,
    nor at the beginning of the text, where every word has a capital. A whole name of several words
    counts everywhere.
    """
    found: dict[str, None] = {}
    for name in names:
        words = [name] if " " not in name else [name, *name.split()]
        for word in words:
            # Words of one or two letters, such as "de" or "Al", are too often something else.
            if len(word) > 2 and _has_word(text, word, 0 if " " in word else 1):
                found[word] = None
                break
    return list(found)


def _has_word(text: str, word: str, start: int) -> bool:
    """Tell whether ``word`` occurs from index ``start`` on, and not as a part of another word."""
    while (at := text.find(word, start)) >= 0:
        start = at + len(word)
        before, behind = text[max(0, at - 1) : at], text[start : start + 1]
        if not (before.isalnum() or behind.isalnum()):
            return True
    return False


def _folded(text: str) -> str:
    """Return ``text`` in the form that is compared: case-folded, NFKC, without vowel points.

    NFKC makes full-width letters, half-width kana and Arabic presentation forms equal to the usual
    ones. Arabic and Hebrew are usually written without vowel points.
    """
    if text.isascii():
        return text.lower()
    return _POINTS.sub("", unicodedata.normalize("NFKC", text)).casefold()


def _begins(text: str, term: str) -> bool:
    """Tell whether ``term`` occurs in ``text`` at the beginning of a word.

    "AI" does not occur in "said". In scripts without case a term may begin anywhere, because not
    all of them put spaces between words.
    """
    at = text.find(term)
    while at > 0 and _in_word(text[at - 1]) and _in_word(text[at]):
        at = text.find(term, at + 1)
    return at >= 0


def _in_word(char: str) -> bool:
    """Tell whether a character is a digit or has case, and so is part of a word with spaces."""
    return char.isdigit() or char.lower() != char.upper()


_POINTS = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652\u0670]")
"""Hebrew points, Arabic vowel marks, and the tatweel, which only stretches an Arabic word."""
