"""Agreement of the hypotheses of one utterance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.recognition.hypotheses import REACH, Hypotheses, is_sentence_end
from gateway.job import Word
from gateway.text import word_units
from tests.core.recognition.speech import words


def heard(*texts: str, begin: float = 0.0) -> Hypotheses:
    hypotheses = Hypotheses(begin)
    for text in texts:
        hypotheses.add(words(text, begin))
    return hypotheses


def test_words_that_two_hypotheses_share_are_agreed() -> None:
    hypotheses = heard("we meat", "We meet again")
    assert hypotheses.agreed == 1
    assert hypotheses.text == "We meet again"


def test_a_hypothesis_that_contradicts_agreed_words_adds_only_what_follows_them() -> None:
    hypotheses = heard("we meet again", "we meet again on", "they met again on Monday")
    assert hypotheses.text == "we meet again on Monday"
    assert hypotheses.agreed == 4


def test_a_shorter_hypothesis_keeps_the_agreed_words() -> None:
    assert heard("we meet again", "we meet again", "we").text == "we meet again"


def test_the_last_hypothesis_replaces_agreed_words() -> None:
    hypotheses = heard("we meat a gain", "we meat a gain")
    hypotheses.add(words("We meet again."), whole=True)
    assert hypotheses.text.startswith("we meat a gain")
    hypotheses.finish()
    assert hypotheses.text == "We meet again."


def test_a_last_hypothesis_that_was_broken_off_is_not_trusted() -> None:
    hypotheses = heard("we meet again on Monday", "we meet again on Monday")
    hypotheses.add(words("we"), whole=True)
    hypotheses.finish()
    assert hypotheses.text == "we meet again on Monday"


def test_a_last_hypothesis_without_words_withdraws_what_was_not_agreed() -> None:
    hypotheses = heard("hm")
    hypotheses.add((), whole=True)
    hypotheses.finish()
    assert hypotheses.text == ""


def test_settled_words_stay_and_the_next_hypothesis_begins_behind_them() -> None:
    hypotheses = heard(*2 * ["we meet again. On Monday we"])
    assert hypotheses.settleable(2.4, forced=False) == 3
    cut = hypotheses.settle(3)
    assert cut == pytest.approx(1.2)
    hypotheses.add(words("on Monday we talk", cut))
    assert hypotheses.text == "we meet again. on Monday we talk"


def test_a_word_that_is_heard_again_behind_the_cut_is_not_repeated() -> None:
    hypotheses = heard(*2 * ["we meet again. On Monday"])
    cut = hypotheses.settle(3)
    hypotheses.add(words("again. On Monday we", cut))
    assert hypotheses.text == "we meet again. On Monday we"


def test_words_that_are_said_again_later_are_kept() -> None:
    hypotheses = heard(*2 * ["we meet again. On Monday"])
    hypotheses.settle(3)
    hypotheses.add(words("again. On", 3.0))
    assert hypotheses.text == "we meet again. On Monday again. On"


def test_only_agreed_sentences_make_a_place_unless_it_is_forced() -> None:
    hypotheses = heard("we meet. Again we meet. And")
    assert hypotheses.settleable(9, forced=False) == 0
    assert hypotheses.settleable(2.4, forced=True) == 5
    assert heard("we meet again and", "we meet again and").settleable(9, forced=False) == 0


def test_a_forced_place_is_the_longest_silence_of_the_second_half() -> None:
    hypotheses = Hypotheses(0.0)
    early, late = words("a b"), words("c d", 3.0)
    hypotheses.add(early + late + words("e f g", 4.5))
    assert hypotheses.settleable(5.0, forced=True) == 4
    assert hypotheses.settleable(0.1, forced=True) == 0
    assert hypotheses.settle(7) == pytest.approx(5.7)


def test_the_rest_of_a_split_continues_as_another_utterance() -> None:
    hypotheses = heard(*2 * ["we meet again. On Monday"])
    hypotheses.settle(3)
    rest = hypotheses.split()
    assert (hypotheses.text, rest.text, rest.agreed) == ("we meet again.", "On Monday", 2)
    assert hypotheses.agreed == 0


def test_skipped_words_are_settled() -> None:
    hypotheses = heard("we meet")
    hypotheses.skip(20.0)
    assert (hypotheses.text, hypotheses.agreed) == ("we meet", 0)
    hypotheses.add(words("again", 21.0))
    assert hypotheses.text == "we meet again"


def test_words_without_spaces_are_joined_as_they_come() -> None:
    hypotheses = Hypotheses(0.0)
    hypotheses.add(tuple(word for word in words("我 们 见 面 。")))
    assert hypotheses.text == "我 们 见 面 。"
    assert is_sentence_end(hypotheses.text)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Yes.", True),
        ('"Yes!"', True),
        ("本当？", True),
        ("نعم؟", True),
        ("हाँ।", True),
        ("Yes", False),
        ("Yes...", False),
        ("Yes,", False),
        ("Yes. ", True),
        ("", False),
    ],
)
def test_the_end_of_a_sentence(text: str, ends: bool) -> None:
    assert is_sentence_end(text) is ends


def test_words_never_begin_before_the_cut_or_the_word_before() -> None:
    hypotheses = Hypotheses(1.0)
    hypotheses.add((*words("a b", 0.5), Word(" c", 1.2, 1.1)))
    times = [(word.start, word.end) for word in hypotheses.words]
    assert times == [(1.0, 1.0), (1.0, 1.3), (1.3, 1.3)]


def test_a_word_that_is_heard_again_may_begin_at_the_end_of_the_reach() -> None:
    hypotheses = Hypotheses(0.0)
    for _ in range(2):
        hypotheses.add(words("we meet again. On", per_word=0.5))
    assert hypotheses.settle(3) == 1.5
    hypotheses.add(words("again. On", 1.5 + REACH))
    assert hypotheses.text == "we meet again. On"


def test_only_a_hypothesis_of_all_speech_replaces_agreed_words() -> None:
    hypotheses = heard("we meet again", "we meet again", "we met again")
    hypotheses.finish()
    assert hypotheses.text == "we meet again"


def test_a_sentence_may_end_where_the_settled_audio_ends_but_not_at_the_cut() -> None:
    hypotheses = heard(*2 * ["we meet. Again"])
    assert hypotheses.settleable(0.8, forced=False) == 2
    assert hypotheses.settleable(9.0, forced=False) == 2  # however early it is
    assert hypotheses.settle(3) and hypotheses.agreed == 0
    squeezed = Hypotheses(1.0)
    for _ in range(2):
        squeezed.add(words("a. b", 0.2))
    assert squeezed.settleable(9.0, forced=False) == 0


def test_a_forced_place_is_never_in_the_first_half() -> None:
    hypotheses = Hypotheses(0.0)
    hypotheses.add(words("a", 2.0) + words("b c d e f", 3.6))
    assert hypotheses.settleable(6.0, forced=True) == 6


TEXTS = st.lists(
    st.lists(st.sampled_from("a b c. 。 见 A -".split()), max_size=8).map(" ".join), max_size=12
)


@given(TEXTS, st.integers(0, 3), st.floats(0, 2))
def test_agreed_words_are_never_retracted_before_the_end(
    texts: list[str], cuts: int, begin: float
) -> None:
    hypotheses = Hypotheses(begin)
    agreed: list[str] = []
    for n, text in enumerate(texts):
        hypotheses.add(words(text, begin), whole=n % 2 == 0)
        shown = [word_units.key(word.text) for word in hypotheses.words]
        assert shown[: len(agreed)] == agreed
        agreed = shown[: len(hypotheses.settled) + hypotheses.agreed]
        if cuts and (place := hypotheses.settleable(9.0, forced=False)):
            cuts -= 1
            begin = hypotheses.settle(place)
        times = [time for word in hypotheses.words for time in (word.start, word.end)]
        assert times == sorted(times)
