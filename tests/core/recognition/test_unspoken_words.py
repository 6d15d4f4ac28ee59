"""Words that nobody spoke."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.core.recognition.unspoken_words import (
    CLEAR,
    CLEAR_VOICE,
    COPIES,
    DOUBTFUL,
    FASTEST,
    HOPELESS,
    INSTANT,
    LATE,
    NO_SPEECH,
    PHANTOM_LENGTH,
    REPETITIVE,
    SLACK,
    credible,
    without_echoes,
    without_repetitions,
)
from gateway.job import Recognised, Word
from tests.core.recognition.speech import words


def heard(text: str, voice: float = 3.0, **doubts: float) -> str:
    """Return the text that is believed, of words that were spoken during the whole audio."""
    pace = voice / max(1, len(text.split()))
    result = replace(Recognised(words=words(text, per_word=pace)), **doubts)
    return "".join(word.text for word in credible(result, voice, voice)).strip()


def test_plain_words_are_believed() -> None:
    for text in (
        "We meet again on Monday.",
        "我们星期一在大房间见面",
        "また月曜日に会いましょう",
        "다시 만나요",
    ):
        assert heard(text) == text


def test_likely_silence_with_doubtful_words_is_void() -> None:
    assert heard("we meet", no_speech=0.7, log_probability=-1.1) == ""
    assert heard("we meet", no_speech=0.7, log_probability=-0.2) == "we meet"
    assert heard("we meet", no_speech=0.1, log_probability=-1.1) == "we meet"


def test_hopeless_words_are_void() -> None:
    assert heard("we meet", log_probability=-2.0) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Thanks for watching!",
        "Subtitles by the Amara.org community",
        "Untertitelung des ZDF, 2020",
        "Sous-titres réalisés para la communauté d’Amara.org",
        "Merci d’avoir regardé cette vidéo",
        "ご視聴ありがとうございました",
        "请不吝点赞 订阅 转发 打赏支持明镜与点点栏目",
        "Gracias por ver el video.",
    ],
)
def test_the_ends_of_films_are_void(text: str) -> None:
    assert heard(text) == ""


def test_a_long_text_may_name_such_a_phrase() -> None:
    text = "Whisper often invents thanks for watching at the end of a recording without any speech"
    assert heard(text, 6.0) == text


def test_short_answers_need_clear_voice() -> None:
    assert heard("Thank you.", 1.0) == "Thank you."
    assert heard("Thank you.", 0.2) == ""
    assert heard("Thank you.", 1.0, log_probability=-0.9) == ""


def test_more_words_than_a_mouth_can_speak_are_void() -> None:
    assert heard("this sentence is much too long for the voice", 0.3) == ""
    assert heard("这个句子对于声音来说太长了", 0.3) == ""
    assert heard("Yes.", 0.2) == "Yes."


def test_words_behind_the_last_voice_are_dropped() -> None:
    result = Recognised(words=words("we meet again today"))
    assert len(credible(result, 0.8, 0.5)) == 3


def test_punctuation_alone_is_void() -> None:
    assert heard("... - !") == ""
    assert heard("") == ""


def test_a_phrase_that_is_repeated_again_and_again_is_kept_once() -> None:
    said = words("so it was " + "the worst of times " * (COPIES + 1))
    assert len(without_repetitions(said)) == 3 + 4
    few = words("so " + "no " * COPIES)
    assert without_repetitions(few) == few


def test_repetitions_are_looked_for_in_repetitive_results_only() -> None:
    text = "no " * 10
    assert heard(text, compression=1.2) == text.strip()
    assert heard(text, compression=3.0) == "no"


def test_copies_of_the_last_words_that_take_no_time_are_dropped() -> None:
    said = words("we meet no matter.")
    echo = tuple(Word(word.text, 1.6, 1.6) for word in said[2:])
    assert without_echoes(said + echo + echo[:2]) == said
    again = words("no matter.", 1.6)
    assert without_echoes(said + again) == said + again
    other = (Word(" indeed", 1.6, 1.6),)
    assert without_echoes(said + other) == said + other
    result = Recognised(words=said + echo)
    assert credible(result, 1.6, 1.6) == said


def test_a_doubt_at_a_threshold_is_no_doubt_yet() -> None:
    for doubts in (
        {"no_speech": NO_SPEECH, "log_probability": DOUBTFUL - 0.1},
        {"no_speech": NO_SPEECH + 0.1, "log_probability": DOUBTFUL},
        {"log_probability": HOPELESS},
    ):
        assert heard("we meet", **doubts) == "we meet", doubts
    assert heard("Thank you.", CLEAR_VOICE, log_probability=CLEAR) == "Thank you."
    assert heard("no " * 10, compression=REPETITIVE) == ("no " * 10).strip()


def test_the_letters_that_a_mouth_can_speak_are_counted_exactly() -> None:
    letters = int(SLACK + FASTEST * 0.5)
    assert heard("a" * letters, 0.5) and not heard("a" * (letters + 1), 0.5)
    assert heard("面" * (letters // 3), 0.5) and not heard("面" * (letters // 3 + 1), 0.5)


def test_a_text_of_sixty_letters_is_short_enough_for_the_end_of_a_film() -> None:
    text = "thanks for watching " + "a" * (PHANTOM_LENGTH - 20)
    assert heard(text, 6.0) == "" and heard(text + "a", 6.0) == text + "a"


def test_a_word_may_begin_a_little_behind_the_last_voice() -> None:
    said = Word(" we", 0.5 + LATE, 1.3)
    assert credible(Recognised(words=(said,)), 0.5, 0.5) == (said,)


def test_an_echo_may_be_one_word_or_all_that_was_said() -> None:
    said = words("no matter.")
    for echoed in (said, said[1:]):
        echo = tuple(Word(word.text, 0.8, 0.8) for word in echoed)
        assert without_echoes(said + echo) == said


def test_people_who_repeat_themselves_make_no_echo() -> None:
    instant = Word(" well", 0.8, 0.8)
    said = (*words("oh my"), instant, *words("no matter. no matter.", 0.8))
    assert without_echoes(said) == said
    short = (Word(" no", -1.0, -0.5), Word(" no", 0.0, INSTANT))
    assert without_echoes(short) == short


def test_the_longest_phrase_whose_repetition_is_found_has_ten_words() -> None:
    ten = "a b c d e f g h i j "
    assert without_repetitions(words(ten * (COPIES + 1))) == words(ten)
    eleven = words((ten + "k ") * (COPIES + 1))
    assert without_repetitions(eleven) == eleven
