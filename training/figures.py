"""Amounts, dates and times as each of the six languages writes or says them.

Owns: the languages, what a figure looks like in each. Must not know: sentences, slots.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from num2words import num2words

LANGUAGES = ("en", "de", "fr", "es", "ja", "zh")

Values = tuple[str, str, str, str, str, str]
"""The same thing in each of `LANGUAGES`."""

WEEKDAYS: Sequence[Values] = (
    ("Monday", "Montag", "lundi", "lunes", "月曜日", "周一"),
    ("Tuesday", "Dienstag", "mardi", "martes", "火曜日", "周二"),
    ("Wednesday", "Mittwoch", "mercredi", "miércoles", "水曜日", "周三"),
    ("Thursday", "Donnerstag", "jeudi", "jueves", "木曜日", "周四"),
    ("Friday", "Freitag", "vendredi", "viernes", "金曜日", "周五"),
    ("Saturday", "Samstag", "samedi", "sábado", "土曜日", "周六"),
    ("Sunday", "Sonntag", "dimanche", "domingo", "日曜日", "周日"),
)
MONTHS: Sequence[Values] = tuple(
    (*names, f"{number}月", f"{number}月")
    for number, names in enumerate(
        (
            ("January", "Januar", "janvier", "enero"),
            ("February", "Februar", "février", "febrero"),
            ("March", "März", "mars", "marzo"),
            ("April", "April", "avril", "abril"),
            ("May", "Mai", "mai", "mayo"),
            ("June", "Juni", "juin", "junio"),
            ("July", "Juli", "juillet", "julio"),
            ("August", "August", "août", "agosto"),
            ("September", "September", "septembre", "septiembre"),
            ("October", "Oktober", "octobre", "octubre"),
            ("November", "November", "novembre", "noviembre"),
            ("December", "Dezember", "décembre", "diciembre"),
        ),
        1,
    )
)
EASTERN: Sequence[Values] = (
    ("yen", "Yen", "yens", "yenes", "円", "日元"),
    ("yuan", "Yuan", "yuans", "yuanes", "元", "元"),
)
"""Currencies of countries that count in ten thousands."""
CURRENCIES: Sequence[Values] = (
    ("euros", "Euro", "euros", "euros", "ユーロ", "欧元"),
    ("euros", "Euro", "euros", "euros", "ユーロ", "欧元"),
    ("dollars", "Dollar", "dollars", "dólares", "ドル", "美元"),
    ("pounds", "Pfund", "livres", "libras", "ポンド", "英镑"),
    ("francs", "Franken", "francs", "francos", "フラン", "法郎"),
)


def same(text: str) -> Values:
    """Return a value that all languages write alike."""
    return (text,) * 6


def thousands(number: int) -> Values:
    """Return a figure with the separators of each language (none under 1,000)."""
    text = f"{number:,}"
    dots, spaces = text.replace(",", "."), text.replace(",", " ")
    return (text, dots, spaces, dots, text, text)


def _big(draw: random.Random) -> int:
    digits = draw.choice((3, 4, 4, 4, 5, 5, 6, 6, 7))
    round_to: int = 10 ** draw.randint(max(0, digits - 3), digits - 1)
    return max(1, draw.randint(10 ** (digits - 1), 10**digits - 1) // round_to) * round_to


def large(draw: random.Random) -> Values:
    return thousands(max(1100, _big(draw)))


def money(draw: random.Random) -> Values:
    amount = _big(draw)
    unit = draw.choice((*CURRENCIES, *EASTERN))
    amounts = thousands(amount)
    if amount >= 10_000 and amount % 1_000 == 0 and draw.random() < 0.6:
        amounts = (*amounts[:4], *myriads(amount))
    joints = (" ", " ", " ", " ", "", "")
    return tuple(map("".join, zip(amounts, joints, unit, strict=True)))  # type: ignore[return-value]


def myriads(amount: int) -> tuple[str, str]:
    """Return an amount in ten thousands and hundreds of millions, in Japanese and Chinese."""
    high, rest = divmod(amount, 10**8)
    low, ones = divmod(rest, 10**4)
    parts = ((high, "億", "亿"), (low, "万", "万"), (ones, "", ""))
    ja, zh = ("".join(f"{part[0]}{part[sign]}" for part in parts if part[0]) for sign in (1, 2))
    return (ja, zh)


def percent(draw: random.Random) -> Values:
    whole, tenth = draw.randint(2, 98), ""
    point = comma = ""
    if draw.random() < 0.2:
        tenth = str(draw.randint(1, 9))
        point, comma = ".", ","
    english, other = f"{whole}{point}{tenth}", f"{whole}{comma}{tenth}"
    sign = draw.random() < 0.4
    return (
        f"{english}%" if sign else f"{english} percent",
        f"{other} %" if sign else f"{other} Prozent",
        f"{other} %",
        f"{other} %" if sign else f"{other} por ciento",
        f"{english}%" if sign else f"{english}パーセント",
        f"{english}%",
    )


def date(draw: random.Random) -> Values:
    day, month = draw.randint(2, 30), draw.choice(MONTHS)
    name = month[0] if draw.random() < 0.9 else month[0][:3]
    word = num2words(day, to="ordinal")
    english = draw.choices(
        (
            f"{name} {day}",
            f"the {day}{_ordinal(day)} of {month[0]}",
            f"{month[0]} {word}",
            f"the {word} of {month[0]}",
        ),
        (60, 20, 12, 8),
    )[0]
    asian = f"{month[4]}{day}日"
    return (
        english,
        f"{day}. {month[1]}",
        f"{day} {month[2]}",
        f"{day} de {month[3]}",
        asian,
        asian,
    )


def _ordinal(day: int) -> str:
    return "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def time(draw: random.Random) -> Values:
    hour, minute = draw.randint(2, 19), draw.choice((0, 0, 5, 10, 15, 15, 20, 30, 30, 40, 45, 50))
    if minute:
        shown = f"{hour}:{minute:02}"
        return (
            shown,
            f"{shown} Uhr",
            f"{hour} h {minute:02}",
            shown,
            f"{hour}時{minute}分",
            f"{hour}点{minute}分",
        )
    english = f"{hour} o'clock" if hour <= 12 else f"{hour}:00"
    spanish = str(hour) if hour <= 12 else f"{hour}:00"
    return (english, f"{hour} Uhr", f"{hour} heures", spanish, f"{hour}時", f"{hour}点")


def clock(draw: random.Random) -> Values:
    """Return a time of day in words, never one o'clock, which takes other articles."""
    hour = draw.randint(2, 11)
    minute = draw.choice((0, 5, 10, 15, 15, 20, 30, 30, 30, 40, 45, 45, 50, 55))
    form = read_out if minute >= 10 and draw.random() < 0.2 else told
    return form(hour, minute)


def told(hour: int, minute: int) -> Values:
    """Return a time as a clock is read: half past nine, halb zehn."""
    later = hour if minute <= 30 else hour + 1
    en, de, fr, es = (num2words(later, lang=code) for code in LANGUAGES[:4])
    hours = f"{fr} heures"
    zh = f"{_HANZI[hour]}点"
    if minute == 0:
        return (f"{en} o'clock", f"{de} Uhr", hours, es, f"{hour}時", zh)
    ja = f"{hour}時{minute}分"
    zh += f"{hanzi(minute)}分"
    if minute == 30:
        half = f"halb {num2words(hour + 1, lang='de')}"
        zh = f"{_HANZI[hour]}点半"
        return (f"half past {en}", half, f"{hours} et demie", f"{es} y media", f"{hour}時半", zh)
    if minute == 15:
        early = f"Viertel nach {de}"
        zh = f"{_HANZI[hour]}点一刻"
        return (f"a quarter past {en}", early, f"{hours} et quart", f"{es} y cuarto", ja, zh)
    if minute == 45:
        late = f"{hours} moins le quart"
        return (f"a quarter to {en}", f"Viertel vor {de}", late, f"{es} menos cuarto", ja, zh)
    distance = [num2words(min(minute, 60 - minute), lang=code) for code in LANGUAGES[:4]]
    if minute < 30:
        early = f"{distance[1]} nach {de}"
        return (
            *(f"{distance[0]} past {en}", early, f"{hours} {distance[2]}"),
            *(f"{es} y {distance[3]}", ja, zh),
        )
    late = f"{distance[1]} vor {de}"
    return (
        *(f"{distance[0]} to {en}", late, f"{hours} moins {distance[2]}"),
        *(f"{es} menos {distance[3]}", ja, zh),
    )


def read_out(hour: int, minute: int) -> Values:
    """Return hours and minutes one after the other: nine thirty, neun Uhr dreißig."""
    en, de, fr, es = (
        [num2words(number, lang=code) for number in (hour, minute)] for code in LANGUAGES[:4]
    )
    return (
        *(f"{en[0]} {en[1]}", f"{de[0]} Uhr {de[1]}", f"{fr[0]} heures {fr[1]}"),
        *(f"{es[0]} y {es[1]}", f"{hour}時{minute}分", f"{_HANZI[hour]}点{hanzi(minute)}分"),
    )


_HANZI = ("零", "一", "两", "三", "四", "五", "六", "七", "八", "九", "十", "十一", "十二")


def hanzi(number: int) -> str:
    """Return a number under a thousand in Chinese words."""
    hundreds, rest = divmod(number, 100)
    tens, ones = divmod(rest, 10)
    signs = "零一二三四五六七八九"
    text = f"{signs[hundreds]}百" if hundreds else ""
    if tens:
        text += ("" if tens == 1 and not hundreds else signs[tens]) + "十"
    elif hundreds and ones:
        text += "零"
    return text + (signs[ones] if ones else "")


def kanji(number: int) -> str:
    """Return a number under a thousand in Japanese words."""
    return hanzi(number).replace("零", "").replace("一百", "百").replace("一十", "十")


def words(draw: random.Random) -> Values:
    """Return a number in words, or in figures if a language writes it so; none that ends in one."""
    number = draw.choice((draw.randint(13, 99), draw.randint(13, 99), draw.randint(100, 999)))
    number += number % 10 == 1
    en, de, fr, es = (num2words(number, lang=code) for code in LANGUAGES[:4])
    if draw.random() < 0.3:
        return (en, de, fr, es, kanji(number), hanzi(number))
    return (en, de, fr, es, str(number), str(number))


def millions(draw: random.Random) -> Values:
    """Return a sum of money in millions or thousands of millions.

    Japanese and Chinese count in ten thousands and hundreds of millions.
    """
    tenths = draw.choice((draw.randint(11, 99), draw.randint(2, 99) * 10, draw.randint(2, 9) * 100))
    thousands_of = draw.random() < 0.4
    whole, tenth = divmod(tenths, 10)
    point, comma = (f"{whole}{mark}{tenth}" if tenth else str(whole) for mark in ".,")
    many = tenths >= 20
    unit = draw.choice((*CURRENCIES, *EASTERN))
    of = "d'" if unit[2].startswith("e") else "de "
    if thousands_of:
        spanish = thousands(tenths * 100)[3]
        asian = (f"{tenths}億", f"{tenths}亿")
        names = ("billion", "Milliarden", "milliards" if many else "milliard", "millones")
    else:
        spanish = comma
        asian = myriads(tenths * 10**5)
        german = draw.choice(("Millionen", "Millionen", "Mio."))
        names = ("million", german, "millions" if many else "million", "millones")
    return (
        f"{point} {names[0]} {unit[0]}",
        f"{comma} {names[1]} {unit[1]}",
        f"{comma} {names[2]} {of}{unit[2]}",
        f"{spanish} {names[3]} de {unit[3]}",
        asian[0] + unit[4],
        asian[1] + unit[5],
    )


def number(draw: random.Random) -> Values:
    return same(str(draw.randint(2, 60)))


def year(draw: random.Random) -> Values:
    return same(str(draw.choice((draw.randint(2008, 2032), draw.randint(1890, 2035)))))
