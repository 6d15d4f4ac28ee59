"""The terms of a room, and which of them occur in a text.

Owns: matching. Must not know: how a model is told of a term (that is its profile).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise


class Glossary:
    """Pairs of a term and its translation."""

    __slots__ = ("_sought",)

    def __init__(self, terms: dict[str, str] | None = None) -> None:
        self._sought = [(_marked(term), (term, text)) for term, text in (terms or {}).items()]

    def find(self, text: str) -> tuple[tuple[str, str], ...]:
        """The pairs whose term occurs in ``text``, whatever the case."""
        marked = _marked(text) if self._sought else ""
        return tuple(term for sought, term in self._sought if sought in marked)


def missed(terms: Iterable[tuple[str, str]], text: str) -> bool:
    """Whether a translation lacks what it should have for one of the ``terms`` of its source.

    Endings that a language puts behind a word are let pass, other forms of it are not.
    """
    sought = [_marked(translation) for _, translation in terms]
    marked = _marked(text) if sought else ""
    return any(translation not in marked for translation in sought)


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


def _marked(text: str) -> str:
    """``text`` in one case, marked wherever a term may begin, for a plain search.

    A term is not looked for inside a word ("AI" is not in "said"). Only scripts that have case are
    sure to have spaces: in the others a term may begin anywhere.
    """
    folded = text.casefold()
    return "".join(
        char if _in_word(before) and _in_word(char) else "\0" + char
        for before, char in pairwise(" " + folded)
    )


def _in_word(char: str) -> bool:
    return char.isdigit() or char.lower() != char.upper()
