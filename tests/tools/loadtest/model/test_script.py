"""The schedule of a speaker."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caption_tools.loadtest.model.plan import Plan
from caption_tools.loadtest.model.script import CANCEL_S, Send, label, prefix, sends, times
from tests.support.typed import near

PLAN = Plan(url="ws://x", langs=("de",), rate=2.0, seconds=20.0, partials=0.0)
TEXT = "Let us wait two more minutes for Anna, she is on her way."


def written(seed: int = 1, speaker: int = 0, **change: Any) -> list[Send]:
    plan = msgspec.structs.replace(PLAN, **change)
    return list(sends(plan, speaker, lambda draw: TEXT, Random(seed)))


def utterances(found: list[Send]) -> dict[str, list[Send]]:
    by: dict[str, list[Send]] = {}
    for send in found:
        by.setdefault(send.id, []).append(send)
    return by


def test_the_id_of_an_utterance_or_segment_says_when_the_utterance_began_and_ended() -> None:
    id = label(3, 12, 1.5, 4.25)
    assert times(id) == times(f"{id}.2") == (1.5, 4.25)
    assert id.startswith(prefix(3)) and not id.startswith(prefix(1))
    assert not id.startswith(prefix(None))


@pytest.mark.parametrize("id", ["u1", "", "b-1-2", "x1-2-3-4", "b1-2-three-4"])
def test_ids_that_were_not_made_here_have_no_times(id: str) -> None:
    assert times(id) is None


def test_an_utterance_that_does_not_grow_is_one_frame_at_its_due_time() -> None:
    found = written()
    assert all((send.rev, send.text, send.final) == (1, TEXT, True) for send in found)
    assert [times(send.id) for send in found] == [(near(send.due, abs=1e-6),) * 2 for send in found]


def test_a_growing_utterance_ends_after_the_time_it_takes_to_say_it() -> None:
    found = utterances(written(partials=1.0, pace=120.0))
    for id, group in found.items():
        begun, ended = times(id) or (0, 0)
        assert ended - begun == pytest.approx(13 / 2, abs=1e-5)  # words, at 2 a second
        assert [send.rev for send in group] == list(range(1, len(group) + 1))
        assert [send.final for send in group] == [False] * (len(group) - 1) + [True]
        assert len(group) > 10
        assert begun < group[0].due < group[-1].due == pytest.approx(ended)
        assert group[-1].text == TEXT


def test_in_scripts_without_spaces_the_pace_counts_characters() -> None:
    plan = msgspec.structs.replace(PLAN, partials=1.0, source="ja", pace=60.0)
    (first, *_) = utterances(list(sends(plan, 0, lambda draw: "おはよう", Random(1))))
    begun, ended = times(first) or (0, 0)
    assert 0 < ended - begun < 4


def test_nothing_is_sent_of_an_utterance_after_its_cancel() -> None:
    for grown in (0.0, 1.0):
        found = utterances(written(cancel=1.0, partials=grown))
        for group in found.values():
            *said, cancel = group
            assert (cancel.rev, cancel.text) == (0, "")
            assert said, "something has to be there to be cancelled"
            assert all(send.due <= cancel.due for send in said)
            assert not grown or len(said) == 1 or not said[-1].final
            begun, ended = times(cancel.id) or (0, 0)
            assert cancel.due - begun <= max(CANCEL_S, ended - begun) + 1e-6


def test_fixed_speakers_take_turns() -> None:
    plan: dict[str, Any] = {"rooms": 2, "speakers": 2, "arrivals": "fixed"}
    found = [[send.due for send in written(speaker=speaker, **plan)] for speaker in range(4)]
    assert sorted(sum(found, [])) == pytest.approx([n / 2 for n in range(40)])


def test_the_rate_is_that_of_all_speakers_together() -> None:
    found = [written(seed, speaker=seed, rooms=5, seconds=200.0) for seed in range(5)]
    assert sum(map(len, found)) == pytest.approx(400, rel=0.15)


@given(
    st.integers(),
    st.floats(min_value=0.1, max_value=20),
    st.floats(min_value=0, max_value=1),
    st.floats(min_value=0, max_value=1),
)
def test_everything_is_sent_in_order_and_the_same_seed_says_the_same(
    seed: int, rate: float, partials: float, cancel: float
) -> None:
    change: dict[str, Any] = {"rate": rate, "partials": partials, "cancel": cancel, "seconds": 5.0}
    found = written(seed, **change)
    assert [send.due for send in found] == sorted(send.due for send in found)
    assert found == written(seed, **change)
    for group in utterances(found).values():
        assert sum(send.final for send in group) + sum(not send.rev for send in group) in (1, 2)
