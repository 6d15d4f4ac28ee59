"""The ends of sentences, for everything that cuts text: growing text, cues, pieces for a model.

Owns: where a text may be cut, and how translated pieces are joined. Must not know: models,
captions, time.

The ends are those that sentencex finds, which has rules and abbreviations for some 300 languages.
Fewer are better than wrong ones: a sentence in two pieces is translated wrongly, two sentences in
one piece are not. So `_ends` leaves out doubtful ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sentencex import segment

_LINE = re.compile(r"\S(?:.*\S)?")
_BLANK = re.compile(r"\s")
_GAP = re.compile(r"\s*")

_NO_END = re.compile(
    r"(?:^|[\s(])(?:\d{1,2}|[^\W\d_]|M[MrsTt]|Mrs|Mmes?|Mlle|Dr|Pr|Prof|St|Ste|Sra?)\.$"
)
"""Ordinals, initials and titles, for languages that sentencex knows too little of."""

_BEFORE_NUMBER = re.compile(r"(?<!\w)[^\W\d_]{1,4}\.$")
"""Words that are short for something when a number follows: ``Jan. 5``, ``janv. 2026``."""

_UNSPACED_ENDS = frozenset("。！？｡")
"""Marks that end a sentence though no space follows."""

_PAUSES = ("、", "，", "；", "。", "！", "？", ", ", "; ", "! ", "? ")

UNSPACED = frozenset(("Jpan", "Hans", "Hant", "Thai"))
"""Scripts (ISO 15924) that put no space between sentences."""


def ends(text: str, lang: str) -> Iterator[int]:
    """Yield the place behind each sentence and each line, the end of the last one included.

    ``lang`` is a canonical tag; a language that sentencex does not know has the rules of English.
    """
    lang = lang.partition("-")[0]
    for line in _LINE.finditer(text):
        at = line.start()
        # One space for each: sentencex panics at some positions of white space of several bytes.
        plain = _BLANK.sub(" ", line[0])
        *others, _ = segment(lang, plain)
        for sentence in others:
            said = sentence.rstrip()
            at += len(sentence)
            if _ends(said, spaced=len(said) < len(sentence), then=text[at]):
                yield at - len(sentence) + len(said)
        yield line.end()


def split(text: str, limit: int, lang: str) -> list[tuple[str, str]]:
    """Cut a text into sentences: (piece, white space behind it) in order.

    Joined they are ``text`` without its outer white space. No piece is longer than ``limit``
    characters: a longer sentence is cut behind the last mark in the second half of them, else at a
    space, or, where it has none, in the middle.
    """
    text = text.strip()
    pieces: list[tuple[str, str]] = []
    start = 0
    for end in ends(text, lang):
        gap = _GAP.match(text, end)
        assert gap is not None, "it matches the empty string too"
        pieces += _cut(text[start:end], gap[0], limit)
        start = gap.end()
    return pieces


def join(pieces: list[tuple[str, str]], *, spaced: bool) -> str:
    """Join translated pieces; ``spaced``: the script puts spaces between sentences."""
    text = ""
    for piece, gap in pieces:
        text += piece + (gap if "\n" in gap else " " if spaced else "")
    return text.strip()


def _ends(said: str, *, spaced: bool, then: str) -> bool:
    """Tell whether a sentence surely ends behind ``said``, before the character ``then``."""
    if not spaced:
        return said[-1] in _UNSPACED_ENDS
    if then.islower() or _NO_END.search(said):
        return False
    return not (then.isdecimal() and _BEFORE_NUMBER.search(said))


def _cut(piece: str, gap: str, limit: int) -> list[tuple[str, str]]:
    """Cut a sentence to pieces of at most ``limit`` characters."""
    cuts: list[tuple[str, str]] = []
    while len(piece) > limit:
        at = max(piece.rfind(pause, limit // 2, limit) + 1 for pause in _PAUSES)
        at = at or max(0, piece.rfind(" ", 1, limit + 1)) or limit
        head, rest = piece[:at].rstrip(), piece[at:].lstrip()
        cuts.append((head, piece[len(head) : len(piece) - len(rest)]))
        piece = rest
    cuts.append((piece, gap))
    return cuts
