"""Scripts of letters, and texts in a script that their language is not written in.

Owns: which script a letter belongs to, and the scripts of a language. Must not know: models, how a
language is told by its words.

The scripts of languages come from the likely subtags of Unicode CLDR, by way of langcodes: "sr" and
"sr-ME" are written in Cyrillic and Latin letters, "ja" in none but its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable
from functools import cache, lru_cache
from itertools import groupby

from langcodes import Language
from langcodes.data_dicts import LIKELY_SUBTAGS

from gateway.text.languages import script

LETTERS = {
    code: tuple(names.split())
    for code, names in {
        "Arab": "ARABIC", "Armn": "ARMENIAN", "Beng": "BENGALI", "Bopo": "BOPOMOFO",
        "Cyrl": "CYRILLIC", "Deva": "DEVANAGARI", "Ethi": "ETHIOPIC", "Geor": "GEORGIAN",
        "Grek": "GREEK", "Gujr": "GUJARATI", "Guru": "GURMUKHI", "Hang": "HANGUL",
        "Hani": "CJK", "Hans": "CJK", "Hant": "CJK", "Hebr": "HEBREW", "Hira": "HIRAGANA",
        "Jpan": "CJK HIRAGANA KATAKANA", "Kana": "KATAKANA", "Khmr": "KHMER",
        "Knda": "KANNADA", "Kore": "HANGUL CJK", "Laoo": "LAO", "Latn": "LATIN",
        "Mlym": "MALAYALAM", "Mong": "MONGOLIAN", "Mymr": "MYANMAR", "Orya": "ORIYA",
        "Sinh": "SINHALA", "Taml": "TAMIL", "Telu": "TELUGU", "Tfng": "TIFINAGH",
        "Thaa": "THAANA", "Thai": "THAI", "Tibt": "TIBETAN",
    }.items()
}  # fmt: skip
"""ISO 15924 script to the first words of its letters' Unicode names. Texts in other scripts are not
judged."""

DENSE = frozenset(("CJK", "HIRAGANA", "KATAKANA"))
"""Names of letters of which one says about as much as `DENSITY` Latin ones."""
DENSITY = 2.5

KNOWN = frozenset[str]().union(*LETTERS.values())
"""All names of letters in `LETTERS`. Other characters belong to no script."""

BEYOND_LATIN = re.compile("[^\u0000-\u024f\u1e00-\u1eff\u2000-\u206f]")
"""A character that is neither in the Latin script nor one of its punctuation marks."""

KANA_LEAST, KANA_SHARE, HAN_ONLY = 4, 0.2, 20
"""Kana, and their share of the dense letters, from which a text is not Chinese; and Han letters
from which a text without any kana is not Japanese."""

FOREIGN_LEAST = 2
"""Letters in a row that make a text foreign; one is enough of Han and kana. A single Greek letter
is a symbol: "α + β"."""

_ALSO = {"bs": ("Cyrl",), "tk": ("Arab", "Cyrl")}
"""Scripts in use that no likely subtag of CLDR mentions."""

_CODES = {names[0]: code for code, names in reversed(LETTERS.items()) if len(names) == 1}
_WIDTHS = ("FULLWIDTH", "HALFWIDTH")


@lru_cache(maxsize=8192)
def letter_script(char: str) -> str:
    """Return the first word of a character's Unicode name, which for a letter is its script."""
    first, _, rest = unicodedata.name(char, "").partition(" ")
    return rest.partition(" ")[0] if first in _WIDTHS else first


def count_letters(text: str) -> Counter[str]:
    """Return how many characters of each script in `KNOWN` a text has."""
    counts: Counter[str] = Counter()
    for char, count in Counter(text).items():
        name = letter_script(char)
        if name in KNOWN:
            counts[name] += count
    return counts


def weigh(counts: Counter[str]) -> dict[str, float]:
    """Return the weight of the letters of each script: as many Latin letters as say the same."""
    return {name: count * (DENSITY if name in DENSE else 1) for name, count in counts.items()}


def is_other_cjk(code: str, counts: Counter[str]) -> bool:
    """Tell whether a text is Chinese instead of Japanese, or Japanese instead of Chinese.

    It should be in the script ``code``, and has these letters.
    """
    kana = counts["HIRAGANA"] + counts["KATAKANA"]
    # A Japanese text of this length has kana, and a Chinese one has none.
    if code == "Jpan":
        return not kana and counts["CJK"] >= HAN_ONLY
    if code in ("Hans", "Hant"):
        return kana >= KANA_LEAST and kana > KANA_SHARE * (kana + counts["CJK"])
    return False


def foreign_script(text: str, tags: Iterable[str]) -> str | None:
    """Return the script of a text that none of the languages is written in; None if one may be.

    Latin letters are foreign in no language: names, brands and whole phrases are written in them.

    >>> foreign_script("Привет, Anna", ["en"]), foreign_script("Let's meet in 東京", ["en"])
    ('Cyrl', None)
    """
    if text.isascii() or not BEYOND_LATIN.search(text):
        return None
    tags = list(tags)
    counts = count_letters("".join(filter(str.isalpha, text)))
    if len(tags) == 1 and is_other_cjk(script(tags[0]), counts):
        return "Hani" if script(tags[0]) == "Jpan" else "Hira"
    name = foreign_letters(text, counts, frozenset[str]().union(*map(_alphabet, tags)))
    return None if name is None else _CODES[name]


def foreign_letters(text: str, counts: Counter[str], used: Container[str]) -> str | None:
    """Return the name of the foreign letters that make up more than half of a text; or None.

    :param counts: the letters of the text, as `count_letters` returns them
    :param used: names of letters that are not foreign
    """
    weights = weigh(counts)
    foreign = {name: size for name, size in weights.items() if name not in used}
    if sum(foreign.values()) <= sum(weights.values()) / 2:
        return None
    name = max(foreign, key=foreign.__getitem__)
    return name if name in DENSE or _in_a_row(text, name) >= FOREIGN_LEAST else None


def written_in(tag: str, code: str) -> bool:
    """Tell whether a language is written in a script."""
    return not _alphabet(tag).isdisjoint(LETTERS[code])


def likely_language(code: str) -> str:
    """Return the tag of the language that most texts of a script are in."""
    return Language.get(f"und-{code}").maximize().language or "und"


def _in_a_row(text: str, name: str) -> int:
    """Return the length of the longest run of letters of a script."""
    # Marks that combine with a letter do not end the run.
    runs = groupby(text, letter_script)
    return max((len([*run]) for letters, run in runs if letters == name), default=0)


@lru_cache(maxsize=512)
def _alphabet(tag: str) -> frozenset[str]:
    """Return the names of all letters that a language is written in, Latin ones included."""
    own = script(tag)
    if own not in LETTERS:  # its texts are not judged
        return KNOWN
    language = tag.partition("-")[0]
    codes = {"Latn", own, *_scripts().get(language, ()), *_ALSO.get(language, ())}
    return frozenset(name for code in codes for name in LETTERS.get(code, ()))


@cache
def _scripts() -> dict[str, set[str]]:
    """Return the ISO 15924 codes of all scripts of each language that CLDR mentions."""
    codes: dict[str, set[str]] = {}
    for tag in LIKELY_SUBTAGS.values():
        language, code, *_ = tag.split("-")
        codes.setdefault(language, set()).add(code)
    return codes
