"""Properties of a speech stream under any calls."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.recognition.speech_recognition import SpeechRecognition
from gateway.core.recognition.speech_timing import FRAME_BYTES, FRAME_SECONDS, SpeechTiming
from gateway.job import Recognised
from tests.core.recognition.speech import Speaker, words

TIMING = SpeechTiming(window=3.0, longest=5.0, utterance=8.0, backlog=12.0)
"""Shorter than the default, so that short tests reach every bound."""

RESULTS = st.builds(
    Recognised,
    words=st.builds(
        words,
        st.lists(st.sampled_from(["we", "meet", "again.", "见", "...", "No!"]), max_size=20).map(
            " ".join
        ),
        st.floats(0, 6),
        st.floats(0, 0.6),
    ),
    lang=st.sampled_from(["", "en", "de", "cy"]),
    lang_probability=st.floats(0, 1),
    no_speech=st.floats(0, 1),
    log_probability=st.floats(-2, 0),
    compression=st.floats(0, 4),
)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("feed"), st.integers(0, 250), st.floats(0, 1)),
        st.tuples(st.just("voice"), st.integers(1, 200)),
        st.tuples(st.just("silence"), st.integers(1, 40)),
        st.tuples(st.just("answer"), RESULTS),
        st.just(("fail",)),
        st.just(("end",)),
        st.just(("stop",)),
        st.just(("reset",)),
    ),
    max_size=40,
)


@given(STEPS, st.sampled_from([(), ("en",), ("en", "de")]), st.none() | RESULTS)
def test_whatever_happens_every_utterance_ends_once_in_bounded_memory(
    steps: list[tuple[object, ...]], langs: tuple[str, ...], last: Recognised | None
) -> None:
    one = Speaker(SpeechRecognition("s", langs, timing=TIMING))
    for step in steps:
        act(one, step)
        check_bounds(one)
    one.note(one.stream.finish_speech())
    for _ in range(100):
        if one.job is None:
            break
        if last is None:
            one.fail()
        else:
            one.answer(last)
    assert one.stream.idle and one.job is None
    check_history(one)


def act(one: Speaker, step: tuple[object, ...]) -> None:
    """Do one step. An answer without a job is left out."""
    match step:
        case ("feed", int(length), float(probability)):
            one.feed([probability] * length)
        case ("voice", int(length)):
            one.feed([1.0] * length)
        case ("silence", int(length)):
            one.feed([0.0] * length)
        case ("answer", Recognised() as result) if one.job is not None:
            one.answer(result)
        case ("fail",) if one.job is not None:
            one.fail()
        case ("end",):
            one.note(one.stream.finish_speech())
        case ("stop",):
            one.job = None
            one.note(one.stream.stop())
            assert one.stream.idle
        case ("reset",):
            one.job = None
            one.reset()
            assert one.stream.idle


def check_bounds(one: Speaker) -> None:
    assert one.buffered <= TIMING.backlog * 32_000 + FRAME_BYTES
    if one.job is not None:
        assert one.length() <= TIMING.longest + FRAME_SECONDS


def check_history(one: Speaker) -> None:
    """Check numbers, times and ends of all that was heard."""
    ended: set[int] = set()
    last = 0.0
    shown: dict[int, tuple[float, float]] = {}
    for heard in one.heard:
        assert heard.utterance not in ended
        assert heard.text or heard.final
        assert heard.t0 <= heard.t1
        t0, t1 = shown.get(heard.utterance, (heard.t0, heard.t0))
        assert heard.t0 == t0 and heard.t1 >= t1
        if heard.utterance not in shown:
            assert heard.t0 >= last
        shown[heard.utterance] = (heard.t0, heard.t1)
        if heard.final:
            ended.add(heard.utterance)
            last = heard.t1 if heard.text else last
    assert ended == set(shown) == set(range(1, len(shown) + 1))
