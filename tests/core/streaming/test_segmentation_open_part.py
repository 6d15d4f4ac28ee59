"""The open part of a revision: the words behind the last cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.streaming.segmentation import remainder
from tests.core.streaming.test_segmentation import keys

GONE = keys("so we met in march and it was very cold that day")


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("so we met in march and it was very cold that day but we", "but we"),
        ("So, we met in March; and it was very cold that day. But we", "But we"),
        ("so we met in march and it was very cold that day", ""),
        ("so we met in march and it was very", ""),
        ("so we", ""),
        ("", ""),
        # spelt differently, in the middle or at the cut
        ("so we met in Marsh and it was very cold that day but we", "but we"),
        ("so we met in march and it was very cold that Dey but we", "but we"),
        ("so we met in march and it was fairly bold that date but we", "but we"),
        # fewer or more words
        ("we met in march and it was very cold that day but we", "but we"),
        ("so well yes we met in march and it was very cold that day but we", "but we"),
        ("so we met 3 and it was very cold that day but we", "but we"),
        ("so we met in march and it was, you know, very cold that day but we", "but we"),
        ("so we met in march and it was very cold that's but we", "but we"),
        ("so we met in march and it was very 25 but we", "but we"),
        # another word at the cut, which might belong to either side, is repeated
        ("so we met in march and it was very cold that evening but we", "evening but we"),
        # nothing is similar, so the number of words decides
        ("one two three four five six seven eight nine ten eleven twelve 13 14", "13 14"),
    ],
)
def test_the_open_part_begins_behind_the_words_that_were_cut_off(text: str, rest: str) -> None:
    assert remainder(text, GONE, "en") == rest


def test_a_phrase_repeated_behind_the_cut_is_not_mistaken_for_the_one_before_it() -> None:
    assert remainder("no no no no no no yes", keys("no no no no"), "en") == "no no yes"
    assert remainder("we go we go we go on", keys("we go"), "en") == "we go we go on"


def test_of_repeated_phrases_the_one_nearest_to_the_cut_counts() -> None:
    gone = keys("start of " + "who what when where " * 3)
    text = "so start of " + "who what when where " * 5 + "then"
    assert remainder(text, gone, "en") == "who what when where who what when where then"


def test_the_open_part_in_a_script_without_spaces() -> None:
    gone = keys("我们三月在东京开会那天很冷", "zh")
    assert remainder("我们三月在东京开会，那天很冷。但是", gone, "zh") == "但是"
    assert remainder("我们3月在东京开了会，那天很冷。但是", gone, "zh") == "但是"
    assert remainder("我们三月在东京开会那天很", gone, "zh") == ""


def test_without_a_cut_the_whole_text_is_open() -> None:
    assert remainder(" so we met ", [], "en") == "so we met"


def test_marks_behind_the_cut_belong_to_the_open_part() -> None:
    assert remainder("so we - they", keys("so we"), "en") == "- they"
    assert remainder("so we ... they", keys("so we"), "en") == "they"


# Words that no rule takes for another spelling of each other: their first letters differ.
distinct = st.lists(st.integers(0, 99), min_size=13, max_size=40, unique=True).map(
    lambda numbers: [chr(0x4E00 + number) for number in numbers]
)


@given(distinct, st.data())
def test_changes_up_to_four_words_before_the_cut_do_not_change_the_open_part(
    said: list[str], data: st.DataObject
) -> None:
    at = data.draw(st.integers(8, len(said)))
    gone, rest = said[:at], said[at:]
    earlier, changes = gone[:-4], data.draw(st.integers(0, 4))
    for _ in range(changes):
        place = data.draw(st.integers(0, len(earlier) - 1))
        earlier[place : place + 1] = data.draw(st.sampled_from([[], ["x"], ["x", "y"]]))
        earlier = earlier or ["z"]
    text = " ".join([*earlier, *gone[-4:], *rest])
    assert remainder(text, gone, "en") == " ".join(rest)


@given(
    st.text(max_size=60) | st.text("ab .,。今日-", max_size=60),
    st.text(max_size=60) | st.text("ab .,。今日-", max_size=60),
    st.sampled_from(["en", "zh", "th"]),
)
def test_the_open_part_is_always_a_suffix_of_the_text(text: str, before: str, lang: str) -> None:
    gone = keys(before, lang)
    assert text.strip().endswith(remainder(text, gone, lang))
    assert remainder(before + " " + text, keys(before, lang), lang) == remainder(
        before + " " + text, keys(before + " ", lang), lang
    )
