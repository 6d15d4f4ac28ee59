"""Glossary terms and names of a room, and finding them in a text.

Owns: matching. Must not know: how a term is given to a model, which is decided by its profile.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from gateway.text import languages

Translations = Mapping[str, str | Mapping[str, str]]
"""Translations by term: one for all languages, or one for each tag."""


class Glossary:
    """The translations of terms.

    The terms are prepared by the first search. Otherwise a client could make the gateway prepare
    one large glossary after the other.
    """

    __slots__ = ("_last", "_serving", "_sought", "terms")

    def __init__(self, terms: Translations | None = None) -> None:
        self.terms = terms or {}
        # Terms by their folded form. A term that folds to nothing would match everywhere.
        self._sought: list[tuple[str, str]] | None = None
        self._serving: dict[str, tuple[str, ...]] = {}  # by language; see `languages.serving`
        self._last: tuple[str, tuple[str, ...]] = ("", ())  # the last text, and the terms in it

    def find(self, text: str, lang: str) -> tuple[tuple[str, str], ...]:
        """Return the (term, translation) pairs whose term occurs in ``text``, in any case, and that
        have a translation into a language.
        """
        if text != self._last[0]:  # each text is searched for in one language after the other
            self._last = (text, self._terms_in(text))
        pairs = ((term, self._translation(self.terms[term], lang)) for term in self._last[1])
        return tuple((term, to) for term, to in pairs if to is not None)

    def _terms_in(self, text: str) -> tuple[str, ...]:
        if self._sought is None:
            sought = ((_folded(term), term) for term in self.terms)
            self._sought = [(folded, term) for folded, term in sought if folded]
        # Most rooms have no glossary, and folding reads the whole text.
        text = _folded(text) if self._sought else ""
        return tuple(
            term for folded, term in self._sought if folded in text and _begins(text, folded)
        )

    def _translation(self, translation: str | Mapping[str, str], lang: str) -> str | None:
        """Return the translation that serves a reader of ``lang``, or None."""
        if isinstance(translation, str):
            return translation
        serving = self._serving.get(lang)
        if serving is None:  # once for all terms: to compare two tags takes long
            of_terms = (tags for tags in self.terms.values() if not isinstance(tags, str))
            tags = dict.fromkeys(tag for by_tag in of_terms for tag in by_tag)
            serving = self._serving[lang] = languages.serving(lang, tags)
        return next((translation[tag] for tag in serving if tag in translation), None)


def missed(terms: Iterable[tuple[str, str]], text: str) -> bool:
    """Tell whether a translation lacks the translation of one of the ``terms`` of its source.

    A word with an ending is accepted, other inflected forms are not.
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
    spelt: dict[str, None] = {}
    for name in names:
        words = [name] if " " not in name else [name, *name.split()]
        for word in words:
            # Words of one or two letters, such as "de" or "Al", are too often something else.
            if len(word) > 2 and _has_word(text, word, 0 if " " in word else 1):
                spelt[word] = None
                break
    return list(spelt)


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
    # A digit or a cased letter on both sides means the middle of a word.
    while at > 0 and _in_word(text[at - 1]) and _in_word(text[at]):
        at = text.find(term, at + 1)
    return at >= 0


def _in_word(char: str) -> bool:
    """Tell whether a character is a digit or has case, and so is part of a word with spaces."""
    return char.isdigit() or char.lower() != char.upper()


_POINTS = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652\u0670]")
"""Hebrew points, Arabic vowel marks, and the tatweel, which only stretches an Arabic word."""
