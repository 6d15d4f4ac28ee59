"""Simulated speech recognition: the pace, the updates, the mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from caption_tools.speech import recogniser
from caption_tools.speech.recogniser import (
    PAUSE_S,
    SPOILT,
    UPDATE_S,
    T,
    heard,
    timed,
    updates,
    words,
)
from tests.support.typed import near

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem


TEXTS = st.text(alphabet="ab, .'会ー-", max_size=60)


class Never(Random):
    """A recogniser without mistakes."""

    def random(self) -> float:
        return 1.0


class Always(Random):
    """One that makes a mistake wherever it can. Where there are two, it takes the ``second``."""

    def __init__(self, *, second: bool = False) -> None:
        super().__init__(0)
        self.second = second
        self.draws = 0

    def random(self) -> float:
        self.draws += 1
        return 0.9 if self.second and self.draws % 2 == 0 else 0.0

    def choice(self, seq: SupportsLenAndGetItem[T]) -> T:
        return seq[0]


def said(text: str, draw: Random, vocabulary: Sequence[str] = (), lang: bool = True) -> list[str]:
    """Return the updates of a text spoken at the usual pace."""
    spoken = timed(text, 0.0, spaced=lang)
    found = updates(spoken, 0.0, spoken[-1][1], spaced=lang, draw=draw, vocabulary=vocabulary)
    return [text for _, text in found]


def test_a_speaker_says_150_words_a_minute() -> None:
    spoken = timed("one two three", 10.0, spaced=True)
    assert spoken == [
        ("one", near(10.4)),
        ("two", near(10.8)),
        ("three", near(11.2)),
    ]


def test_a_speaker_says_5_characters_a_second_where_there_are_no_spaces() -> None:
    assert timed("会議を", 0.0, spaced=False)[-1] == ("を", near(0.6))


def test_a_number_in_chinese_text_is_one_unit_that_takes_the_time_of_its_digits() -> None:
    assert timed("在2025年", 0.0, spaced=False) == [
        ("在", near(0.2)),
        ("2025", near(1.0)),
        ("年", near(1.2)),
    ]


def test_a_known_end_sets_the_pace() -> None:
    assert timed("one two", 1.0, 5.0, spaced=True) == [("one", 3.0), ("two", 5.0)]


def test_a_dash_takes_no_time() -> None:
    assert timed("one – two", 0.0, 2.0, spaced=True) == [("one", 1.0), ("–", 1.0), ("two", 2.0)]
    assert timed("–", 1.0, 2.0, spaced=True) == [("–", 1.0)]


def test_updates_have_neither_capitals_nor_punctuation() -> None:
    assert heard("Yes, it's 3:30 – OK?") == "yes it's 3:30 ok"
    assert heard("はい、はっきり。") == "はい はっきり"


def test_an_update_comes_every_300_ms_with_the_words_that_have_ended() -> None:
    assert said("Well, one two three four.", Never()) == [
        *("well", "well one", "well one two", "well one two", "well one two three")
    ]


def test_nothing_is_sent_before_the_first_word_has_ended() -> None:
    found = updates([("one", 1.0), ("two", 1.4)], 0.0, 1.4, spaced=True, draw=Never())
    assert found == [(near(1.2), "one")]


def test_characters_are_joined_without_spaces() -> None:
    assert said("你好，世界。", Never(), lang=False) == ["你", "你好世"]


def test_a_spoilt_word_is_cut_in_half_and_corrected_one_update_later() -> None:
    found = updates([("wonder", 0.1)], 0.0, 1.0, spaced=True, draw=Always())
    assert [text for _, text in found] == ["won", "wonder", "won"]


def test_a_spoilt_word_may_be_another_word_of_the_meeting() -> None:
    found = updates(
        [("wonder", 0.1)], 0.0, 0.7, spaced=True, draw=Always(), vocabulary=["wonder", "under"]
    )
    assert [text for _, text in found] == ["under", "wonder"]
    found = updates(
        [("wonder", 0.1)], 0.0, 0.4, spaced=True, draw=Always(second=True), vocabulary=["under"]
    )
    assert [text for _, text in found] == ["won"]


def test_a_word_of_one_letter_that_cannot_be_cut_stays() -> None:
    assert said("a b c", Always()) == ["a", "a b"]


def test_the_words_before_the_last_are_right() -> None:
    for update in said("one two three four five six", Always(), ["zebra"]):
        *before, _ = update.split()
        assert before == "one two three four five six".split()[: len(before)]


def test_about_15_of_100_last_words_are_wrong() -> None:
    text = " ".join(["wonder"] * 4000)
    found = said(text, Random(1))
    wrong = sum(not update.endswith("wonder") for update in found)
    # One that follows a wrong one is right, unless there is a new word.
    assert 0.11 < wrong / len(found) < SPOILT + 0.01


@given(TEXTS, st.booleans())
def test_words_are_the_text_without_its_spaces(text: str, spaced: bool) -> None:
    assert "".join(words(text, spaced=spaced)) == "".join(text.split())


@given(TEXTS, st.booleans(), st.integers(0, 9))
def test_the_same_draws_make_the_same_updates_and_times_rise(
    text: str, spaced: bool, seed: int
) -> None:
    spoken = timed(text, 5.0, spaced=spaced)
    end = spoken[-1][1] if spoken else 5.0
    one, other = (
        updates(spoken, 5.0, end, spaced=spaced, draw=Random(seed), vocabulary=["x"])
        for _ in range(2)
    )
    assert one == other
    times = [at for at, _ in one]
    assert times == sorted(times)
    assert all(5.0 + UPDATE_S <= at < end for at in times)
    assert all(text.strip() for _, text in one)


def test_there_is_a_pause_between_utterances() -> None:
    assert PAUSE_S > 0
    assert recogniser.WORDS_A_MINUTE == 150
