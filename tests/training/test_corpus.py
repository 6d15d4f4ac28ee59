"""The project's own sentences: six languages a line, their slots the same in all."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from pathlib import Path

import pytest

import training
from training import pairs
from training.figures import LANGUAGES
from training.slots import SLOT, SLOTS

CORPUS = sorted((Path(training.__file__).parent / "corpus").glob("*.tsv"))
ENDS = re.compile(r"""[.?!…。？！]\s?["”“»』」）)]?$""")
HEARD = re.compile(r"[a-zäöü][a-zäöü']* ")
KANA, HAN = re.compile("[ぁ-ゖァ-ヺ]"), re.compile("[一-鿿]")


def lines(path: Path) -> list[str]:
    text = path.read_text("utf-8")
    assert text.endswith("\n")
    return text.split("\n")[:-1]


def faults(line: str) -> list[str]:
    columns = line.split("\t")
    if len(columns) != len(LANGUAGES):
        return [f"{len(columns)} columns"]
    found = []
    slots = [sorted(SLOT.findall(column)) for column in columns]
    if slots.count(slots[0]) != len(slots):
        found.append("slots differ")
    if unknown := set(slots[0]) - SLOTS.keys():
        found.append(f"unknown slots {unknown}")
    for language, column in zip(LANGUAGES, columns, strict=True):
        if column != pairs.clean(column) or not column:
            found.append(f"{language} is not clean")
        if set("{}") & set(SLOT.sub("", column)):
            found.append(f"{language} has a broken slot")
        emoji = "{emoji}" in column or any(unicodedata.category(sign) == "So" for sign in column)
        if not (ENDS.search(column) or emoji):
            found.append(f"{language} does not end")
    # A model that learns such lines writes captions in lower case, with fillers. training.noise
    # makes what a recogniser would write, of sources alone.
    if HEARD.match(columns[0]) and HEARD.match(columns[1]):
        found.append("written as speech recognition writes")
    if bare(columns[-1]):
        return [fault for fault in found if "end" not in fault]
    japanese, chinese = columns[4:]
    if not (KANA.search(japanese) or HAN.search(japanese)):
        found.append("no Japanese script")
    if not HAN.search(chinese) or KANA.search(chinese):
        found.append("no Chinese script, or kana in it")
    return found


def bare(column: str) -> bool:
    """Return whether a text is a slot alone: an address, a code, a day."""
    return not any(map(str.isalpha, SLOT.sub("", column)))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_every_line_is_one_utterance_in_six_languages(path: Path) -> None:
    bad = {n: found for n, line in enumerate(lines(path), 1) if (found := faults(line))}
    assert not bad


def test_no_sentence_stands_there_twice() -> None:
    places = defaultdict(list)
    for path in CORPUS:
        for n, line in enumerate(lines(path), 1):
            places[line.split("\t")[0]].append(f"{path.name}:{n}")
    assert not [found for found in places.values() if len(found) > 1]


def test_there_is_a_corpus() -> None:
    assert sum(len(lines(path)) for path in CORPUS) > 10_000


def test_the_filter_of_profanity_and_of_slots_keeps_every_line() -> None:
    kept = sum(1 for _ in pairs.own(CORPUS[0].parent))
    assert kept == sum(len(lines(path)) for path in CORPUS)
