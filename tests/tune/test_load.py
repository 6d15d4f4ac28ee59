"""The load that settings are tuned for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.replay.script import Update, Utterance
from gateway.tune import load as loads
from gateway.tune.history import Recorded
from gateway.tune.load import FEW, Description, Load, Uniform, check, described, imagined, replayed

T = TypeVar("T")

SENTENCES = (
    "Good morning everyone, can you hear me?",
    "Yes, loud and clear.",
    "Last year we spent 240,000 euros.",
)


def load(text: str, seconds: float = 60.0, seed: int = 0, lang: str = "en") -> Load:
    return imagined(described(text), seconds, SENTENCES, lang, Random(seed))


# --- descriptions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (
            "16 streams, 10-60 words, 3 languages, partials",
            Description(streams=16, words=(10, 60), languages=3, partials=True),
        ),
        ("1 Speaker and 7 words", Description(streams=1, words=(7, 7))),
        ("4 a second, 10 to 200 tokens", Description(rate=4, words=(7.5, 150))),
        ("2.5/s, 1 language, no partials", Description(rate=2.5)),
        ("0.5 utterances per second,", Description(rate=0.5)),
    ],
)
def test_a_load_can_be_described_in_words(text: str, meant: Description) -> None:
    assert described(text) == meant


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("16 horses", "'16 horses' is not understood"),
        ("", "either streams or a rate"),
        ("3 streams, 4 a second", "either streams or a rate"),
        ("0 streams", "somebody who speaks"),
        ("3 streams, 0 languages", "a language to be read in"),
        ("3 streams, 60-10 words", "from the least to the most"),
        ("3 streams, 10-6000 words", "between 1 and 1000"),
    ],
)
def test_a_description_that_is_none_is_refused_with_a_sentence(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        described(text)


# --- described loads -----------------------------------------------------------------------------


@given(
    st.integers(1, 20),
    st.tuples(st.integers(1, 30), st.integers(0, 60)),
    st.booleans(),
    st.integers(0, 5),
)
def test_streams_speak_without_a_break_from_the_beginning_on(
    streams: int, words: tuple[int, int], partials: bool, seed: int
) -> None:
    low, high = words[0], words[0] + words[1]
    one = Description(streams=streams, words=(low, high), partials=partials)
    found = imagined(one, 30.0, SENTENCES, "en", Random(seed))
    assert len(found.voices) <= streams
    ids = [said.id for said in found.said]
    assert len(set(ids)) == len(ids)
    for voice in found.voices:
        assert voice[0].t0 <= 30
        for before, after in pairwise(voice):
            assert after.t0 == pytest.approx(before.t1 + loads.recogniser.PAUSE_S)
        for said in voice:
            assert 0 <= said.t1 <= 30
            assert low - 1 <= len(said.text.split()) <= high + 1
            assert all(0 <= update.at <= said.t1 for update in said.updates)
            assert partials or not said.updates


def test_the_same_seed_makes_the_same_load() -> None:
    text = "5 streams, 3-40 words, partials"
    assert load(text, seed=3) == load(text, seed=3) != load(text, seed=4)


def test_a_rate_is_kept_at_times_of_its_own() -> None:
    found = load("10 a second, 3-40 words", 100)
    assert len(found.said) == pytest.approx(1000, rel=0.15)
    assert len(found.voices) == loads.ROOMS
    for voice in found.voices:
        assert all(before.t1 <= after.t1 for before, after in pairwise(voice))


def test_nobody_says_two_things_at_once_while_texts_grow() -> None:
    found = load("5 a second, 3-40 words, partials", 30)
    for voice in found.voices:
        for before, after in pairwise(voice):
            assert before.t1 < after.t0
    assert any(said.updates for said in found.said)


def test_short_texts_are_more_frequent_than_long_ones() -> None:
    sizes = sorted(len(said.text.split()) for said in load("9 a second, 4-100 words", 100).said)
    assert sizes[len(sizes) // 2] == pytest.approx(20, abs=4)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("100000 a second", 10), ("9 streams, 1-3 words", 1e6), ("100000000 streams", 10)],
)
def test_a_load_of_too_much_is_refused_and_not_cut_short(text: str, seconds: float) -> None:
    with pytest.raises(ValueError, match="more than 10,000 utterances in"):
        load(text, seconds)


def test_languages_without_spaces_are_spoken_in_characters() -> None:
    found = imagined(
        described("3 streams, 5-40 words"), 60, ("大家早上好", "能听得很清楚"), "zh", Random(0)
    )
    assert all(5 <= len(said.text) <= 40 for said in found.said)


def test_a_load_says_what_it_is() -> None:
    assert load("3 streams, 5-40 words, partials").told == (
        "3 streams, 5 to 40 words, 1 language, texts growing"
    )
    assert load("0.5 a second").told.startswith("0.5 utterances a second, ")


# --- uniform loads -------------------------------------------------------------------------------


def test_texts_of_one_length_are_refused_as_evidence() -> None:
    with pytest.raises(Uniform, match=r"--force-uniform") as fault:
        check(load("9 streams, 20 words"))
    assert "less than 2 times apart" in str(fault.value)
    assert "15.0 requests a second for uniform" in str(fault.value)


def test_texts_that_are_too_few_to_tell_are_said_to_be_so() -> None:
    meeting = [said(str(n), 5 * n, 5 * n + 4, "x" * (50 + n)) for n in range(FEW - 1)]
    with pytest.raises(Uniform, match=r"from 19 texts only, .* --force-uniform") as told:
        check(replayed(meeting, 20.0, Random(0)))
    assert "This load is uniform" not in str(told.value)
    meeting.append(said("more", 200, 204, "x" * 60))
    with pytest.raises(Uniform, match="This load is uniform"):
        check(replayed(meeting, 20.0, Random(0)))


def test_a_meeting_of_an_hour_is_evidence_however_little_of_it_a_step_has() -> None:
    draw = Random(0)
    texts = ["word " * draw.randint(2, 40) + str(n) for n in range(400)]
    found = replayed([said(str(n), 9 * n, 9 * n + 8, text) for n, text in enumerate(texts)], 20.0,
                     draw)  # fmt: skip
    assert len(found.said) < 5
    check(found)
    assert found.few == ""


def test_five_sentences_said_for_an_hour_are_five_texts() -> None:
    texts = [f"{'word ' * 3**n}{n}" for n in range(5)]
    meeting = [said(str(n), 9 * n, 9 * n + 8, texts[n % 5]) for n in range(400)]
    found = replayed(meeting, 20.0, Random(0))
    check(found)
    assert "known from 5 different texts only" in found.few
    assert "known from 3 different texts only" in load("9 streams, 5-60 words").few
    many = [f"This is sentence {n}." for n in range(FEW)]
    assert imagined(described("2 streams"), 20, many, "en", Random(0)).few == ""


def test_texts_as_they_are_spoken_are_evidence() -> None:
    found = load("9 streams, 5-60 words")
    check(found)
    low, high = found.spread
    assert high > 3 * low


@given(st.lists(st.integers(1, 400), min_size=1, max_size=50))
def test_what_is_uniform_depends_on_the_lengths_alone(sizes: list[int]) -> None:
    voice = tuple(
        Utterance(id=str(n), lang="en", text="x" * size, t0=n, t1=n + 1)
        for n, size in enumerate(sizes)
    )
    made = Load(told="", seconds=60, voices=(voice,), languages=1, partials=False)
    ordered = sorted(sizes)
    low = ordered[max(0, -(-len(sizes) // 10) - 1)]
    high = ordered[-(-9 * len(sizes) // 10) - 1]
    if high < 2 * low:
        with pytest.raises(Uniform):
            check(made)
    else:
        check(made)


def test_a_load_in_which_nothing_is_said_is_none() -> None:
    with pytest.raises(ValueError, match=r"Nothing is said in 0\.001 s"):
        check(load("1 streams, 100 words", 1e-3))


# --- histories -----------------------------------------------------------------------------------

HISTORY = Recorded(
    said=40.0,
    seconds=600,
    rate=4.0,
    mean=1.0,
    lengths=((0.0, 20.0, 30.0), (100.0, 150.0, 10.0)),
    languages=2.1,
    partials=1.5,
    jobs=(3.0, 9.0, 14.0),
)


def test_a_history_is_evidence_by_all_that_was_said_in_it() -> None:
    many = [f"This is sentence {n}." for n in range(FEW)]
    found = loads.remembered(HISTORY, 1.0, many, "en", Random(0))
    assert len(found.said) < FEW
    check(found)
    assert found.few == ""
    short = msgspec.structs.replace(HISTORY, said=9.0, lengths=((0.0, 20.0, 9.0),))
    assert "known from 9 different texts" in loads.remembered(short, 9, many, "en", Random(0)).few
    even = msgspec.structs.replace(HISTORY, lengths=((40.0, 60.0, 500.0),))
    with pytest.raises(Uniform, match="This load is uniform"):
        check(loads.remembered(even, 1.0, many, "en", Random(0)))


def test_a_load_like_a_history_has_its_rate_lengths_and_languages() -> None:
    found = loads.remembered(HISTORY, 60, SENTENCES, "en", Random(0))
    assert found.languages == 2 and found.partials
    assert len(found.said) == pytest.approx(240, rel=0.2)
    short = sum(len(said.text) <= 30 for said in found.said) / len(found.said)
    assert short == pytest.approx(0.75, abs=0.1)
    assert "4 utterances a second when busy (1 on average)" in found.told
    assert "most: 14" in found.told


def test_a_history_of_typed_lines_is_a_load_of_whole_texts() -> None:
    typed = replace(HISTORY, partials=0.0, languages=0.0)
    found = loads.remembered(typed, 60, SENTENCES, "en", Random(0))
    assert not found.partials and found.languages == 1
    assert not any(said.updates for said in found.said)


class Last:
    """Draws that are always the highest."""

    def random(self) -> float:
        return 1 - 2**-53

    def choice(self, seq: Sequence[T], /) -> T:
        return seq[-1]


def test_the_highest_draw_is_the_longest_text() -> None:
    found = loads.remembered(HISTORY, 60, SENTENCES, "en", Last())
    assert {len(said.text.split()) for said in found.said} == {27}


# --- recorded meetings ---------------------------------------------------------------------------


def said(id: str, t0: float, t1: float, text: str, speaker: str = "Anna") -> Utterance:
    updates = (Update((t0 + t1) / 2, text[: len(text) // 2]),)
    return Utterance(id=id, lang="en", text=text, t0=t0, t1=t1, speaker=speaker, updates=updates)


MEETING = [
    said("1", 0, 2, "x" * 10),
    said("2", 50, 52, "x" * 100),
    said("3", 51, 53, "x" * 80, "Ben"),
    said("4", 98, 100, "x" * 20),
]


def test_the_busiest_time_of_a_meeting_is_replayed() -> None:
    found = replayed(MEETING, 5.0, Random(0))
    assert [[len(one.text) for one in voice] for voice in found.voices] == [[100], [80]]
    (anna,), (ben,) = found.voices
    assert (anna.t1, ben.t1) == (4.0, 5.0)
    assert [update.at for update in anna.updates] == [3.0]
    assert anna.references == {} and anna.shown == {}


def test_texts_of_a_meeting_can_come_whole() -> None:
    found = replayed(MEETING, 5.0, Random(0), partials=False)
    assert not any(one.updates for one in found.said)
    assert found.told == "1 of a recorded meeting of 101 s, texts whole"


def test_several_meetings_begin_at_different_times_and_are_rooms_of_their_own() -> None:
    found = replayed(MEETING, 100.0, Random(0), times=3, languages=2)
    assert len(found.voices) == 6
    assert len(found.said) == pytest.approx(12, abs=2)
    assert len({one.id for one in found.said}) == len(found.said)
    assert found.languages == 2


def test_more_meetings_than_a_step_may_have_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 10,000 utterances in 100 s"):
        replayed(MEETING, 100.0, Random(0), times=10_000)
    quiet = [said("1", 3600, 3602, "hello")]  # of which most say nothing in that time
    with pytest.raises(ValueError, match="more than 10,000 utterances in 1 s"):
        replayed(quiet, 1.0, Random(0), times=10**12)


def test_a_short_meeting_begins_again() -> None:
    found = replayed([said("1", 0, 2, "hello")], 10.0, Random(0))
    assert [round(one.t1, 1) for one in found.said] == [2.0, 4.6, 7.2, 9.8]


@given(st.floats(0.5, 300), st.integers(1, 5), st.integers(0, 9))
def test_all_that_is_replayed_is_said_within_the_time(
    seconds: float, times: int, seed: int
) -> None:
    for voice in replayed(MEETING, seconds, Random(seed), times=times).voices:
        assert voice
        for one in voice:
            assert 0 <= one.t1 <= seconds
            assert all(0 <= update.at <= one.t1 for update in one.updates)
