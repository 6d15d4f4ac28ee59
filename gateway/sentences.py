"""Cutting a longer text into pieces a sentence-level model can translate, and joining them again.

Owns: where a text may be cut. Must not know: models, languages' grammar; the rules are those that
hold for the scripts we serve. Growing utterances are not its business.
"""

from __future__ import annotations

import re

_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:\w|Mrs?|Ms|Dr|Prof|St|Nr|No|vs|etc|bzw|ca|usw|approx|e\.g|i\.e|z\.B|p\.m|a\.m"
    r"|Sr|Sra|M|Mme)\.$",
    re.IGNORECASE,
)
_END = re.compile(
    r"(?P<line>\s*\n\s*)"  # a line break always ends a piece
    r"|(?<=[。！？])(?P<cjk>\s*)(?=\S)"  # full-width marks need no space after them
    r"|(?<=[.!?…])(?P<mark>[\"'”’»)\]]*\s+)(?=[^a-zß-öø-ÿ\s])"
)

_PAUSES = ("、", "，", "；", ", ", "; ")

UNSPACED = frozenset(("Jpan", "Hans", "Hant", "Thai"))
"""Scripts (ISO 15924) that put no space between sentences."""


def split(text: str, limit: int) -> list[tuple[str, str]]:
    """(piece, what stood behind it) in order; joined they are ``text`` without its outer space.

    No piece is longer than ``limit`` characters: a longer sentence is cut behind the last comma in
    the second half of them, else at a space, or, where it has none, in the middle.
    """
    text = text.strip()
    pieces: list[tuple[str, str]] = []
    start = 0
    for end in _END.finditer(text):
        closing = end["mark"]
        at = end.start()
        if closing is not None:
            if _ABBREVIATION.search(text[start:at]):
                continue
            at += len(closing.rstrip())
        pieces += _cut(text[start:at], text[at : end.end()], limit)
        start = end.end()
    if start < len(text):
        pieces += _cut(text[start:], "", limit)
    return pieces


def join(pieces: list[tuple[str, str]], *, spaced: bool) -> str:
    """The translated pieces as one text; ``spaced`` says whether the script puts spaces between."""
    text = ""
    for piece, gap in pieces:
        text += piece + (gap if "\n" in gap else " " if spaced else "")
    return text.strip()


def _cut(piece: str, gap: str, limit: int) -> list[tuple[str, str]]:
    cuts: list[tuple[str, str]] = []
    while len(piece) > limit:
        at = max(piece.rfind(pause, limit // 2, limit) + 1 for pause in _PAUSES)
        at = at or max(0, piece.rfind(" ", 1, limit + 1)) or limit
        head, rest = piece[:at].rstrip(), piece[at:].lstrip()
        cuts.append((head, " " if len(head) + len(rest) < len(piece) else ""))
        piece = rest
    cuts.append((piece, gap))
    return cuts
