"""Names, addresses and figures for the slots of the project's own sentences.

Owns: what ``{name}``, ``{date}`` and the like become in each of the six languages. Must not know:
where sentences come from, tokens, tensors.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from training import figures, people
from training.figures import LANGUAGES, Values, same

SLOT = re.compile(r"\{(\w+)\}")
_LED = re.compile(r"(\b(?:a|de|que|y|o) )?\{(\w+)\}", re.IGNORECASE)


def _table(file: str) -> list[list[str]]:
    text = (Path(__file__).parent / file).read_text("utf-8")
    return [line.split("\t") for line in text.splitlines()]


NAMES = _table("names.tsv")
SURNAMES = _table("surnames.tsv")
CITIES = _table("cities.tsv")

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
    """Return which of the words that can change do so before ``value``."""
    return tuple(
        re.match(before, value) is not None for before, _ in _LEADS.get(language, {}).values()
    )


def fill(columns: Sequence[str], draw: random.Random) -> list[str]:
    """Return the columns of one sentence (in the order of `LANGUAGES`) with every slot filled
    alike.

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
    """Return a sentence with a capital even if it begins with a word from a slot."""
    first = _OPENING.match(column)
    if first is None or first[2] not in _WORDS:
        return text
    at = len(first[1])
    return text[:at] + text[at].upper() + text[at + 1 :]


_OPENING = re.compile(r"([¿¡]?)\{(\w+)\}")
_WORDS = frozenset({"weekday", "month", "clock", "words", "percent"})


def coined(draw: random.Random) -> str:
    """Return a name that nobody has, to learn that names are copied."""
    return ("".join(draw.choices(SYLLABLES, k=draw.randint(1, 2))) + draw.choice(ENDINGS)).title()


def listed(table: Sequence[Sequence[str]], draw: random.Random) -> Values:
    """Return a name of a table, with its transcriptions."""
    latin, katakana, hanzi, *_ = draw.choice(table)
    return (latin, latin, latin, latin, katakana, hanzi)


def part(kind: str, draw: random.Random, table: Sequence[Sequence[str]] | None = None) -> Values:
    """Return a given name or a surname: listed, put together, or coined and then in Latin letters.

    :param kind: ``given`` or ``family``
    :param table: the listed ones, if not all
    """
    match draw.choices(("listed", "composed", "coined"), (45, 35, 20))[0]:
        case "listed":
            return listed(table or (NAMES if kind == "given" else SURNAMES), draw)
        case "composed":
            return people.composed(kind, draw)
        case _:
            return same(coined(draw))


def person(draw: random.Random) -> Values:
    """Return the name of a person; one in four is a full name."""
    match draw.choices(("given", "full", "eastern"), (75, 17, 8))[0]:
        case "given":
            return part("given", draw)
        case "full":
            return people.full(part("given", draw), part("family", draw))
        case _:
            return people.eastern(draw)


def _city(draw: random.Random) -> Values:
    return _row(CITIES, draw) if draw.random() < 0.8 else people.composed("family", draw)


def _version(draw: random.Random) -> Values:
    return same(".".join(str(draw.randint(0, 14)) for _ in range(draw.choice((2, 3, 3)))))


def _code(draw: random.Random) -> Values:
    letters = "".join(draw.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=draw.randint(1, 4)))
    digits = str(draw.randint(1, 10 ** draw.randint(2, 5)))
    return same(letters + draw.choice(("-", "-", "-", " ", "")) + digits)


def _watch(draw: random.Random) -> Values:
    """Return a time as a digital clock shows it, which is written alike everywhere."""
    return same(f"{draw.randint(0, 23)}:{draw.randint(0, 59):02}")


def _room(draw: random.Random) -> Values:
    return same(draw.choice("ABCDEFGH") + str(draw.randint(1, 499)))


def _file(draw: random.Random) -> Values:
    name = draw.choice(("_", "-", "")).join(draw.sample(WORDS, draw.randint(1, 2)))
    kind = draw.choice("pdf xlsx docx csv txt png pptx json zip mp4 md py log yaml".split())
    return same(f"{name}{draw.choice(('', '', f'_v{draw.randint(2, 9)}'))}.{kind}")


def _host(draw: random.Random) -> str:
    name = draw.choice((draw.choice(WORDS), coined(draw).lower()))
    return f"{name}.{draw.choice('com org net io de fr es eu jp app'.split())}"


def _url(draw: random.Random) -> Values:
    start = draw.choice(("", "", "https://", "www.", "https://www."))
    path = "".join(f"/{_part(draw)}" for _ in range(draw.randint(0, 2)))
    if draw.random() < 0.3:
        path += "?" + "&".join(_setting(draw)[0] for _ in range(draw.randint(1, 2)))
    return same(start + _host(draw) + path)


def _part(draw: random.Random) -> str:
    """Return a piece of an address: a word, an invented word, or both."""
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
    return same(f"{kind}/{_part(draw)}{draw.choice(('', '-' + draw.choice(WORDS)))}")


def _address(draw: random.Random) -> Values:
    """Return a machine: its name or number, often with a port."""
    number = ".".join(str(draw.randint(0, 255)) for _ in range(4))
    name = draw.choice((number, number, "localhost", _host(draw)))
    return same(name + draw.choice(("", f":{draw.randint(80, 9999)}")))


def _setting(draw: random.Random) -> Values:
    value = draw.choice(
        (str(draw.randint(0, 999)), "true", "false", draw.choice(WORDS), _tangle(draw))
    )
    key = draw.choice((draw.choice(WORDS), draw.choice(WORDS) + "_" + draw.choice(WORDS)))
    return same(draw.choice((key, key.upper() if draw.random() < 0.3 else key)) + "=" + value)


def _emoji(draw: random.Random) -> Values:
    return same("".join(draw.choices(EMOJI, k=draw.choice((1, 1, 1, 2, 3)))))


def strange(draw: random.Random) -> str:
    """Return text of no language here, to learn that it is copied: other scripts, signs, code."""
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
    return same(f"{local}@{_host(draw)}")


def _phone(draw: random.Random) -> Values:
    groups = (str(draw.randint(10 ** (k - 1), 10**k - 1)) for k in draw.choices((2, 3, 4), k=3))
    return same(draw.choice(("", "+49 ", "0")) + " ".join(groups))


def _product(draw: random.Random) -> Values:
    name = draw.choice((coined(draw), draw.choice(WORDS).title() + draw.choice(WORDS).title()))
    grade = draw.choice(("", "", "", "", " Pro", " Mini", " Plus", " One", " X"))
    number = draw.choice(
        ("", "", "", f" {draw.randint(2, 12)}", f" {draw.choice('ASX')}{_two(draw)}")
    )
    return same(name + grade + number)


def _time(draw: random.Random) -> Values:
    """Return a time of day, in figures or as a clock is read aloud."""
    return figures.clock(draw) if draw.random() < 0.35 else figures.time(draw)


def _two(draw: random.Random) -> int:
    return draw.randint(10, 99)


FORMS = (
    "Group|Labs|Systems|GmbH|AG|KG|Ltd|Inc.|LLC|Corp.|SA|SAS|S.L.|S.p.A.|NV|Oy|AB|Holdings|Partners"
    "|Bank|Pharma|Logistics|Motors|Foods|Energy|Media|Software|Airlines|Hotels|Capital|Robotics"
).split("|")


def _company(draw: random.Random) -> Values:
    """Return a company, whose name is written alike everywhere."""
    one = draw.choice((coined, _family, _family))(draw)
    match draw.choices(("one", "form", "two", "letters"), (35, 40, 15, 10))[0]:
        case "one":
            return same(one)
        case "form":
            return same(f"{one} {draw.choice(FORMS)}")
        case "two":
            return same(f"{one} & {draw.choice((_family(draw), 'Co.', 'Sons'))}")
        case _:
            return same("".join(draw.choices("ABCDEFGHIKLMNOPRSTVWZ", k=draw.randint(2, 4))))


def _family(draw: random.Random) -> str:
    return part("family", draw)[0]


def _row(table: Sequence[Sequence[str]], draw: random.Random) -> Values:
    return tuple(draw.choice(table))  # type: ignore[return-value]


SLOTS: dict[str, Callable[[random.Random], Values]] = {
    "name": person,
    "name2": person,
    "surname": partial(part, "family"),
    "weekday": partial(_row, figures.WEEKDAYS),
    "month": partial(_row, figures.MONTHS),
    "city": _city,
    "date": figures.date,
    "time": _time,
    "clock": figures.clock,
    "watch": _watch,
    "words": figures.words,
    "millions": figures.millions,
    "branch": _branch,
    "host": _address,
    "setting": _setting,
    "emoji": _emoji,
    "n": figures.number,
    "n2": figures.number,
    "big": figures.large,
    "percent": figures.percent,
    "money": figures.money,
    "year": figures.year,
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
