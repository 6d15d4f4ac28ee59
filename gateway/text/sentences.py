"""Ends of sentences, for everything that cuts text: growing text, cues, pieces for a model.

Owns: where a text may be cut, and how translated pieces are joined. Must not know: models,
captions, time.

The ends are found by sentencex, which has rules and abbreviations for some 300 languages. A missed
end does less harm than a wrong one: half a sentence is translated wrongly, two sentences together
are not. So `_ends` leaves out doubtful ends.
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
"""Ordinals, initials and titles, for languages of which sentencex has few abbreviations."""

_BEFORE_NUMBER = re.compile(r"(?<!\w)[^\W\d_]{1,4}\.$")
"""Words that are abbreviations if a number follows: ``Jan. 5``, ``janv. 2026``."""

_UNSPACED_ENDS = frozenset("。！？｡")
"""Marks that end a sentence even if no space follows."""

_PAUSES = ("、", "，", "；", "。", "！", "？", ", ", "; ", "! ", "? ")
"""Marks at which a sentence that is too long is cut."""


def ends(text: str, lang: str) -> Iterator[int]:
    """Yield the index behind each sentence and each line, including the last one.

    :param lang: canonical tag; the rules of English apply to languages unknown to sentencex
    """
    lang = lang.partition("-")[0]
    for line in _LINE.finditer(text):
        at = line.start()
        # sentencex panics at some positions of white space that has several bytes in UTF-8. Each
        # character is replaced by one space, so that indexes stay the same.
        plain = _BLANK.sub(" ", line[0])
        *others, _ = segment(lang, plain)
        for sentence in others:
            said = sentence.rstrip()
            at += len(sentence)
            if _ends(said, spaced=len(said) < len(sentence), then=text[at]):
                yield at - len(sentence) + len(said)
        yield line.end()


def split(text: str, limit: int, lang: str) -> list[tuple[str, str]]:
    """Cut a text into sentences and return (sentence, white space behind it) in order.

    Joined they are ``text`` without its outer white space. No piece is longer than ``limit``
    characters. A longer sentence is cut behind the last of `_PAUSES` in the second half of the
    limit, else at a space, else at the limit.
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
    """Join translated pieces, given with the white space behind each in the source.

    :param spaced: the script of the translation has spaces
    """
    return "".join(piece + space(gap, spaced=spaced) for piece, gap in pieces).strip()


def space(gap: str, *, spaced: bool) -> str:
    """Return the white space of a translation for that of its source.

    Line breaks are kept. Other white space becomes one space, or nothing if the script of the
    translation is not ``spaced``.
    """
    return gap if "\n" in gap else " " if spaced else ""


def _ends(said: str, *, spaced: bool, then: str) -> bool:
    """Tell whether a sentence surely ends behind ``said``.

    :param spaced: there is white space behind it
    :param then: the next character that is not white space
    """
    # A full stop without a space behind it belongs to an address or a number.
    if not spaced:
        return said[-1] in _UNSPACED_ENDS
    # A sentence does not begin with a small letter, so the full stop belongs to an abbreviation.
    if then.islower() or _NO_END.search(said):
        return False
    # A number behind a short word belongs to a date: `Jan. 5`.
    return not (then.isdecimal() and _BEFORE_NUMBER.search(said))


def _cut(piece: str, gap: str, limit: int) -> list[tuple[str, str]]:
    """Cut a sentence into pieces of at most ``limit`` characters. ``gap`` follows the last."""
    cuts: list[tuple[str, str]] = []
    while len(piece) > limit:
        at = max(piece.rfind(pause, limit // 2, limit) + 1 for pause in _PAUSES)
        # Without a mark or a space the text is cut inside a word rather than refused.
        at = at or max(0, piece.rfind(" ", 1, limit + 1)) or limit
        head, rest = piece[:at].rstrip(), piece[at:].lstrip()
        cuts.append((head, piece[len(head) : len(piece) - len(rest)]))
        piece = rest
    cuts.append((piece, gap))
    return cuts
