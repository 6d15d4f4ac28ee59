"""Names put together from parts, and their transcriptions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import people, slots, transcribe

SEEDS = st.integers(0, 2**32)
KANA = frozenset(map(chr, (*range(0x30A1, 0x30FB), 0x30FC)))


def names(kind: str) -> set[str]:
    """Return every name that the parts make, in Latin letters."""
    return {
        (start + end).replace("_", " ")
        for _, first, second in people.PARTS[kind]
        for start in first
        for end in second
    }


def test_there_are_more_than_ten_thousand_names() -> None:
    parts = len(names("given")) + len(names("family"))
    draw = random.Random(0)
    drawn = {slots.SLOTS[slot](draw)[0] for slot in ("name", "company") for _ in range(9_000)}
    assert parts > 5_000
    assert len(drawn) > 10_000


@given(st.sampled_from(("given", "family")), SEEDS)
def test_a_name_is_latin_everywhere_or_transcribed_in_japanese_and_chinese(
    kind: str, seed: int
) -> None:
    latin, *_, kana, signs = people.composed(kind, random.Random(seed))
    assert latin[0].isupper() and not set(latin) & set("_|")
    if kana != latin:
        assert set(kana) <= KANA
        assert all("\u4e00" <= sign <= "\u9fff" for sign in signs)


@pytest.mark.parametrize("kind", ["given", "family"])
def test_every_name_that_the_parts_make_can_be_transcribed(kind: str) -> None:
    for name in names(kind):
        assert set(transcribe.katakana(name)) <= KANA, name
        assert transcribe.hanzi(name), name


@pytest.mark.parametrize(
    ("name", "kana", "signs"),
    [
        ("Petrosyan", "ペトロスヤン", "佩特罗斯扬"),
        ("Kalani", "カラニ", "卡拉尼"),
        ("Çelik", "チェリク", "切利克"),
        ("Öztürk", "オズトゥルク", "奥兹图尔克"),
        ("Kaan", "カーン", "卡恩"),
        ("Anand", "アナンド", "阿南德"),
    ],
)
def test_a_name_is_transcribed_by_its_sounds(name: str, kana: str, signs: str) -> None:
    assert (transcribe.katakana(name), transcribe.hanzi(name)) == (kana, signs)


@given(SEEDS)
def test_eastern_names_are_written_in_signs_or_sounds(seed: int) -> None:
    latin, *_, japanese, chinese = people.eastern(random.Random(seed))
    assert latin.isascii() and " " in latin
    assert not japanese.isascii() and all("\u4e00" <= sign <= "\u9fff" for sign in chinese)


def test_a_full_name_has_the_dot_of_each_language() -> None:
    first = ("Anna", "Anna", "Anna", "Anna", "アンナ", "安娜")
    second = ("Keller", "Keller", "Keller", "Keller", "ケラー", "凯勒")
    assert people.full(first, second)[4:] == ("アンナ・ケラー", "安娜·凯勒")
    assert people.full(("Zoix",) * 6, ("Taren",) * 6) == ("Zoix Taren",) * 6
