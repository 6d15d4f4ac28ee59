"""Names, numbers, times and sums that survive a translation, counted by kind and direction.

    python -m training.survival MODEL [--count 100] [--beam 4] [--outputs FILE]

``MODEL`` is a model directory. Each kind of `SLOTS` is put ``--count`` times into a sentence of
`FRAMES`, and the sentences are translated in the ten directions. A name survives if it stands in
the output as one of its spellings in that language, without regard to case. A number, sum or time
survives if its value is read in the output, and no other (`gateway.text.numbers`); "halb zehn" is
also 9:30.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from gateway.text.numbers import numbers
from training import evaluate, figures, people, slots
from training.figures import LANGUAGES, Values
from training.prompt import Text

FRAMES: dict[str, Values] = {
    "name": (
        "I spoke with {} yesterday.",
        "Ich habe gestern mit {} gesprochen.",
        "J'ai parlé avec {} hier.",
        "Ayer hablé con {}.",
        "昨日{}さんと話しました。",
        "我昨天和{}谈过。",
    ),
    "company": (
        "We have a contract with {}.",
        "Wir haben einen Vertrag mit {}.",
        "Nous avons un contrat avec {}.",
        "Tenemos un contrato con {}.",
        "{}と契約しています。",
        "我们和{}有合同。",
    ),
    "place": (
        "The next meeting is in {}.",
        "Das nächste Treffen ist in {}.",
        "La prochaine réunion est à {}.",
        "La próxima reunión es en {}.",
        "次の会議は{}であります。",
        "下次会议在{}。",
    ),
    "number": (
        "We need {} chairs.",
        "Wir brauchen {} Stühle.",
        "Il nous faut {} chaises.",
        "Necesitamos {} sillas.",
        "椅子が{}脚必要です。",
        "我们需要{}把椅子。",
    ),
    "time": (
        "Let's meet at {}.",
        "Treffen wir uns um {}.",
        "Retrouvons-nous à {}.",
        "Nos vemos a las {}.",
        "{}に会いましょう。",
        "我们{}见面吧。",
    ),
    "money": (
        "The project costs {}.",
        "Das Projekt kostet {}.",
        "Le projet coûte {}.",
        "El proyecto cuesta {}.",
        "この計画には{}かかります。",
        "这个项目要花{}。",
    ),
}


def _digits(draw: random.Random) -> Values:
    return figures.same(str(draw.randint(13, 999)))


def _new_name(draw: random.Random) -> Values:
    return draw.choice((people.composed("given", draw), figures.same(slots.coined(draw))))


def _full_name(draw: random.Random) -> Values:
    return people.full(_new_name(draw), people.composed("family", draw))


def _city(draw: random.Random) -> Values:
    return tuple(draw.choice(slots.CITIES))  # type: ignore[return-value]


SLOTS: dict[str, tuple[str, Callable[[random.Random], Values]]] = {
    "listed name": ("name", lambda draw: slots.listed(slots.NAMES, draw)),
    "unknown name": ("name", _new_name),
    "full name": ("name", _full_name),
    "company": ("company", slots.SLOTS["company"]),
    "city": ("place", _city),
    "digits": ("number", _digits),
    "number word": ("number", figures.words),
    "time in words": ("time", figures.clock),
    "sum": ("money", figures.money),
    "millions": ("money", figures.millions),
}
"""A kind by its name: its frame, and what is put there."""

NAMES = frozenset(("listed name", "unknown name", "full name", "company", "city"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--outputs", type=Path, help="write every translation there")
    options = parser.parse_args()
    translate = evaluate.CTranslate2(options.model, beam=options.beam)
    cases = list(asked(options.count))
    made = [translate.text(ids) for ids in translate([text for _, text, _ in cases])]
    kept: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    lines = []
    for (kind, text, values), output in zip(cases, made, strict=True):
        survives = survived(kind, values, text.target, output)
        kept[kind][f"{text.source}-{text.target}"].append(survives)
        lines.append(f"{kind}\t{text.source}-{text.target}\t{survives}\t{text.text}\t{output}\n")
    directions = list(next(iter(kept.values())))
    print(f"{'% kept':16}", *(f"{direction:>6}" for direction in (*directions, "mean")))
    for kind, rows in kept.items():
        shares = [100 * sum(row) / len(row) for row in rows.values()]
        print(f"{kind:16}", *(f"{share:6.0f}" for share in (*shares, sum(shares) / len(shares))))
    if options.outputs:
        options.outputs.write_text("".join(lines), "utf-8")


def asked(count: int) -> Iterator[tuple[str, Text, Values]]:
    """Yield each kind, a sentence with one of it, and its values in all languages."""
    for kind, (frame, make) in SLOTS.items():
        draw = random.Random(kind)
        for _ in range(count):
            values = make(draw)
            sentences = [
                text.format(value) for text, value in zip(FRAMES[frame], values, strict=True)
            ]
            for n, other in enumerate(LANGUAGES[1:], 1):
                yield kind, Text(sentences[0], "en", other), values
                yield kind, Text(sentences[n], other, "en"), values


def survived(kind: str, values: Values, language: str, output: str) -> bool:
    """Tell whether a value stands in a translation.

    :param values: the value in all languages
    :param language: language of the translation
    """
    value = values[LANGUAGES.index(language)]
    if kind in NAMES:
        spellings = "|".join(map(re.escape, {value, values[0]}))
        return re.search(rf"(?<![A-Za-zÀ-ɏ])(?:{spellings})", output, re.IGNORECASE) is not None
    if kind == "time in words":
        return shows_time(output, language, *clock(values))
    return [one.value for one in numbers(output, language)] == [
        one.value for one in numbers(value, language)
    ]


def clock(values: Values) -> tuple[int, int]:
    """Return the hour and minute of a time that Japanese writes in figures."""
    shown = re.fullmatch(r"(\d+)時(?:(\d+)分|半)?", values[4])
    assert shown is not None, values
    return int(shown[1]), int(shown[2] or (30 if "半" in values[4] else 0))


def shows_time(text: str, language: str, hour: int, minute: int) -> bool:
    """Tell whether a text has a time of day, in figures or in words."""
    at = LANGUAGES.index(language)
    if at >= 4:
        digits = "".join(SIGNS)
        number = rf"(\d+|[{digits}]+)"
        minutes = rf"(?:{number}分|(半)|([一三])刻)?"
        return any(
            _read(found[0]) == hour
            and (30 if found[2] else _read(found[3]) * 15 if found[3] else _read(found[1]))
            == minute
            for found in re.findall(rf"{number}[時时点]{minutes}", text)
        )
    spoken = [
        form(hour, minute)[at].removeprefix("a ") for form in (figures.told, figures.read_out)
    ]
    if not minute:
        spoken.pop()
    shown = rf"(?<!\d){hour}(?: ?[:.h] ?| Uhr ){minute:02}(?!\d)"
    if not minute:
        shown = rf"(?<![\d:]){hour}(?![\d.]*\d|:[1-5])"
    return any(re.search(rf"\b{re.escape(each)}\b", text, re.IGNORECASE) for each in spoken) or (
        re.search(shown, text) is not None
    )


SIGNS = {sign: n for n, sign in enumerate("零一二三四五六七八九十")} | {"两": 2, "〇": 0}


def _read(text: str) -> int:
    """Return a number under sixty in figures or signs; 0 of none."""
    if text.isdigit() and text.isascii():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    return (SIGNS.get(tens, 1) * 10 if ten else 0) + SIGNS.get(ones, 0)


if __name__ == "__main__":
    main()
