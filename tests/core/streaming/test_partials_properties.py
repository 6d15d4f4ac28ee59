"""Properties of the policy for partial texts, for any texts, times and pauses."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.streaming.partials import PartialPolicy, PartialTiming
from gateway.text import word_units
from tests.core.streaming.test_partials import NOW, PACE, policy

LANGS = st.sampled_from(["en", "de", "ja", "zh", "th"])
WORDS = st.sampled_from(["a", "b", "A,", "b.", "...", "今日", "C++", "c"])
PARTIALS = st.lists(st.lists(WORDS, max_size=6).map(" ".join), max_size=12)
WAITS = st.sampled_from([0.0, 0.05, 0.2, 0.3, 0.9])


def keys(text: str, lang: str) -> list[str]:
    return word_units.keyed(text, word_units.spaced(lang))[0]


def admitted(opened: PartialPolicy, now: float, until: float) -> Iterable[str]:
    """Yield the texts that a room with a precise clock admits before ``until``."""
    while (due := opened.due(now)) is not None and max(due, now) <= until:
        now = max(due, now)
        taken = opened.admit(now)
        after = opened.due(now)
        assert after is None or after > now, "a policy is not due again at once"
        if taken:
            yield taken


@given(
    PARTIALS,
    LANGS,
    st.builds(
        PartialTiming,
        interval=st.sampled_from([0.1, 0.3]),
        words=st.integers(1, 4),
        first=st.integers(1, 4),
        step=st.integers(0, 3),
        repeats=st.integers(1, 4),
    ),
    st.data(),
)
def test_admitted_text_was_part_of_some_partial(
    partials: list[str], lang: str, pace: PartialTiming, data: st.DataObject
) -> None:
    opened = PartialPolicy(pace)
    now = NOW
    said: list[list[str]] = []
    for text in partials:
        opened.offer(text, lang, now)
        said.append(keys(text, lang))
        wait = data.draw(WAITS)
        for taken in admitted(opened, now, now + wait):
            head = keys(taken, lang)
            assert head and any(whole[: len(head)] == head for whole in said)
            assert taken == taken.strip()
        now += wait


@given(PARTIALS, LANGS)
def test_after_the_stall_the_whole_text_is_admitted(partials: list[str], lang: str) -> None:
    opened = policy(*partials, lang=lang)
    last = list(admitted(opened, NOW, NOW + 10))[-1:] or [""]
    assert opened.due(NOW + 10) is None
    newest = keys(partials[-1], lang) if partials else []
    assert keys(last[0], lang)[: len(newest)] == newest  # or more, if the newest is shorter
    assert not opened.diverged


@given(st.lists(WORDS, max_size=12), LANGS, st.data())
def test_agreed_text_never_shrinks_while_the_text_only_grows(
    words: list[str], lang: str, data: st.DataObject
) -> None:
    opened = PartialPolicy(PACE)
    before: list[str] = []
    now = NOW
    for count in range(len(words)):
        opened.offer(" ".join(words[: count + 1]), lang, now)
        now += data.draw(WAITS)
        opened.due(now)
        after = keys(opened.agreed, lang)
        assert after[: len(before)] == before
        assert not opened.diverged
        before = after


@given(
    st.integers(1, 12),
    st.lists(st.sampled_from(["", "wrong", "w"]), min_size=12, max_size=12),
    st.lists(st.integers(1, 3), min_size=12, max_size=12),
)
def test_a_last_word_that_is_corrected_by_the_next_partial_is_never_admitted(
    length: int, errors: list[str], steps: list[int]
) -> None:
    opened = PartialPolicy(PACE)
    count, now = 0, NOW
    for error, step in zip(errors, steps, strict=True):
        count = min(length, count + step)
        words = [f"t{n}" for n in range(count)]
        correct = " ".join(words)
        error = error if count < length else ""
        opened.offer(f"{correct} {error}".strip(), "en", now)
        for taken in admitted(opened, now, now + 0.3):
            assert set(taken.split()) <= set(words)
        now += 0.3


@given(PARTIALS, LANGS, st.integers(0, 8))
def test_the_policy_of_the_rest_agrees_on_the_rest(
    partials: list[str], lang: str, count: int
) -> None:
    opened = policy(*partials, lang=lang)
    assert keys(opened.rest(count).agreed, lang) == keys(opened.agreed, lang)[count:]
