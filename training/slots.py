"""Names, dates and figures for the slots of the project's own sentences.

Owns: what ``{name}``, ``{date}`` and the like become in each of the six languages. Must not know:
where sentences come from, tokens, tensors.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from num2words import num2words

LANGUAGES = ("en", "de", "fr", "es", "ja", "zh")

Values = tuple[str, str, str, str, str, str]
"""The same thing in each of `LANGUAGES`."""

SLOT = re.compile(r"\{(\w+)\}")
_LED = re.compile(r"(\b(?:a|de|que|y|o) )?\{(\w+)\}", re.IGNORECASE)


def _table(file: str) -> list[list[str]]:
    text = (Path(__file__).parent / file).read_text("utf-8")
    return [line.split("\t") for line in text.splitlines()]


NAMES = _table("names.tsv")
SURNAMES = _table("surnames.tsv")
CITIES = _table("cities.tsv")

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
CURRENCIES: Sequence[Values] = (
    ("euros", "Euro", "euros", "euros", "ユーロ", "欧元"),
    ("euros", "Euro", "euros", "euros", "ユーロ", "欧元"),
    ("dollars", "Dollar", "dollars", "dólares", "ドル", "美元"),
    ("pounds", "Pfund", "livres", "libras", "ポンド", "英镑"),
    ("francs", "Franken", "francs", "francos", "フラン", "法郎"),
)
SYLLABLES = (
    "al an ar bel ber bo bri ca cor da del den do el en er fa fer ga gal gra ha han hol in ka kar"
    " kel ki la lan len li lo lu ma mar mel mi mon na nel ni no nor or pa per pi pro ra ren ri ro"
    " sa san sel si so sta ta tal ter ti to tri u va vel ver vi vo wa wen wil xi ya yo za zen"
).split()
ENDINGS = "a o n s x el er ik ia is on us ar en o y".split()
WORDS = (
    "account agenda alpha anchor atlas backup budget campus cedar chart client cloud delta demo"
    " design draft echo event falcon final forms garden guide harbor invoice kestrel launch ledger"
    " lumen maple meeting metrics minutes nimbus notes onyx orbit orders photos plan pilot portal"
    " pulse quartz report river roadmap sales schedule slides sprint stats summary survey team"
    " tickets timeline training update vector vertex wiki zephyr"
).split()


_LEADS: dict[str, dict[str, tuple[str, str]]] = {
    "en": {"a": (r"(?i:[aeio])|8|1[18](?!\d)", "an ")},
    "fr": {"de": (r"(?i:[aeiouâàéèêîôœ])", "d'"), "que": (r"(?i:[aeiouâàéèêîôœ])", "qu'")},
    "es": {"y": (r"(?i:h?[ií](?![aeo]))", "e "), "o": (r"(?i:h?[oó])", "u ")},
}
"""Words that change before a name or figure: which, before what, and into what."""


def joined(value: str, language: str) -> tuple[bool, ...]:
    """Which of the words that can change do so before ``value``."""
    return tuple(
        re.match(before, value) is not None for before, _ in _LEADS.get(language, {}).values()
    )


def fill(columns: Sequence[str], draw: random.Random) -> list[str]:
    """The columns of one sentence (in the order of `LANGUAGES`) with every slot filled alike.

    Raises `KeyError` for an unknown slot.
    """
    slots = dict.fromkeys(SLOT.findall(columns[0]))
    values = {slot: SLOTS[slot](draw) for slot in slots}
    return [
        _begun(
            column, _filled(column, language, {slot: value[n] for slot, value in values.items()})
        )
        for n, (column, language) in enumerate(zip(columns, LANGUAGES, strict=True))
    ]


def _filled(column: str, language: str, values: Mapping[str, str]) -> str:
    leads = _LEADS.get(language, {})

    def value(found: re.Match[str]) -> str:
        lead, value = found[1] or "", values[found[2]]
        before, changed = leads.get(lead.strip().lower(), ("(?!)", ""))
        if re.match(before, value):
            lead = changed if lead.islower() else changed.capitalize()
        return lead + value

    return _LED.sub(value, column)


def _begun(column: str, text: str) -> str:
    """A sentence that begins with a word from a slot begins with a capital all the same."""
    first = _OPENING.match(column)
    if first is None or first[2] not in _WORDS:
        return text
    at = len(first[1])
    return text[:at] + text[at].upper() + text[at + 1 :]


_OPENING = re.compile(r"([¿¡]?)\{(\w+)\}")
_WORDS = frozenset({"weekday", "month", "clock", "words", "percent"})


def coined(draw: random.Random) -> str:
    """A name that nobody has, to learn that names are copied."""
    return ("".join(draw.choices(SYLLABLES, k=draw.randint(1, 2))) + draw.choice(ENDINGS)).title()


def person(table: Sequence[Sequence[str]], draw: random.Random) -> Values:
    """A name: known ones are transcribed in Japanese and Chinese, coined ones stay in Latin."""
    if draw.random() < 0.25:
        return _same(coined(draw))
    latin, katakana, hanzi, *_ = draw.choice(table)
    return (latin, latin, latin, latin, katakana, hanzi)


def thousands(number: int) -> Values:
    """A figure with the separators of each language (those under 1,000 have none)."""
    text = f"{number:,}"
    dots, spaces = text.replace(",", "."), text.replace(",", " ")
    return (text, dots, spaces, dots, text, text)


def _same(text: str) -> Values:
    return (text,) * 6


def _big(draw: random.Random) -> int:
    digits = draw.choice((3, 4, 4, 4, 5, 5, 6, 6, 7))
    round_to: int = 10 ** draw.randint(max(0, digits - 3), digits - 1)
    return max(1, draw.randint(10 ** (digits - 1), 10**digits - 1) // round_to) * round_to


def _large(draw: random.Random) -> Values:
    return thousands(max(1100, _big(draw)))


def _money(draw: random.Random) -> Values:
    amounts = thousands(_big(draw))
    unit = draw.choice(CURRENCIES)
    joints = (" ", " ", " ", " ", "", "")
    return tuple(map("".join, zip(amounts, joints, unit, strict=True)))  # type: ignore[return-value]


def _percent(draw: random.Random) -> Values:
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


def _date(draw: random.Random) -> Values:
    day, month = draw.randint(2, 30), draw.choice(MONTHS)
    name = month[0] if draw.random() < 0.9 else month[0][:3]
    english = f"{name} {day}" if draw.random() < 0.8 else f"the {day}{_ordinal(day)} of {month[0]}"
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


def _time(draw: random.Random) -> Values:
    hour, minute = draw.randint(2, 19), draw.choice((0, 0, 5, 10, 15, 15, 20, 30, 30, 40, 45, 50))
    if minute:
        clock = f"{hour}:{minute:02}"
        return (
            clock,
            f"{clock} Uhr",
            f"{hour} h {minute:02}",
            clock,
            f"{hour}時{minute}分",
            f"{hour}点{minute}分",
        )
    english = f"{hour} o'clock" if hour <= 12 else f"{hour}:00"
    spanish = str(hour) if hour <= 12 else f"{hour}:00"
    return (english, f"{hour} Uhr", f"{hour} heures", spanish, f"{hour}時", f"{hour}点")


def _clock(draw: random.Random) -> Values:
    """A time of day in words, never one o'clock, which takes other articles."""
    hour = draw.randint(2, 11)
    minute = draw.choice((0, 5, 10, 15, 15, 20, 30, 30, 30, 40, 45, 45, 50, 55))
    later = hour if minute <= 30 else hour + 1
    en, de, fr, es = (num2words(later, lang=code) for code in LANGUAGES[:4])
    hours = f"{fr} heures"
    zh = f"{_HANZI[hour]}点"
    if minute == 0:
        return (f"{en} o'clock", f"{de} Uhr", hours, es, f"{hour}時", zh)
    ja = f"{hour}時{minute}分"
    zh += f"{_hanzi(minute)}分"
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


_HANZI = ("零", "一", "两", "三", "四", "五", "六", "七", "八", "九", "十", "十一", "十二")


def _hanzi(number: int) -> str:
    """A number under a hundred, as it is said in Chinese."""
    tens, ones = divmod(number, 10)
    signs = "零一二三四五六七八九"
    return (
        ("" if tens < 2 else signs[tens]) + ("十" if tens else "") + (signs[ones] if ones else "")
    )


def _words(draw: random.Random) -> Values:
    """A number in words, in figures where that is how it is written; none that ends in one."""
    number = draw.choice((draw.randint(13, 99), draw.randint(13, 99), draw.randint(100, 999)))
    number += number % 10 == 1
    en, de, fr, es = (num2words(number, lang=code) for code in LANGUAGES[:4])
    return (en, de, fr, es, str(number), str(number))


def _millions(draw: random.Random) -> Values:
    """A sum of money in millions or thousands of millions, which Japanese and Chinese count in
    ten thousands and hundreds of millions."""
    tenths = draw.choice((draw.randint(11, 99), draw.randint(2, 99) * 10, draw.randint(2, 9) * 100))
    thousands_of = draw.random() < 0.4
    whole, tenth = divmod(tenths, 10)
    point, comma = (f"{whole}{mark}{tenth}" if tenth else str(whole) for mark in ".,")
    many = tenths >= 20
    unit = draw.choice(CURRENCIES)
    of = "d'" if unit[2].startswith("e") else "de "
    if thousands_of:
        spanish = thousands(tenths * 100)[3]
        asian = (f"{tenths}億", f"{tenths}亿")
        names = ("billion", "Milliarden", "milliards" if many else "milliard", "millones")
    else:
        spanish = comma
        ten_thousands = tenths * 10
        high, low = divmod(ten_thousands, 10_000)
        asian = tuple(  # type: ignore[assignment]
            (f"{high}{sign}" if high else "") + (f"{low}{ten}" if low else "")
            for sign, ten in (("億", "万"), ("亿", "万"))
        )
        names = ("million", "Millionen", "millions" if many else "million", "millones")
    return (
        f"{point} {names[0]} {unit[0]}",
        f"{comma} {names[1]} {unit[1]}",
        f"{comma} {names[2]} {of}{unit[2]}",
        f"{spanish} {names[3]} de {unit[3]}",
        asian[0] + unit[4],
        asian[1] + unit[5],
    )


def _number(draw: random.Random) -> Values:
    return _same(str(draw.randint(2, 60)))


def _year(draw: random.Random) -> Values:
    return _same(str(draw.choice((draw.randint(2008, 2032), draw.randint(1890, 2035)))))


def _version(draw: random.Random) -> Values:
    return _same(".".join(str(draw.randint(0, 14)) for _ in range(draw.choice((2, 3, 3)))))


def _code(draw: random.Random) -> Values:
    letters = "".join(draw.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=draw.randint(1, 4)))
    digits = str(draw.randint(1, 10 ** draw.randint(2, 5)))
    return _same(letters + draw.choice(("-", "-", "-", " ", "")) + digits)


def _room(draw: random.Random) -> Values:
    return _same(draw.choice("ABCDEFGH") + str(draw.randint(1, 499)))


def _file(draw: random.Random) -> Values:
    name = draw.choice(("_", "-", "")).join(draw.sample(WORDS, draw.randint(1, 2)))
    kind = draw.choice("pdf xlsx docx csv txt png pptx json zip mp4 md py log yaml".split())
    return _same(f"{name}{draw.choice(('', '', f'_v{draw.randint(2, 9)}'))}.{kind}")


def _host(draw: random.Random) -> str:
    name = draw.choice((draw.choice(WORDS), coined(draw).lower()))
    return f"{name}.{draw.choice('com org net io de fr es eu jp app'.split())}"


def _url(draw: random.Random) -> Values:
    start = draw.choice(("", "", "https://", "www.", "https://www."))
    path = "".join(f"/{_part(draw)}" for _ in range(draw.randint(0, 2)))
    if draw.random() < 0.3:
        path += "?" + "&".join(_setting(draw)[0] for _ in range(draw.randint(1, 2)))
    return _same(start + _host(draw) + path)


def _part(draw: random.Random) -> str:
    """A piece of an address: a word, something nobody has written before, or both."""
    parts = [draw.choice((draw.choice(WORDS), coined(draw).lower(), _tangle(draw)))]
    if draw.random() < 0.3:
        parts.append(
            draw.choice((draw.choice(WORDS), coined(draw).lower(), str(draw.randint(1, 99))))
        )
    return draw.choice("-_.").join(parts)


def _tangle(draw: random.Random) -> str:
    return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=draw.randint(3, 8)))


def _branch(draw: random.Random) -> Values:
    kind = draw.choice("fix feature feat chore release hotfix docs test user".split())
    return _same(f"{kind}/{_part(draw)}{draw.choice(('', '-' + draw.choice(WORDS)))}")


def _address(draw: random.Random) -> Values:
    """A machine: its name or number, often with a port."""
    number = ".".join(str(draw.randint(0, 255)) for _ in range(4))
    name = draw.choice((number, number, "localhost", _host(draw)))
    return _same(name + draw.choice(("", f":{draw.randint(80, 9999)}")))


def _setting(draw: random.Random) -> Values:
    value = draw.choice(
        (str(draw.randint(0, 999)), "true", "false", draw.choice(WORDS), _tangle(draw))
    )
    key = draw.choice((draw.choice(WORDS), draw.choice(WORDS) + "_" + draw.choice(WORDS)))
    return _same(draw.choice((key, key.upper() if draw.random() < 0.3 else key)) + "=" + value)


def _emoji(draw: random.Random) -> Values:
    return _same("".join(draw.choices(EMOJI, k=draw.choice((1, 1, 1, 2, 3)))))


def strange(draw: random.Random) -> str:
    """What no language here has, to learn that it is copied: other scripts, signs, code."""
    match draw.randrange(4):
        case 0:
            return _emoji(draw)[0]
        case 1:
            low, high = draw.choice(SCRIPTS)
            letters = [chr(draw.randint(low, high)) for _ in range(draw.randint(4, 40))]
            for at in range(3, len(letters), draw.randint(4, 8)):
                letters[at] = " "
            return "".join(letters).strip() + draw.choice(("", ".", "?", "!"))
        case 2:
            name, other = _part(draw).replace("-", "_"), draw.choice(WORDS)
            return draw.choice(
                (
                    f"{name} = {draw.randint(0, 999)}",
                    f"{name}({other}, {draw.randint(0, 9)})",
                    f"if {name} == {other}: return {draw.randint(0, 9)}",
                    f"for (let i = 0; i < {draw.randint(2, 99)}; i++) {{ {name}(i); }}",
                    f"SELECT {other} FROM {name} WHERE id = {draw.randint(1, 999)};",
                    f'<{other} id="{name}"/>',
                    f"$ {name} --{other} {_setting(draw)[0]}",
                )
            )
        case _:
            kind = draw.choice((_url, _email, _code, _branch, _address, _setting, _file, _version))
            return kind(draw)[0]


SCRIPTS = ((0x0430, 0x044F), (0xAC00, 0xD7A3), (0x0627, 0x064A), (0x03B1, 0x03C9), (0x05D0, 0x05EA))
"""Cyrillic, Hangul, Arabic, Greek and Hebrew letters."""

EMOJI = [
    chr(sign)
    for low, high in (
        (0x1F300, 0x1F320),
        (0x1F330, 0x1F64F),
        (0x1F680, 0x1F6C5),
        (0x1F90D, 0x1F9FF),
    )
    for sign in range(low, high + 1)
    if not 0x1F3FB <= sign <= 0x1F3FF
] + list("☀☕☎♥✅✈✉✋✌✔✨❌❓❗❤➡⭐⚠⚡⏰")


def _email(draw: random.Random) -> Values:
    local = draw.choice(
        (
            draw.choice(NAMES)[0].lower() + "." + draw.choice(SURNAMES)[0].lower(),
            draw.choice(WORDS),
            coined(draw).lower(),
            f"{_part(draw)}{draw.choice(('', '+' + draw.choice(WORDS)))}",
        )
    )
    return _same(f"{local}@{_host(draw)}")


def _phone(draw: random.Random) -> Values:
    groups = (str(draw.randint(10 ** (k - 1), 10**k - 1)) for k in draw.choices((2, 3, 4), k=3))
    return _same(draw.choice(("", "+49 ", "0")) + " ".join(groups))


def _product(draw: random.Random) -> Values:
    name = draw.choice((coined(draw), draw.choice(WORDS).title() + draw.choice(WORDS).title()))
    return _same(name + draw.choice(("", "", "", f" {draw.randint(2, 12)}")))


def _company(draw: random.Random) -> Values:
    return _same(coined(draw) + draw.choice(("", "", "", " Group", " Labs", " Systems")))


def _row(table: Sequence[Sequence[str]], draw: random.Random) -> Values:
    return tuple(draw.choice(table))  # type: ignore[return-value]


SLOTS: dict[str, Callable[[random.Random], Values]] = {
    "name": partial(person, NAMES),
    "name2": partial(person, NAMES),
    "surname": partial(person, SURNAMES),
    "weekday": partial(_row, WEEKDAYS),
    "month": partial(_row, MONTHS),
    "city": partial(_row, CITIES),
    "date": _date,
    "time": _time,
    "clock": _clock,
    "words": _words,
    "millions": _millions,
    "branch": _branch,
    "host": _address,
    "setting": _setting,
    "emoji": _emoji,
    "n": _number,
    "n2": _number,
    "big": _large,
    "percent": _percent,
    "money": _money,
    "year": _year,
    "version": _version,
    "code": _code,
    "room": _room,
    "file": _file,
    "url": _url,
    "email": _email,
    "phone": _phone,
    "product": _product,
    "company": _company,
}
