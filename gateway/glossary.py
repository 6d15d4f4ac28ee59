"""The terms of a room, and which of them occur in a text.

Owns: matching. Must not know: how a model is told of a term (that is its profile).
"""

from __future__ import annotations

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
