"""Numbers in a text, written in figures, in words, or in both.

Owns: number words to 999 and the scales of six languages. Must not know: what the text says
otherwise. It reads no fractions in words ("half"), no ordinals, and no number under ten that one
character stands for in Japanese and Chinese, where such characters are parts of many words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

_UNITS = {
    "en": "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen",
    "de": "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn"
    " sechzehn siebzehn achtzehn neunzehn",
    "fr": "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
    " dix-sept dix-huit dix-neuf",
    "es": "un dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince"
    " dieciséis diecisiete dieciocho diecinueve veinte veintiún veintidós veintitrés veinticuatro"
    " veinticinco veintiséis veintisiete veintiocho veintinueve",
}
_TENS = {
    "en": "twenty thirty forty fifty sixty seventy eighty ninety",
    "de": "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "fr": "vingt trente quarante cinquante soixante septante huitante nonante",
    "es": "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
}
_HUNDREDS_ES = (
    "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos"
    " novecientos"
)
_ONES = {"en": "a an", "de": "eins eine einen einer einem", "fr": "une", "es": "uno una"}
"""Other words for one."""

_SCALES: Mapping[str, Mapping[str, int]] = {
    "en": {"thousand": 3, "million": 6, "millions": 6, "billion": 9, "billions": 9},
    "de": {
        **{"tausend": 3, "million": 6, "millionen": 6, "mio": 6, "milliarde": 9, "mrd": 9},
        **{"milliarden": 9, "billion": 12, "billionen": 12},
    },
    "fr": {"mille": 3, "million": 6, "millions": 6, "milliard": 9, "milliards": 9},
    "es": {"mil": 3, "millón": 6, "millones": 6, "billón": 12, "billones": 12},
}
"""Powers of ten by name."""

_LINKS = {"en": ("and",), "de": (), "fr": ("et",), "es": ("y",)}
"""Words between the parts of a number."""

_LONGEST = 6
"""Most words of a number under 1,000, without links: quatre cent quatre-vingt-dix-neuf."""

_SMALL_SIGNS = {"十": 10, "百": 100, "千": 1000}
_LARGE_SIGNS = {"万": 10**4, "萬": 10**4, "億": 10**8, "亿": 10**8, "兆": 10**12}
_DIGITS = {sign: n for n, sign in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2, "兩": 2}

_GROUPED = r"\d{1,3}(?:[.,'’ \u00a0\u202f]\d{3})+(?![.,]?\d)"
_FIGURE = rf"(?:(?<![\d.,]){_GROUPED}|\d+(?:[.,]\d+)?)"
_AMOUNT = rf"(?:{_FIGURE}|[{''.join(_DIGITS)}]+)"
_SCALE = f"[{''.join((*_SMALL_SIGNS, *_LARGE_SIGNS))}]"
# A digit is read with the figure after it only if a scale stands between them: 星期五21:00.
# "Several million" is no number.
_EAST = re.compile(rf"(?<![数几幾何])(?:{_AMOUNT}?{_SCALE}+)*{_AMOUNT}?")
_TERM = re.compile(
    rf"(?P<amount>{_AMOUNT})?(?P<small>[{''.join(_SMALL_SIGNS)}])?"
    rf"(?P<large>[{''.join(_LARGE_SIGNS)}])?"
)
_SHORT = re.compile(rf"\d|^[{''.join(_DIGITS)}]{_SCALE}|[百千][{''.join(_DIGITS)}]|十")
_APART = re.compile(rf"(?<=\d) (?={_SCALE})")
_HINTS = {
    "en": re.compile(r"\d|teen|ty\b|hundred|thousand|illion"),
    "de": re.compile(r"\d|zehn|[zß]ig\b|hundert|tausend|illi|mio|mrd"),
    "fr": re.compile(r"\d|ze\b|dix|vingt|[ae]nte\b|cent|mil"),
    "es": re.compile(r"\d|ce\b|dieci|veint|nta\b|cien|quini|mil|bill"),
    "ja": re.compile(rf"\d|{_SCALE}"),
    "zh": re.compile(rf"\d|{_SCALE}"),
}
"""Passages of which every text with a number over twelve has one."""
_WEST = re.compile(rf"(?P<figure>{_FIGURE})|(?P<word>[^\W\d_]+|\S)")


class Number(NamedTuple):
    """A number of a text."""

    value: Fraction
    figures: str = ""
    """Digits of a number that is written in figures alone, without a number word or a scale."""


class _NumberPart(NamedTuple):
    value: Fraction
    power: int = 0  # of the scale after it
    figures: str = ""
    bare: bool = False  # a scale without a number


def numbers(text: str, language: str) -> list[Number]:
    """Return the numbers of ``text`` in order.

    :param language: tag of its language; in one that is not known here, figures are read alone
    """
    text = unicodedata.normalize("NFKC", text).lower()
    code = language.partition("-")[0]
    return list(_east(text) if code in ("ja", "zh") else _west(text, code))


def may_have_numbers(text: str, language: str) -> bool:
    """Tell, by a cheap test, whether ``text`` may have a number over twelve."""
    hint = _HINTS.get(language.partition("-")[0])
    return hint is None or hint.search(text.lower()) is not None


def reads(language: str) -> bool:
    """Tell whether number words and scales of a language are known."""
    return language.partition("-")[0] in _HINTS


def _whole_digits(text: str) -> str:
    """Return the digits of a number in figures, without decimals."""
    whole = text if re.fullmatch(_GROUPED, text) else re.split("[.,]", text)[0]
    return re.sub(r"\D", "", whole)


def _figure(text: str) -> Fraction:
    """Return the value of a number in figures, with any separators."""
    grouped = re.fullmatch(_GROUPED, text)
    return Fraction(_whole_digits(text) if grouped else text.replace(",", "."))


# Japanese and Chinese


def _east(text: str) -> Iterator[Number]:
    for match in _EAST.finditer(_APART.sub("", text)):
        found = match[0]
        # Two digits in a row are "seven or eight" more often than 78.
        if not found or not (found.isascii() or len(found) > 2 or _SHORT.search(found)):
            continue
        total = section = Fraction(0)
        for term in _TERM.finditer(found):
            amount, small, large = term["amount"], term["small"], term["large"]
            if amount is None:
                value = Fraction(1 if small else 0)
            elif amount[0] in _DIGITS:
                value = Fraction("".join(str(_DIGITS[sign]) for sign in amount))
            else:
                value = _figure(amount)
            section += value * _SMALL_SIGNS.get(small, 1)
            if large:
                total += (section or 1) * _LARGE_SIGNS[large]
                section = Fraction(0)
        yield Number(total + section, _whole_digits(found) if found.isascii() else "")


# Languages with spaces


def _west(text: str, code: str) -> Iterator[Number]:
    scales, links = _SCALES.get(code, {}), _LINKS.get(code, ())
    if code == "de":  # zweitausendfünfhundert is one word
        text = text.replace("tausend", " tausend ")
    text = text.replace("pour cent", "%").replace("por ciento", "%")
    tokens = [(match["figure"], match["word"]) for match in _WEST.finditer(text)]
    tokens = [token for token in tokens if token[1] != "-"]
    parts: list[_NumberPart] = []
    at = 0
    while at < len(tokens):
        figure, word = tokens[at]
        count, value = 1, None
        if figure is not None:
            value = _figure(figure)
        elif word in scales:
            count, value = 0, Fraction(1)
        else:
            count, value = _longest(_words(code), (token[1] for token in tokens[at:]), links)
        if value is None:
            # A link joins parts: two million and fifty thousand.
            if word not in links:
                yield from _joined(parts, code)
                parts = []
            at += 1
            continue
        at += count
        power = 0
        while at < len(tokens) and tokens[at][1] in scales:
            power += scales[tokens[at][1]]
            at += 1
            if tokens[at : at + 1] == [(None, ".")] and tokens[at - 1][1] in ("mio", "mrd"):
                at += 1
        figures = _whole_digits(figure) if figure and not power else ""
        parts.append(_NumberPart(value, power, figures, bare=not count))
    yield from _joined(parts, code)


def _joined(parts: list[_NumberPart], code: str) -> list[Number]:
    """Return the numbers of adjacent parts: two million five hundred thousand is one."""
    joined: list[_NumberPart] = []
    for part in parts:
        value = part.value * 10**part.power
        before = joined[-1] if joined else None
        if before is not None and value < 10**before.power:
            joined[-1] = _NumberPart(before.value + value, part.power)
        elif before is not None and code == "en" and _is_year(before, part):
            joined[-1] = _NumberPart(before.value * 100 + value)
        else:
            joined.append(part._replace(value=value))
    # "Tausend Dank", "mil gracias": a scale alone is no number.
    return [Number(part.value, part.figures) for part in joined if not part.bare]


def _is_year(first: _NumberPart, second: _NumberPart) -> bool:
    """Tell whether two number words are a year: nineteen ninety-five, but not nine thirty."""
    words = not (first.figures or second.figures or first.power or second.power)
    return words and 17 <= first.value <= 20 and 10 <= second.value <= 99


def _longest(
    known: Mapping[str, int], tokens: Iterable[str | None], links: tuple[str, ...]
) -> tuple[int, Fraction | None]:
    """Return the number of tokens of the longest number word, and its value."""
    words: list[str] = []
    best: tuple[int, Fraction | None] = (1, None)
    for count, token in enumerate(tokens, 1):
        if token is None or len(words) == _LONGEST or (count == 1 and token not in known):
            break  # every number word begins with one
        if token in links and words:
            continue
        words.append(token)
        value = known.get(" ".join(words))
        if value is not None:
            best = (count, Fraction(value))
    return best


@lru_cache
def _words(code: str) -> dict[str, int]:
    """Return the number words of a language from 1 to 999, without hyphens and links."""
    if code not in _UNITS:
        return {}
    units = [word.replace("-", " ") for word in _UNITS[code].split()]
    tens = [(word, 10 * n) for n, word in enumerate(_TENS[code].split(), 2)]
    found = {word: n for n, word in enumerate(units, 1)} | dict(tens)
    for word, ten in tens:
        for n, unit in enumerate(units[:9], 1):
            found[f"{unit}und{word}" if code == "de" else f"{word} {unit}"] = ten + n
    found |= dict.fromkeys(_ONES[code].split(), 1)
    match code:
        case "fr":
            found |= {f"soixante {unit}": 60 + n for n, unit in enumerate(units[9:], 10)}
            found |= {f"quatre vingt {unit}": 80 + n for n, unit in enumerate(units, 1)}
            found |= {"quatre vingt": 80, "quatre vingts": 80}
            hundreds = [("cent", 100), ("cents", 100)]
            for n, unit in enumerate(units[1:9], 2):
                hundreds += [(f"{unit} cent", 100 * n), (f"{unit} cents", 100 * n)]
        case "es":
            found |= {"veintiuno": 21, "veintiuna": 21, "cien": 100}
            found |= {f"{word} {one}": ten + 1 for word, ten in tens[1:] for one in ("uno", "una")}
            hundreds = [(w, 100 * n) for n, w in enumerate(_HUNDREDS_ES.split(), 1)]
            hundreds += [(w[:-2] + "as", n) for w, n in hundreds[1:]]
        case "de":
            hundreds = [(f"{unit}hundert", 100 * n) for n, unit in enumerate(units, 1)]
            hundreds.append(("hundert", 100))
        case _:
            hundreds = [(f"{unit} hundred", 100 * n) for n, unit in enumerate(units, 1)]
            hundreds += [("hundred", 100), ("a hundred", 100)]
    gap = "" if code == "de" else " "
    rest = [("", 0), *((word, n) for word, n in found.items() if n < 100)]
    for word, n in hundreds:
        found |= {(word + gap + more).strip(): n + m for more, m in rest}
    return found
