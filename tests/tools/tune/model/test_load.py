"""The load that settings are tuned for."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from caption_tools.replay.meeting.script import ScriptUtterance
from caption_tools.speech.text import lines
from caption_tools.tune.model import load as loads
from caption_tools.tune.model.load import (
    FEW,
    Load,
    described,
    replayed,
)

MEETING = lines()
JAPANESE = [f"今日は{n}人の会議を始めます。" for n in range(30)]


def load(text: str, seconds: float = 60.0) -> Load:
    return described(text, seconds, MEETING, "en", Random(0))


# --- descriptions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "16 streams, 10-60 words, 3 languages, partials",
            "16 streams, 10 to 60 words, 3 languages, texts growing",
        ),
        ("1 Speaker and 7 words", "1 streams, 7 to 7 words, 1 language, texts whole"),
        (
            "4 a second, 10 to 200 words",
            "4 utterances a second, 10 to 200 words, 1 language, texts whole",
        ),
        (
            "2.5/s, 1 language, no partials",
            "2.5 utterances a second, 5 to 40 words, 1 language, texts whole",
        ),
        (
            "0.5 utterances per second,",
            "0.5 utterances a second, 5 to 40 words, 1 language, texts whole",
        ),
    ],
)
def test_a_load_can_be_described_in_words(text: str, told: str) -> None:
    assert load(text).told == told


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("16 horses", "'16 horses' is not understood"),
        ("4 a second, 9 tokens", "'9 tokens' is not understood"),
        ("", "either streams or a rate"),
        ("3 streams, 4 a second", "either streams or a rate"),
        ("0 streams", "'0 streams' is not understood"),
        ("0 a second", "either streams or a rate"),
        ("3 streams, 0 languages", "'0 languages' is not understood"),
        ("3 streams, 60-10 words", "from the least to the most"),
        ("3 streams, 10-6000 words", "between 1 and 1000"),
    ],
)
def test_a_description_that_is_not_understood_is_refused_with_a_sentence(
    text: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        load(text)


def test_streams_say_as_much_as_people_who_never_pause() -> None:
    one = load("16 streams, 5-40 words, 3 languages, partials")
    assert one.told == "16 streams, 5 to 40 words, 3 languages, texts growing"
    assert (one.plan.rooms, one.plan.partials, one.languages) == (16, 1.0, 3)
    words = one.plan.pace / 60 * 16
    assert 5 < words / one.plan.rate < 40, "words of an utterance, on average"
    assert described("1 stream", 60.0, JAPANESE, "ja", Random(0)).plan.rooms == 1


def test_a_rate_has_as_many_rooms_as_people_would_speak() -> None:
    few, many = load("0.1 a second, 5-6 words"), load("100 a second")
    assert (few.plan.rate, few.plan.rooms, few.plan.partials) == (0.1, 1, 0.0)
    assert many.plan.rooms == loads.ROOMS


def test_a_load_of_too_many_utterances_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 10,000 utterances in 101 s"):
        load("100 a second", 101.0)


def test_the_first_seconds_of_a_step_are_left_out_and_never_all_of_it() -> None:
    assert load("1 a second").plan.warm == 2.0
    assert load("1 a second", 2.0).plan.warm == 0.5
    replace(load("1 a second", 2.0).plan, url="ws://x", langs=("de",)).checked()


# --- recordings ----------------------------------------------------------------------------------


def said(at: float, text: str = "Good morning to you.", lang: str = "en") -> ScriptUtterance:
    return ScriptUtterance(id=f"{at}", lang=lang, text=text, t0=at - 1, t1=at)


def test_a_recording_is_played_at_the_rate_of_its_busiest_time() -> None:
    meeting = [said(10 * n + 10, f"{n} of us are here.") for n in range(10)]
    meeting += [said(50 + n / 2) for n in range(1, 9)]
    one = replayed(meeting, 5.0, times=3, languages=2, grow=True)
    assert one.plan.rate == pytest.approx(3 * 9 / 5)
    assert (one.plan.words, one.plan.partials, one.languages) == (None, 1.0, 2)
    assert one.told == (
        "3 of a recorded meeting of 100 s, 5.4 utterances a second when busy, 2 languages,"
        " texts growing"
    )
    assert (one.texts, len(one.lines)) == (11, 18)


def test_a_recording_that_is_shorter_than_a_step_has_its_own_rate() -> None:
    one = replayed([said(2.0), said(4.0)], 60.0, times=1, languages=1, grow=False)
    assert one.plan.rate == pytest.approx(0.5)


# --- lengths -------------------------------------------------------------------------------------


def uniform(count: int, texts: int = FEW) -> Load:
    return replace(load("1 a second"), lengths=(40.0,) * count, texts=texts)


def test_texts_of_one_length_are_refused() -> None:
    assert load("1 a second").uniform == ""
    assert "nine of ten of its 20 texts have at most 40 characters" in uniform(FEW).uniform


def test_a_load_of_few_texts_is_said_to_be_one() -> None:
    assert "known from 19 different texts only" in uniform(FEW, 19).few
    assert uniform(FEW).few == ""
