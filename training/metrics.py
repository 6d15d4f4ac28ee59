"""Measures that BLEU lacks: lost figures, and captions that take shown text back.

Owns: how both are counted. Must not know: models, files, sacrebleu.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

NUMBERS: dict[str, str] = {
    "en": "one two three four five six seven eight nine ten eleven twelve",
    "de": "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "fr": "un deux trois quatre cinq six sept huit neuf dix onze douze",
    "es": "uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "ja": "一 二 三 四 五 六 七 八 九 十 十一 十二",
    "zh": "一 二 三 四 五 六 七 八 九 十 十一 十二",
}
MONTHS: dict[str, str] = {
    "en": "january february march april may june july august september october november december",
    "de": "januar februar märz april mai juni juli august september oktober november dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio"
    " julio agosto septiembre octubre noviembre diciembre",
}
WORDS: dict[str, dict[str, int]] = {
    "en": {"a": 1, "an": 1, "half": 30},
    "de": {"ein": 1, "eine": 1, "einen": 1, "einem": 1, "einer": 1, "halb": 30},
    "fr": {"une": 1, "demie": 30},
    "es": {"un": 1, "una": 1, "media": 30},
    "ja": {"半": 30},
    "zh": {"两": 2, "半": 30},
}
"""Words that a figure may become, or be made of: "3:30" is "half past three"."""

_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth"
    " fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
WORDS["en"].update((word, n) for n, word in enumerate(_ORDINALS, 1))
WORDS["en"].update((f"twenty-{word}", 20 + n) for n, word in enumerate(_ORDINALS[:9], 1))
WORDS["en"]["thirtieth"] = 30

SHORT = {"en": "jan feb mar apr may jun jul aug sep oct nov dec"}

for _table in (NUMBERS, MONTHS, SHORT):
    for _language, _words in _table.items():
        WORDS[_language].update((word, n) for n, word in enumerate(_words.split(), 1))

SCALES = {
    **dict.fromkeys(("thousand", "tausend", "mille", "mil", "千"), 10**3),
    **dict.fromkeys(("million", "millionen", "millions", "millón", "millones"), 10**6),
    **dict.fromkeys(("billion", "milliarde", "milliarden", "milliard", "milliards"), 10**9),
    **{"万": 10**4, "百万": 10**6, "億": 10**8, "亿": 10**8, "兆": 10**12},
}
_SCALE = "|".join(sorted(SCALES, key=len, reverse=True))
_GROUPS = re.compile(r"(?<![\d.,])\d{1,3}(?:([.,' ])\d{3})(?:\1\d{3})*(?![.,]?\d)")
_SCALED = re.compile(rf"(?:\d+(?:[.,]\d+)? ?(?:(?:{_SCALE})(?![a-zé])) ?)+(?:\d+(?![.,:\d]))?")
_TERM = re.compile(rf"(\d+(?:[.,]\d+)?) ?({_SCALE})?")


def figures(text: str) -> Counter[int]:
    """Return the numbers in digits in ``text``, 240,000 and 24万 alike; 2.5 is a 2 and a 5."""
    text = unicodedata.normalize("NFKC", text).lower()
    text = _GROUPS.sub(lambda found: re.sub(r"\D", "", found[0]), text)
    found: Counter[int] = Counter()

    def scaled(match: re.Match[str]) -> str:
        total = sum(
            Fraction(number.replace(",", ".")) * SCALES.get(scale, 1)
            for number, scale in _TERM.findall(match[0])
        )
        found[int(total)] += 1
        return " "

    found.update(map(int, re.findall(r"\d+", _SCALED.sub(scaled, text))))
    return found


def words(text: str, language: str) -> Counter[int]:
    """Return the numbers in words in ``text``, as far as `WORDS` goes."""
    known = WORDS[language]
    longest = sorted(known, key=len, reverse=True)
    either = "|".join(longest) if language in {"ja", "zh"} else rf"\b(?:{'|'.join(longest)})\b"
    text = unicodedata.normalize("NFKC", text).lower()
    return Counter(known[word] for word in re.findall(either, text))


def kept(source: str, made: str, source_language: str, target_language: str) -> bool:
    """Return whether ``made`` has the figures of ``source`` and no others, in any order.

    A small one may have become a word, or come of one.
    """
    given, got = figures(source), figures(made)
    lost, new = given - got, got - given
    return lost <= words(made, target_language) and new <= words(source, source_language)


def erasure(histories: Sequence[Sequence[Sequence[str]]]) -> float:
    """Return the units that were shown and taken back, for each unit of the final texts.

    A history is what was shown of an utterance, one version after the other, in units (words, or
    characters of Japanese and Chinese): https://arxiv.org/abs/2004.03643.
    """
    erased = final = 0
    for history in histories:
        for old, new in zip(history, history[1:], strict=False):
            erased += len(old) - common(old, new)
        final += len(history[-1])
    return erased / max(1, final)


def common(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many items both begin with."""
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return same
