"""Policy for partial texts: agreement, timing, divergence."""

from __future__ import annotations

import pytest

from gateway.core.streaming.partials import PartialPolicy, PartialTiming
from tests.support.typed import current

PACE = PartialTiming()
NOW = 100.0


def policy(
    *partials: str, lang: str = "en", pace: PartialTiming = PACE, every: float = 0.1
) -> PartialPolicy:
    """Return a policy that was offered these partials, the last one at `NOW`."""
    made = PartialPolicy(pace)
    for n, text in enumerate(partials, 1 - len(partials)):
        made.offer(text, lang, NOW + n * every)
    return made


def agreed(*partials: str, lang: str = "en", pace: PartialTiming = PACE) -> str:
    return policy(*partials, lang=lang, pace=pace).agreed


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


def test_in_scripts_without_spaces_single_characters_and_foreign_words_are_agreed() -> None:
    assert agreed("今日は", "今日は会", "今日は会議", lang="ja") == "今日は会"
    assert agreed("我们用Pyth", "我们用Python写", lang="zh") == "我们用"
    assert agreed("我们用Python写", "我们用Python写程", lang="zh") == "我们用Python写"


def test_words_joined_by_a_dash_are_agreed_together() -> None:
    assert agreed("we met—re", "we met—really now") == "we"
    made = policy("we met—really", "we met—really")
    assert made.admit(NOW) == "we met—really"
    assert made.continues("we met—really then", "en")
    assert policy("a—b c d", "a—b c d").rest(1).agreed == "c d"


def test_the_rest_behind_a_cut_is_agreed_as_it_was_said_once_nothing_changes() -> None:
    made = policy("we met", "we met here, now").rest(1)
    assert made.agreed == "met"
    assert made.admit(NOW + PACE.stall) == "met here, now"


def test_one_word_is_translated_at_once_if_one_word_is_enough() -> None:
    eager = PartialTiming(words=1, first=1, step=1)
    assert policy("we", "we start", pace=eager).due(NOW) == NOW


def test_after_the_first_translation_the_smaller_step_counts() -> None:
    pace = PartialTiming(words=1, first=3, step=1, interval=0.0)
    made = policy("we start now", "we start now", pace=pace)
    made.admit(NOW)
    for text in ("we start now with", "we start now with it"):
        made.offer(text, "en", NOW)
    assert made.due(NOW) == NOW


def test_agreed_text_is_spelt_as_in_the_newest_partial() -> None:
    assert agreed("well we start", "Well, we start now") == "Well, we start"
    assert agreed("well we", "well we start", "Well: we START now.") == "Well: we START"


@pytest.mark.parametrize("mark", [".", ",", "?", " ...", "…"])
def test_a_final_mark_is_agreed_once_it_is_repeated_or_followed_by_a_word(
    mark: str,
) -> None:
    assert agreed("we start" + mark, "we" + mark) == "we"
    assert agreed("we", "we start", "we start now", "we" + mark) == "we start"
    assert agreed("we start", "we start" + mark + " Now") == "we start" + mark
    assert agreed("we start" + mark, "we start" + mark) == "we start" + mark


def test_two_equal_partials_are_agreed_completely() -> None:
    assert agreed("we start", "We start.") == "We start."
    assert agreed("x", "we start", "we start") == "we start"


def test_repeats_requires_more_equal_partials() -> None:
    pace = PartialTiming(repeats=3)
    assert agreed("we star", "we star", pace=pace) == ""
    assert agreed("we star", "we star", "we start", pace=pace) == "we"
    assert agreed("we start", "we start", "we start", pace=pace) == "we start"


def test_with_one_repeat_every_partial_is_agreed_at_once() -> None:
    assert agreed("we start.", pace=PartialTiming(repeats=1)) == "we start."


# --- shorter and different partials ---------------------------------------------------------------


def test_a_shorter_partial_withdraws_nothing() -> None:
    assert agreed("a b c", "a b c d", "a") == "a b c"
    assert agreed("a b c", "a b c d", "") == "a b c"
    assert agreed("a b c", "a b c d", "a", "a") == "a b c"


def test_words_that_return_after_a_shorter_partial_count_as_repeated() -> None:
    assert agreed("a b c", "a b c d", "a b", "a b c d e") == "a b c d"
    assert agreed("a b c", "a b c x", "a b", "a b c d") == "a b c"


def test_another_word_in_one_partial_withdraws_nothing() -> None:
    assert agreed("a b c", "a b c d", "a b x d e") == "a b c"
    assert agreed("a b c", "a b c d", "a b x d e", "a b c d e f") == "a b c"


def test_another_word_in_two_partials_of_full_length_replaces_agreed_words() -> None:
    assert agreed("a b c", "a b c d", "a b x d e", "a b x d e f") == "a b x d e"
    assert agreed("a b c", "a b c d", "a b x", "a b x") == "a b x"


def test_a_shorter_partial_with_other_words_replaces_nothing_until_it_grows() -> None:
    shorter = policy("a b c d", "a b c d e", "a x", "a x y")
    assert shorter.agreed == "a b c d"
    shorter.offer("a x y z", "en", NOW + 0.1)
    assert shorter.agreed == "a x y"


def test_a_shorter_partial_with_other_words_is_accepted_after_the_stall() -> None:
    shorter = policy("a b c d", "a b c d e")
    shorter.admit(NOW)
    shorter.offer("a x.", "en", NOW)
    assert shorter.due(NOW) == NOW + PACE.stall
    assert not current(shorter.diverged)
    assert shorter.due(NOW + PACE.stall) == NOW + PACE.interval
    assert current(shorter.diverged)
    assert shorter.admit(NOW + PACE.stall) == "a x."
    assert not shorter.diverged


def test_a_partial_that_is_only_shorter_is_never_accepted() -> None:
    less = policy("a b c", "a b c d", "a b")
    assert less.admit(NOW + 10) == "a b c"
    assert less.due(NOW + 20) is None


# --- timing ---------------------------------------------------------------------------------------


def test_without_text_nothing_is_due() -> None:
    silent = PartialPolicy(PACE)
    assert silent.due(NOW) is None
    assert silent.admit(NOW) == ""
    assert not silent.diverged
    silent.offer("", "en", NOW)
    assert silent.due(NOW) is None
    assert silent.due(NOW + 10) is None


def test_the_first_translation_starts_at_once_with_two_agreed_words() -> None:
    assert policy("a", "a b").due(NOW) == NOW + PACE.stall
    assert policy("a b", "a b c").due(NOW) == NOW
    assert policy("今日は", "今日は会", lang="ja").due(NOW) == NOW + PACE.stall
    assert policy("今日は会", "今日は会議", lang="ja").due(NOW) == NOW


def test_a_single_word_is_translated_after_the_stall() -> None:
    one = policy("yes.")
    assert one.due(NOW + 0.1) == NOW + PACE.stall
    assert one.due(NOW + PACE.stall) == NOW + PACE.stall
    assert one.admit(NOW + PACE.stall) == "yes."
    assert one.due(NOW + 10) is None


def test_the_next_translation_waits_for_the_interval() -> None:
    next = policy("a b", "a b c d e")
    next.admit(NOW)
    next.offer("a b c d e f", "en", NOW + 0.1)
    assert next.due(NOW + 0.1) == NOW + PACE.interval
    assert next.due(NOW + 0.5) == NOW + PACE.interval
    assert next.admit(NOW + 0.5) == "a b c d e"


def test_many_new_words_do_not_wait_for_the_interval() -> None:
    next = policy("a b", "a b c d e f g h")
    next.admit(NOW)
    next.offer("a b c d e f g h i", "en", NOW + 0.1)
    assert next.due(NOW + 0.1) == NOW + 0.1


def test_in_scripts_without_spaces_several_characters_count_as_a_word() -> None:
    next = policy("今日は会", "今日は会議を始めましょう", lang="ja", pace=PartialTiming(words=4))
    next.admit(NOW)
    next.offer("今日は会議を始めましたよ", "ja", NOW + 0.1)
    assert next.agreed == "今日は会議を始めまし"
    assert next.due(NOW + 0.1) == NOW + PACE.interval
    next.offer("今日は会議を始めましたよね", "ja", NOW + 0.2)
    assert next.due(NOW + 0.2) == NOW + 0.2


def test_a_larger_step_waits_for_more_words_or_for_the_stall() -> None:
    next = policy("a b", "a b c", pace=PartialTiming(step=2, interval=0.0))
    next.admit(NOW)
    next.offer("a b c d", "en", NOW + 0.1)
    assert next.due(NOW + 0.1) == NOW + 0.1 + PACE.stall
    next.offer("a b c d e", "en", NOW + 0.2)
    assert next.due(NOW + 0.2) == NOW


def test_another_spelling_does_not_cause_a_translation() -> None:
    same = policy("a b", "a b")
    assert same.admit(NOW) == "a b"
    same.offer("A b!", "en", NOW + 1)
    assert same.due(NOW + 1) is None
    assert same.due(NOW + 10) is None
    assert same.agreed == "A b!"


def test_a_text_that_does_not_change_is_agreed_after_a_while() -> None:
    tail = policy("a b", "a b c d.")
    tail.admit(NOW)
    assert tail.due(NOW + 0.1) == NOW + PACE.stall
    assert tail.agreed == "a b"
    assert tail.due(NOW + PACE.stall) == NOW + PACE.interval
    assert tail.agreed == "a b c d."
    assert tail.admit(NOW + PACE.stall) == "a b c d."


def test_the_stall_waits_for_the_interval_too() -> None:
    tail = policy("a b", "a b c")
    tail.admit(NOW + 0.7)
    assert tail.due(NOW + 0.7) == NOW + 0.7 + PACE.interval


def test_a_partial_with_the_same_words_does_not_postpone_the_stall() -> None:
    tail = policy("a b c", pace=PartialTiming(repeats=9))
    tail.offer("A b c", "en", NOW + 0.5)
    assert tail.due(NOW + 0.5) == NOW + PACE.stall


def test_text_that_the_newest_partial_contradicts_waits_for_the_next_one() -> None:
    doubt = policy("a b c", "a b c d", "a b x d")
    assert doubt.agreed == "a b c"
    assert doubt.due(NOW) == NOW + PACE.stall
    doubt.offer("a b c d e", "en", NOW + 0.1)
    assert doubt.due(NOW + 0.1) == NOW + 0.1


# --- divergence -----------------------------------------------------------------------------------


def test_text_that_grows_has_not_diverged() -> None:
    grown = policy("a b", "a b c")
    grown.admit(NOW)
    grown.offer("A, b c d", "en", NOW)
    assert not grown.diverged


def test_diverged_text_is_translated_even_if_few_words_are_new() -> None:
    other = policy("a b c", "a b c d", pace=PartialTiming(step=5))
    other.admit(NOW)
    other.offer("a b x d", "en", NOW + 0.1)
    assert not current(other.diverged)
    other.offer("a b x d e", "en", NOW + 0.2)
    assert other.diverged
    assert other.due(NOW + 0.2) == NOW + PACE.interval
    assert other.admit(NOW + PACE.interval) == "a b x d"
    assert not other.diverged


def test_text_diverges_when_admitted_words_are_no_longer_agreed() -> None:
    fewer = policy("a b c", "a b c d")
    fewer.admit(NOW)
    fewer.offer("a x y q", "en", NOW)
    fewer.offer("a x y r", "en", NOW)
    fewer.offer("a b z q", "en", NOW)
    fewer.offer("a b s r", "en", NOW)
    assert fewer.agreed == "a b"
    assert fewer.diverged
    assert fewer.due(NOW) == NOW + PACE.interval
    assert fewer.admit(NOW + PACE.interval) == "a b"


def test_the_same_words_in_another_language_diverge() -> None:
    word = policy("a b", "a b c")
    word.admit(NOW)
    word.offer("a b c", "en-GB", NOW + 0.1)
    assert not current(word.diverged)
    word.offer("a b c", "nl", NOW + 0.2)
    assert word.diverged
    assert word.due(NOW + 0.2) == NOW + PACE.interval
    word.admit(NOW + PACE.interval)
    assert not word.diverged


def test_a_switch_between_scripts_with_and_without_spaces_starts_again() -> None:
    word = policy("kyou wa kaigi", "kyou wa kaigi desu")
    word.admit(NOW)
    word.offer("今日は会議です", "ja", NOW)
    assert word.agreed == ""
    assert word.diverged
    assert word.due(NOW) == NOW + PACE.stall
    word.offer("今日は会議ですね", "ja", NOW)
    assert word.due(NOW) == NOW + PACE.interval
    assert word.admit(NOW) == "今日は会議です"


def test_after_a_switch_of_script_without_text_nothing_is_due() -> None:
    word = policy("a b", "a b c")
    word.admit(NOW)
    word.offer("", "ja", NOW)
    assert word.due(NOW + 10) is None


def test_continues_compares_the_final_text_with_the_admitted_words() -> None:
    grown = policy("a b", "a b c")
    assert grown.continues("x", "de")
    grown.admit(NOW)
    assert grown.continues("A, b c d.", "en")
    assert grown.continues("A b", "en-US")
    assert not grown.continues("a", "en")
    assert not grown.continues("a x c", "en")
    assert not grown.continues("a b c", "nl")


# --- parts ----------------------------------------------------------------------------------------


def test_the_rest_after_a_cut_keeps_its_agreed_words() -> None:
    whole = policy("a b c d e", "a, b. C d e f")
    whole.admit(NOW)
    rest = whole.rest(2)
    assert rest.agreed == "C d e"
    assert rest.due(NOW) == NOW
    assert not rest.diverged
    rest.offer("C d e f g", "en", NOW)
    assert rest.agreed == "C d e f"
    assert whole.agreed == "a, b. C d e"


def test_the_rest_of_a_text_that_was_agreed_to_its_end_is_open() -> None:
    rest = policy("a b", "a b c").rest(2)
    assert rest.agreed == ""
    assert rest.due(NOW) == NOW + PACE.stall
    rest.offer("c d", "en", NOW)
    assert rest.agreed == "c"


def test_the_rest_of_nothing_is_nothing() -> None:
    assert PartialPolicy(PACE).rest(3).due(NOW) is None
    assert policy("a b", "a b").rest(3).due(NOW + 10) is None


def test_the_rest_is_right_while_the_newest_partial_is_shorter_or_different() -> None:
    less = policy("a b c d", "a b c d e", "a").rest(2)
    assert less.agreed == "c d"
    less.offer("c d e f", "en", NOW)
    assert less.agreed == "c d e"
    other = policy("a b c d", "a b c d e", "a b x d e").rest(2)
    assert other.agreed == "c d"
    other.offer("x d e f", "en", NOW)
    assert other.agreed == "x d e"


def test_a_rest_after_no_words_is_the_whole() -> None:
    assert policy("a b", "a b c").rest(0).agreed == "a b"
