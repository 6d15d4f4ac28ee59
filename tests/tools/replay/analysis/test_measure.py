"""The figures of a replay, each by examples that can be counted by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caption_tools.replay.analysis import measure
from caption_tools.replay.analysis.measure import Percentiles, ReaderRecord, figures, joined
from caption_tools.replay.meeting.script import RecogniserUpdate, ScriptUtterance, ShownCaption

WORDS = st.lists(st.sampled_from(["a", "ab", "b", "c"]), max_size=5)


def said(
    *updates: tuple[float, str], t0: float = 0.0, t1: float = 4.0, **more: Any
) -> ScriptUtterance:
    whole = {"id": "1", "lang": "en", "text": "One two three four.", **more}
    return ScriptUtterance(
        t0=t0, t1=t1, updates=tuple(RecogniserUpdate(*one) for one in updates), **whole
    )


def history(*texts: str) -> tuple[ShownCaption, ...]:
    """Return texts shown one after the other, one a second; the last is final."""
    shown = [ShownCaption(float(at), "", text) for at, text in enumerate(texts[:-1], 1)]
    return (*shown, ShownCaption(float(len(texts)), texts[-1], "", True))


# --- flicker -------------------------------------------------------------------------------------


def test_erasure_is_what_was_taken_back_for_each_word_that_stayed() -> None:
    # "uns" went, then "Wir treffen" went.
    shown = history("Wir treffen uns", "Wir treffen", "Dann kommen alle hier")
    assert measure.erasure([shown], spaced=True) == pytest.approx(3 / 4)


def test_erasure_is_over_all_captions_together() -> None:
    shown = [history("a b", "c d"), history("a", "a b c d e f")]
    assert measure.erasure(shown, spaced=True) == pytest.approx(2 / 8)


def test_text_that_only_grows_was_not_erased_even_inside_a_word() -> None:
    assert measure.erasure([history("Gu", "Guten", "Guten Mor", "Guten Morgen.")], spaced=True) == 0


def test_a_last_word_that_shrinks_or_changes_was_erased() -> None:
    assert measure.erasure([history("Guten", "Gut")], spaced=True) == 1
    assert measure.erasure([history("Gut so", "Guten Tag")], spaced=True) == 1


def test_characters_are_counted_where_there_are_no_spaces() -> None:
    assert measure.erasure([history("我们 在", "我们再等")], spaced=False) == pytest.approx(1 / 4)


def test_no_final_text_has_no_erasure() -> None:
    assert measure.erasure([], spaced=True) is None


@given(st.lists(WORDS, min_size=1, max_size=6))
def test_growing_text_erases_nothing_and_no_text_erases_more_than_was_shown(
    texts: list[list[str]],
) -> None:
    grown = [sum(texts[:end], []) for end in range(1, len(texts) + 1)]
    assert all(measure.taken(old, new) == 0 for old, new in pairwise(grown))
    for old, new in pairwise(texts):
        assert 0 <= measure.taken(old, new) <= len(old)


def test_an_update_counts_only_if_the_text_changes() -> None:
    shown = (
        ShownCaption(1, "", "a"),
        ShownCaption(2, "a", ""),
        ShownCaption(3, "a", " b"),
        ShownCaption(4, "a b", "", True),
    )
    assert measure.changes(shown) == 2


# --- delay ---------------------------------------------------------------------------------------


def test_the_second_word_is_agreed_on_when_two_updates_in_a_row_have_it() -> None:
    updates = [(1.0, "on"), (1.5, "one tu"), (2.0, "one two"), (2.5, "One, two three")]
    assert measure.agreed(said(*updates)) == 2.5
    assert measure.agreed(said(*updates[:3])) == 4.0, "the final text agrees with itself"
    assert measure.agreed(said()) == 4.0


def test_two_characters_are_a_word_where_there_are_no_spaces() -> None:
    updates = [(1.0, "我们"), (1.5, "我们再"), (2.0, "我们再等"), (2.5, "我们再等安")]
    assert measure.agreed(said(*updates, lang="zh")) == 2.5


def test_an_utterance_begins_with_its_first_update() -> None:
    assert measure.begun(said((1.5, "one"))) == 1.5
    assert measure.begun(said()) == 4.0


def test_first_visible_is_the_first_text_of_any_kind() -> None:
    assert (
        measure.visible((ShownCaption(1, "", " "), ShownCaption(2, "", "a"), ShownCaption(3, "a")))
        == 2
    )


def test_a_word_is_settled_once_it_and_all_before_it_are_unchanged() -> None:
    shown = history("a b", "x b", "a b", "a c", "a b c")
    # "a" changed at 2 and came back at 3; "b" came to stay at 5 although it stood there before.
    assert measure.settled(shown, spaced=True) == [3.0, 5.0, 5.0]


@given(st.lists(WORDS, min_size=1, max_size=6))
def test_words_are_settled_in_their_order(texts: list[list[str]]) -> None:
    shown = history(*map(" ".join, texts))
    times = measure.settled(shown, spaced=True)
    assert len(times) == len(texts[-1])
    assert times == sorted(times)
    for place, at in enumerate(times):
        for one, text in zip(shown, texts, strict=True):
            if one.at >= at:
                assert text[: place + 1] == texts[-1][: place + 1]


def test_the_last_update_tells_how_much_had_been_said() -> None:
    one = said((1.0, "one"), (2.0, "one two"), t0=0.5)
    assert [measure.heard(one, at) for at in (0.7, 1.0, 1.9, 3.9, 4.0, 9.0)] == [
        *(0.5, 1.0, 1.0, 2.0, 4.0, 4.0)
    ]


def test_lagging_is_zero_for_an_ideal_interpreter() -> None:
    assert measure.lagging([0.0, 1000.0, 2000.0, 3000.0], 4000.0, 0) == 0


def test_lagging_stops_at_the_first_word_behind_the_source() -> None:
    # Words at 1000 and 4000 count, against an ideal of one each 1000; the last two do not.
    assert measure.lagging([1000.0, 4000.0, 4000.0, 9000.0], 4000.0, 0) == (1000 + 3000) / 2


def test_lagging_cannot_be_bought_with_more_words_than_the_reference() -> None:
    short, long = [2000.0], [2000.0, 2000.0]
    assert measure.lagging(short, 4000.0, 2) == 2000
    assert measure.lagging(long, 4000.0, 1) == 1000


@given(st.lists(st.floats(0, 9e3), min_size=1, max_size=9), st.floats(1, 9e3), st.integers(0, 9))
def test_lagging_is_never_more_than_the_latest_delay(
    delays: list[float], source: float, reference: int
) -> None:
    assert measure.lagging(sorted(delays), source, reference) <= max(delays) + 1e-6


# --- figures -------------------------------------------------------------------------------------


def test_one_caption_has_all_figures() -> None:
    one = said((1.0, "one"), (2.0, "one two"), (3.0, "one two"), references={"de": "Eins zwei."})
    shown = (
        ShownCaption(3.25, "", "Eins"),
        ShownCaption(3.5, "", "Zwei"),
        ShownCaption(4.5, "Eins zwei.", "", True),
    )
    found = figures([ReaderRecord(said=one, shown=shown)], "de")
    assert (found.captions, found.failed, found.lost) == (1, 0, 0)
    assert found.erasure == pytest.approx(1.0)
    assert found.updates == 3
    assert found.agreed_ms == Percentiles(250, 250)
    assert found.visible_ms == Percentiles(2250, 2250)
    assert found.final_ms == Percentiles(500, 500)
    assert found.laal_ms == pytest.approx(4500)
    assert found.laal_source_ms == pytest.approx(4000)


def test_failed_and_lost_captions_are_counted_and_not_measured() -> None:
    failed = ReaderRecord(
        said=said(), shown=(ShownCaption(1, "", "a"), ShownCaption(2, "", "", True))
    )
    lost = [
        ReaderRecord(said=said(), shown=()),
        ReaderRecord(said=said(), shown=(ShownCaption(1, "", "a"),)),
    ]
    found = figures([failed, *lost], "de")
    assert (found.captions, found.failed, found.lost) == (0, 1, 2)
    assert found.erasure is None
    assert found.updates is None
    assert (found.agreed_ms, found.final_ms, found.laal_ms) == (None, None, None)


def test_an_utterance_said_in_no_time_has_no_lagging() -> None:
    found = figures([ReaderRecord(said=said(t0=4.0), shown=history("a"))], "de")
    assert (found.captions, found.laal_ms) == (1, None)


def test_percentiles_are_values_that_occurred() -> None:
    readings = [
        ReaderRecord(said=said(t1=0.0), shown=(ShownCaption(float(at), "a", "", True),))
        for at in range(1, 21)
    ]
    assert figures(readings, "de").final_ms == Percentiles(10_000, 19_000)


# --- parts ---------------------------------------------------------------------------------------


def test_a_segment_that_grows_erases_nothing_of_the_segment_behind_it() -> None:
    first = (ShownCaption(1, "", "Eins"), ShownCaption(4, "Eins und zwei.", "", True))
    second = (ShownCaption(2, "", "Drei vier"), ShownCaption(3, "Drei vier.", "", True))
    whole = joined([first, second], spaced=True)
    assert measure.erasure([whole], spaced=True) == pytest.approx(2 / 5)
    record = ReaderRecord(said=said(), shown=whole, parts=(first, second, ()))
    assert figures([record], "de").erasure == pytest.approx(0)  # "vier" became "vier."


def test_a_single_segment_is_the_caption() -> None:
    assert joined([history("a", "b")], spaced=True) == history("a", "b")
    assert joined([()], spaced=True) == ()


def test_segments_are_joined_in_their_order() -> None:
    first = (ShownCaption(1, "", "Eins"), ShownCaption(3, "Eins.", "", True))
    second = (ShownCaption(2, "", "Zwei"), ShownCaption(4, "Zwei.", "", True))
    assert joined([first, second], spaced=True) == (
        ShownCaption(1, "", "Eins"),
        ShownCaption(2, "", "Eins Zwei"),
        ShownCaption(3, "Eins. ", "Zwei"),
        ShownCaption(4, "Eins. Zwei.", "", True),
    )


def test_segments_of_scripts_without_spaces_are_joined_without_a_space() -> None:
    assert (
        joined([history("你好。"), history("", "世界。")], spaced=False)[-1].text == "你好。世界。"
    )


def test_a_caption_has_ended_when_all_its_segments_have() -> None:
    whole = joined([history("a"), ()], spaced=True)
    assert not whole[-1].ended
