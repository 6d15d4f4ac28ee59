"""Names in Latin letters as Japanese and Chinese write them, by rule.

Owns: the signs for each syllable (``syllables.tsv``: a consonant, then its signs before a, i, u, e,
o and alone, in katakana and in Chinese, then the Chinese ones for it with an, en, in and on). Must
not know: which names there are. The rules are for spellings in which letters stand for sounds
(Swahili, Finnish, Turkish, Indonesian, ...), so that a name which nobody has listed gets a likely
transcription. English and French names need a table.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

VOWELS = "aiueo"
NASAL = "aeio"

_ROWS = [
    line.split("\t")
    for line in (Path(__file__).parent / "syllables.tsv").read_text("utf-8").splitlines()
]
_SIGNS = {
    (code, row[0].strip("-"), vowel): sign
    for row in _ROWS
    for code, open_, end in (("ja", row[1], row[2]), ("zh", row[3], row[4]))
    for vowel, sign in (*zip(VOWELS, open_.split(), strict=False), ("", end))
}
_SIGNS |= {
    ("zh", row[0].strip("-"), f"{vowel}n"): sign
    for row in _ROWS
    for vowel, sign in zip(NASAL, row[5:], strict=True)
}
_N = {"ja": "ン", "zh": "恩"}

_SPELLED = {
    **{"ş": "sh", "š": "sh", "ś": "sh", "sz": "sh", "ç": "ch", "č": "ch", "ć": "ch", "cz": "ch"},
    **{"ž": "j", "ż": "j", "ź": "j", "zh": "j", "ñ": "ny", "ń": "ny", "nj": "ny"},
    **{"ł": "w", "ı": "i", "ğ": "", "ph": "f", "th": "t", "dh": "d", "bh": "b", "gh": "g"},
    **{"ou": "u", "oo": "u", "ee": "i", "ck": "k", "qu": "k", "q": "k", "x": "ks", "c": "k"},
    **{"sh": "sh", "ch": "ch"},
}
_SPELLING = re.compile("|".join(sorted(_SPELLED, key=len, reverse=True)))
_SYLLABLE = re.compile(r"(sh|ch|kh|ts|ny|[bdfghjklmnprstvwyz])?([aiueo])?(n(?![aiueoy]))?")


def syllables(name: str) -> list[tuple[str, str, str]]:
    """Return the consonant and the vowel of each syllable, and the n that ends it."""
    text = _SPELLING.sub(lambda spelt: _SPELLED[spelt[0]], name.lower())
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    text = re.sub(r"([bcdfgjklmprstvwz])\1", r"\1", text)
    return [match.groups("") for match in _SYLLABLE.finditer(text) if match[0]]  # type: ignore[misc]


def katakana(name: str) -> str:
    """Return a name as Japanese writes it."""
    return _written(name, "ja", "ー")


def hanzi(name: str) -> str:
    """Return a name as Chinese writes it."""
    return _written(name, "zh", "")


def _written(name: str, code: str, long: str) -> str:
    """Return a name in the signs of a language.

    :param long: sign of a vowel that is written twice
    """
    text = before = ""
    for start, vowel, end in syllables(name):
        again = not start and vowel == before != ""
        whole = _SIGNS.get((code, start, vowel + end)) if vowel and end and not again else None
        if again:
            text += long
        else:
            text += whole or _SIGNS[code, start, vowel]
        text += _N[code] if end and not whole else ""
        before = "" if end else vowel
    return text
