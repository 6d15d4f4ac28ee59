"""Which part of a growing text is translated, and when."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.streaming.source import PartialPolicy, PartialTiming
from gateway.text import units

PACE = PartialTiming()
NOW = 100.0


def gate(
    *partials: str, lang: str = "en", pace: PartialTiming = PACE, every: float = 0.1
) -> PartialPolicy:
    """A gate that was offered these partials, the last one at `NOW`."""
    made = PartialPolicy(pace)
    for n, text in enumerate(partials, 1 - len(partials)):
        made.offer(text, lang, NOW + n * every)
    return made


def agreed(*partials: str, lang: str = "en", pace: PartialTiming = PACE) -> str:
    return gate(*partials, lang=lang, pace=pace).agreed


# --- agreement ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partials", "expected"),
    [
        ([], ""),
        (["we start"], ""),
        (["we start", "we start now"], "we start"),
        (["we star", "we start now"], "we"),
        (["we start", "we start now", "we start now with"], "we start now"),
        (["a", "b", "c"], ""),
        (["", "we", ""], ""),
    ],
)
def test_words_are_agreed_when_two_partials_in_a_row_have_them(
    partials: list[str], expected: str
) -> None:
    assert agreed(*partials) == expected


def test_without_spaces_characters_are_agreed_and_words_in_other_letters() -> None:
    assert agreed("今日は", "今日は会", "今日は会議", lang="ja") == "今日は会"
    assert agreed("我们用Pyth", "我们用Python写", lang="zh") == "我们用"
    assert agreed("我们用Python写", "我们用Python写程", lang="zh") == "我们用Python写"


def test_what_is_agreed_is_spelt_as_in_the_newest_partial() -> None:
    assert agreed("well we start", "Well, we start now") == "Well, we start"
    assert agreed("well we", "well we start", "Well: we START now.") == "Well: we START"


@pytest.mark.parametrize("mark", [".", ",", "?", " ...", "…"])
def test_a_mark_at_the_end_is_not_agreed_before_it_was_seen_twice_or_a_word_follows(
    mark: str,
) -> None:
    assert agreed("we start" + mark, "we" + mark) == "we"
    assert agreed("we", "we start", "we start now", "we" + mark) == "we start"
    assert agreed("we start", "we start" + mark + " Now") == "we start" + mark
    assert agreed("we start" + mark, "we start" + mark) == "we start" + mark


def test_the_same_words_twice_are_agreed_to_their_end() -> None:
    assert agreed("we start", "We start.") == "We start."
    assert agreed("x", "we start", "we start") == "we start"


def test_a_recogniser_that_repeats_itself_is_asked_for_more_repetitions() -> None:
    pace = PartialTiming(repeats=3)
    assert agreed("we star", "we star", pace=pace) == ""
    assert agreed("we star", "we star", "we start", pace=pace) == "we"
    assert agreed("we start", "we start", "we start", pace=pace) == "we start"


def test_one_repetition_believes_everything_at_once() -> None:
    assert agreed("we start.", pace=PartialTiming(repeats=1)) == "we start."


# --- less text, other text ------------------------------------------------------------------------


def test_a_partial_that_says_less_takes_nothing_back() -> None:
    assert agreed("a b c", "a b c d", "a") == "a b c"
    assert agreed("a b c", "a b c d", "") == "a b c"
    assert agreed("a b c", "a b c d", "a", "a") == "a b c"


def test_what_comes_back_after_such_a_partial_counts_as_said_twice() -> None:
    assert agreed("a b c", "a b c d", "a b", "a b c d e") == "a b c d"
    assert agreed("a b c", "a b c x", "a b", "a b c d") == "a b c"


def test_another_word_in_one_partial_takes_nothing_back() -> None:
    assert agreed("a b c", "a b c d", "a b x d e") == "a b c"
    assert agreed("a b c", "a b c d", "a b x d e", "a b c d e f") == "a b c"


def test_another_word_in_two_partials_that_are_not_shorter_replaces_what_was_agreed() -> None:
    assert agreed("a b c", "a b c d", "a b x d e", "a b x d e f") == "a b x d e"
    assert agreed("a b c", "a b c d", "a b x", "a b x") == "a b x"


def test_a_shorter_text_that_says_other_words_is_waited_for() -> None:
    shorter = gate("a b c d", "a b c d e", "a x", "a x y")
    assert shorter.agreed == "a b c d"
    shorter.offer("a x y z", "en", NOW + 0.1)
    assert shorter.agreed == "a x y"


def test_a_shorter_text_that_says_other_words_and_stands_is_believed() -> None:
    shorter = gate("a b c d", "a b c d e")
    shorter.take(NOW)
    shorter.offer("a x.", "en", NOW)
    assert shorter.due(NOW) == NOW + PACE.stall
    assert not shorter.diverged
    assert shorter.due(NOW + PACE.stall) == NOW + PACE.interval
    assert shorter.diverged
    assert shorter.take(NOW + PACE.stall) == "a x."
    assert not shorter.diverged


def test_a_text_that_only_says_less_is_not_believed_however_long_it_stands() -> None:
    less = gate("a b c", "a b c d", "a b")
    assert less.take(NOW + 10) == "a b c"
    assert less.due(NOW + 20) is None


# --- when -----------------------------------------------------------------------------------------


def test_nothing_said_is_nothing_to_do() -> None:
    silent = PartialPolicy(PACE)
    assert silent.due(NOW) is None
    assert silent.take(NOW) == ""
    assert not silent.diverged
    silent.offer("", "en", NOW)
    assert silent.due(NOW) is None
    assert silent.due(NOW + 10) is None


def test_the_first_translation_starts_at_once_with_two_agreed_words() -> None:
    assert gate("a", "a b").due(NOW) == NOW + PACE.stall
    assert gate("a b", "a b c").due(NOW) == NOW
    assert gate("今日は", "今日は会", lang="ja").due(NOW) == NOW + PACE.stall
    assert gate("今日は会", "今日は会議", lang="ja").due(NOW) == NOW


def test_one_word_that_stands_is_translated_too() -> None:
    one = gate("yes.")
    assert one.due(NOW + 0.1) == NOW + PACE.stall
    assert one.due(NOW + PACE.stall) == NOW + PACE.stall
    assert one.take(NOW + PACE.stall) == "yes."
    assert one.due(NOW + 10) is None


def test_the_next_translation_waits_for_the_interval() -> None:
    next = gate("a b", "a b c d e")
    next.take(NOW)
    next.offer("a b c d e f", "en", NOW + 0.1)
    assert next.due(NOW + 0.1) == NOW + PACE.interval
    assert next.due(NOW + 0.5) == NOW + PACE.interval
    assert next.take(NOW + 0.5) == "a b c d e"


def test_many_new_words_do_not_wait_for_the_interval() -> None:
    next = gate("a b", "a b c d e f g h")
    next.take(NOW)
    next.offer("a b c d e f g h i", "en", NOW + 0.1)
    assert next.due(NOW + 0.1) == NOW + 0.1


def test_without_spaces_more_characters_are_as_many_words() -> None:
    next = gate("今日は会", "今日は会議を始めましょう", lang="ja", pace=PartialTiming(words=4))
    next.take(NOW)
    next.offer("今日は会議を始めましたよ", "ja", NOW + 0.1)
    assert next.agreed == "今日は会議を始めまし"
    assert next.due(NOW + 0.1) == NOW + PACE.interval
    next.offer("今日は会議を始めましたよね", "ja", NOW + 0.2)
    assert next.due(NOW + 0.2) == NOW + 0.2


def test_a_larger_step_waits_for_more_words_or_for_the_stall() -> None:
    next = gate("a b", "a b c", pace=PartialTiming(step=2, interval=0.0))
    next.take(NOW)
    next.offer("a b c d", "en", NOW + 0.1)
    assert next.due(NOW + 0.1) == NOW + 0.1 + PACE.stall
    next.offer("a b c d e", "en", NOW + 0.2)
    assert next.due(NOW + 0.2) == NOW


def test_another_spelling_is_no_reason_to_translate_again() -> None:
    same = gate("a b", "a b")
    assert same.take(NOW) == "a b"
    same.offer("A b!", "en", NOW + 1)
    assert same.due(NOW + 1) is None
    assert same.due(NOW + 10) is None
    assert same.agreed == "A b!"


def test_a_text_that_does_not_change_is_agreed_after_a_while() -> None:
    tail = gate("a b", "a b c d.")
    tail.take(NOW)
    assert tail.due(NOW + 0.1) == NOW + PACE.stall
    assert tail.agreed == "a b"
    assert tail.due(NOW + PACE.stall) == NOW + PACE.interval
    assert tail.agreed == "a b c d."
    assert tail.take(NOW + PACE.stall) == "a b c d."


def test_the_stall_waits_for_the_interval_too() -> None:
    tail = gate("a b", "a b c")
    tail.take(NOW + 0.7)
    assert tail.due(NOW + 0.7) == NOW + 0.7 + PACE.interval


def test_a_partial_that_repeats_the_words_does_not_put_the_stall_off() -> None:
    tail = gate("a b c", pace=PartialTiming(repeats=9))
    tail.offer("A b c", "en", NOW + 0.5)
    assert tail.due(NOW + 0.5) == NOW + PACE.stall


def test_what_the_newest_partial_doubts_is_not_translated_before_the_next_one() -> None:
    doubt = gate("a b c", "a b c d", "a b x d")
    assert doubt.agreed == "a b c"
    assert doubt.due(NOW) == NOW + PACE.stall
    doubt.offer("a b c d e", "en", NOW + 0.1)
    assert doubt.due(NOW + 0.1) == NOW + 0.1


# --- divergence -----------------------------------------------------------------------------------


def test_text_that_grows_has_not_diverged() -> None:
    grown = gate("a b", "a b c")
    grown.take(NOW)
    grown.offer("A, b c d", "en", NOW)
    assert not grown.diverged


def test_other_words_have_diverged_and_are_translated_however_few() -> None:
    other = gate("a b c", "a b c d", pace=PartialTiming(step=5))
    other.take(NOW)
    other.offer("a b x d", "en", NOW + 0.1)
    assert not other.diverged
    other.offer("a b x d e", "en", NOW + 0.2)
    assert other.diverged
    assert other.due(NOW + 0.2) == NOW + PACE.interval
    assert other.take(NOW + PACE.interval) == "a b x d"
    assert not other.diverged


def test_words_that_were_admitted_and_are_no_longer_agreed_have_diverged() -> None:
    fewer = gate("a b c", "a b c d")
    fewer.take(NOW)
    fewer.offer("a x y q", "en", NOW)
    fewer.offer("a x y r", "en", NOW)
    fewer.offer("a b z q", "en", NOW)
    fewer.offer("a b s r", "en", NOW)
    assert fewer.agreed == "a b"
    assert fewer.diverged
    assert fewer.due(NOW) == NOW + PACE.interval
    assert fewer.take(NOW + PACE.interval) == "a b"


def test_the_same_words_in_another_language_have_diverged() -> None:
    word = gate("a b", "a b c")
    word.take(NOW)
    word.offer("a b c", "en-GB", NOW + 0.1)
    assert not word.diverged
    word.offer("a b c", "nl", NOW + 0.2)
    assert word.diverged
    assert word.due(NOW + 0.2) == NOW + PACE.interval
    word.take(NOW + PACE.interval)
    assert not word.diverged


def test_a_language_of_another_script_begins_anew() -> None:
    word = gate("kyou wa kaigi", "kyou wa kaigi desu")
    word.take(NOW)
    word.offer("今日は会議です", "ja", NOW)
    assert word.agreed == ""
    assert word.diverged
    assert word.due(NOW) == NOW + PACE.stall
    word.offer("今日は会議ですね", "ja", NOW)
    assert word.due(NOW) == NOW + PACE.interval
    assert word.take(NOW) == "今日は会議です"


def test_a_script_without_text_is_nothing_to_wait_for() -> None:
    word = gate("a b", "a b c")
    word.take(NOW)
    word.offer("", "ja", NOW)
    assert word.due(NOW + 10) is None


def test_a_final_text_continues_what_was_admitted_or_does_not() -> None:
    grown = gate("a b", "a b c")
    assert grown.continues("x", "de")
    grown.take(NOW)
    assert grown.continues("A, b c d.", "en")
    assert grown.continues("A b", "en-US")
    assert not grown.continues("a", "en")
    assert not grown.continues("a x c", "en")
    assert not grown.continues("a b c", "nl")


# --- parts ----------------------------------------------------------------------------------------


def test_the_rest_behind_a_cut_keeps_what_is_agreed_of_it() -> None:
    whole = gate("a b c d e", "a, b. C d e f")
    whole.take(NOW)
    rest = whole.rest(2)
    assert rest.agreed == "C d e"
    assert rest.due(NOW) == NOW
    assert not rest.diverged
    rest.offer("C d e f g", "en", NOW)
    assert rest.agreed == "C d e f"
    assert whole.agreed == "a, b. C d e"


def test_the_rest_of_a_text_that_was_agreed_to_its_end_is_open() -> None:
    rest = gate("a b", "a b c").rest(2)
    assert rest.agreed == ""
    assert rest.due(NOW) == NOW + PACE.stall
    rest.offer("c d", "en", NOW)
    assert rest.agreed == "c"


def test_the_rest_of_nothing_is_nothing() -> None:
    assert PartialPolicy(PACE).rest(3).due(NOW) is None
    assert gate("a b", "a b").rest(3).due(NOW + 10) is None


def test_the_rest_may_be_cut_while_the_newest_partial_says_less_or_other_words() -> None:
    less = gate("a b c d", "a b c d e", "a").rest(2)
    assert less.agreed == "c d"
    less.offer("c d e f", "en", NOW)
    assert less.agreed == "c d e"
    other = gate("a b c d", "a b c d e", "a b x d e").rest(2)
    assert other.agreed == "c d"
    other.offer("x d e f", "en", NOW)
    assert other.agreed == "x d e"


def test_nothing_cut_is_the_whole() -> None:
    assert gate("a b", "a b c").rest(0).agreed == "a b"


def test_a_gate_shows_no_text() -> None:
    assert repr(gate("a b", "a b c")) == "<Gate 3 units, 2 agreed, 0 admitted>"


# --- whatever is said -----------------------------------------------------------------------------

LANGS = st.sampled_from(["en", "de", "ja", "zh", "th"])
WORDS = st.sampled_from(["a", "b", "A,", "b.", "...", "今日", "C++", "c"])
PARTIALS = st.lists(st.lists(WORDS, max_size=6).map(" ".join), max_size=12)
WAITS = st.sampled_from([0.0, 0.05, 0.2, 0.3, 0.9])


def keys(text: str, lang: str) -> list[str]:
    return units.keyed(text, units.spaced(lang))[0]


def admit(opened: PartialPolicy, now: float, until: float) -> Iterable[str]:
    """What a room that keeps time takes from the gate before ``until``."""
    while (due := opened.due(now)) is not None and max(due, now) <= until:
        now = max(due, now)
        taken = opened.take(now)
        after = opened.due(now)
        assert after is None or after > now, "a gate is not due again at once"
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
def test_whatever_is_admitted_was_said(
    partials: list[str], lang: str, pace: PartialTiming, data: st.DataObject
) -> None:
    opened = PartialPolicy(pace)
    now = NOW
    said: list[list[str]] = []
    for text in partials:
        opened.offer(text, lang, now)
        said.append(keys(text, lang))
        wait = data.draw(WAITS)
        for taken in admit(opened, now, now + wait):
            head = keys(taken, lang)
            assert head and any(whole[: len(head)] == head for whole in said)
            assert taken == taken.strip()
        now += wait


@given(PARTIALS, LANGS)
def test_when_nothing_has_changed_for_a_while_everything_is_admitted(
    partials: list[str], lang: str
) -> None:
    opened = gate(*partials, lang=lang)
    last = list(admit(opened, NOW, NOW + 10))[-1:] or [""]
    assert opened.due(NOW + 10) is None
    newest = keys(partials[-1], lang) if partials else []
    assert keys(last[0], lang)[: len(newest)] == newest  # or more, where the newest says less
    assert not opened.diverged


@given(st.lists(WORDS, max_size=12), LANGS, st.data())
def test_while_a_text_only_grows_what_is_agreed_never_shrinks(
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
        for taken in admit(opened, now, now + 0.3):
            assert set(taken.split()) <= set(words)
        now += 0.3


@given(PARTIALS, LANGS, st.integers(0, 8))
def test_the_gate_of_the_rest_agrees_on_the_rest(
    partials: list[str], lang: str, count: int
) -> None:
    opened = gate(*partials, lang=lang)
    assert keys(opened.rest(count).agreed, lang) == keys(opened.agreed, lang)[count:]
