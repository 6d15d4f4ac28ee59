"""The recognition of speech: the choice of audio, and the text that is heard."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.core.recognition.speech_recognition import SpeechRecognition
from gateway.core.recognition.speech_timing import FRAME_BYTES, SpeechTiming
from gateway.job import Recognised
from tests.core.recognition.speech import FAILURE, Speaker, recognised, speaker, words
from tests.support.typed import current

TIMING = SpeechTiming()
TEXT = "we meet again on the third of May because the room is free. And bring your slides with you"


def spoken(seconds: float, text: str = TEXT) -> str:
    """Return the words that have been spoken after a time."""
    return " ".join(text.split()[: int(seconds / 0.4)])


def finish(one: Speaker, text: str) -> None:
    """End the speech and answer the job that this asks for."""
    one.hush(1.0)
    if one.job is not None:
        one.answer(text)


def test_silence_asks_for_nothing() -> None:
    one = speaker("en").after(-100)
    assert (one.jobs, one.heard, one.stream.idle) == ([], [], True)
    assert one.stream.settled == pytest.approx(100, abs=0.1)
    assert one.stream.lost == 0


def test_a_growing_utterance_is_heard_again_and_again_and_ends_at_a_pause() -> None:
    one = speaker("en").after(1.0, "we meet", 0.6, "we meet again on", -0.3)
    assert one.job is not None and one.job.final
    one.answer("We meet again on Monday.")
    assert one.finals == []
    one.hush(0.3)
    assert one.texts == ["we meet", "we meet again on"] + 2 * ["We meet again on Monday."]
    assert one.finals == ["We meet again on Monday."]
    assert {heard.utterance for heard in one.heard} == {1}
    assert {heard.lang for heard in one.heard} == {"en"}
    assert one.stream.idle


def test_text_that_ends_like_a_sentence_ends_at_a_shorter_pause() -> None:
    for text, pause in (("Yes, we do.", TIMING.sentence_pause), ("Yes, we", TIMING.pause)):
        one = speaker("en").after(1.0, -0.3)
        while one.job is not None:
            one.answer(text)
        before = 0.3
        while not one.finals:
            one.hush(0.032)
            before += 0.032
        assert before == pytest.approx(pause, abs=0.05)


def test_speech_that_goes_on_after_a_short_pause_stays_one_utterance() -> None:
    one = speaker("en").after(1.0, -0.3)
    while one.job is not None:
        one.answer("we meet")
    one.after(0.6, "we meet again")
    finish(one, "we meet again")
    assert one.finals == ["we meet again"]


def test_the_answer_to_a_job_asked_in_time_is_the_final_one() -> None:
    one = speaker("en").after(1.0, "we", -0.3, -0.7)
    assert one.finals == [] and not one.stream.idle
    one.answer("we meet")  # it was asked for during the pause
    assert one.finals == ["we meet"]
    assert len(one.jobs) == 2


def test_a_pause_replaces_an_intermediate_job_that_is_not_answered() -> None:
    one = speaker("en").after(1.0)
    intermediate = one.job
    assert intermediate is not None and not intermediate.final
    one.hush(0.3)
    assert one.job is not intermediate and one.job is not None and one.job.final
    one.after("we meet", -0.7)
    assert one.finals == ["we meet"]


def test_a_job_with_all_speech_before_a_pause_is_not_replaced_at_the_next_pause() -> None:
    one = speaker("en").after(1.0, -0.3)
    whole = one.job
    one.after(1.0, -1.0)
    assert one.job is whole and whole is not None
    one.answer("we meet")
    assert one.job is not None and one.job.final
    one.answer("we meet again")
    assert one.finals == ["we meet again"]


def test_no_intermediate_job_begins_in_the_first_moments_of_a_silence() -> None:
    one = speaker("en").after(0.45, -0.1)
    assert one.jobs == []
    one.say(0.1)
    assert [job.final for job in one.jobs] == [False]


@pytest.mark.parametrize("silence", [0.0, 0.3])
def test_a_failure_of_long_speech_is_repeated_with_new_audio_only(silence: float) -> None:
    one = speaker("en").after(1.0, 24.0)
    if silence:
        one.hush(silence)
    else:
        one.fail()
    assert one.length() == pytest.approx(20.0, abs=0.1)
    one.fail()
    job = one.job
    assert job is None, "it would fail again at once, without end"
    one.after(0.6, "we meet")
    assert one.length() < 10.0, "the rest is due at once"


def test_long_speech_in_a_language_that_is_in_doubt_is_repeated_with_new_audio_only() -> None:
    one = speaker("en", "de").after(25.0, recognised("we meet", "fr", 0.3))
    assert current(one.job) is None
    one.say(0.6)
    assert one.length() == pytest.approx(20.0, abs=0.1)


def test_a_job_names_room_tenant_languages_prompt_and_hotwords() -> None:
    one = speaker("en", "de")
    one.stream.prompt, one.stream.hotwords = "A meeting.", ("Zygmunt",)
    one.say(1.0)
    job = one.job
    assert job is not None
    assert (job.id, job.room, job.tenant) == ("s-1", "r", "t")
    assert (job.langs, job.prompt, job.hotwords) == (("en", "de"), "A meeting.", ("Zygmunt",))
    assert one.length() == pytest.approx(1.0, abs=0.1)


def test_audio_shortly_before_the_first_voice_belongs_to_the_speech() -> None:
    one = speaker("en").after(-5, 1.0)
    assert one.length() == pytest.approx(1.0 + TIMING.before, abs=0.15)
    one.answer("we meet")
    assert one.heard[0].t0 == pytest.approx(5 - TIMING.before, abs=0.15)


def test_a_click_is_no_speech() -> None:
    one = speaker("en")
    for _ in range(50):
        one.feed([1.0] * 4 + [0.0] * 40)
    assert (one.jobs, one.heard, one.stream.idle) == ([], [], True)
    one.feed([1.0] * 4)
    one.feed([0.0] * 10)
    assert one.jobs == []


def test_speech_without_sentences_is_not_settled_before_it_must_be() -> None:
    one = speaker("en").after(TIMING.window + 2, "we meet again")
    assert one.stream.settled == 0


def test_several_utterances_wait_for_a_late_recogniser_in_order() -> None:
    one = speaker("en")
    for _ in range(3):
        one.after(1.0, -1.0)
    for text in ("one", "two", "three"):
        while one.job is not None and len(one.finals) < ["one", "two", "three"].index(text) + 1:
            one.answer(text)
    assert one.finals == ["one", "two", "three"]
    assert [heard.utterance for heard in one.heard if heard.final] == [1, 2, 3]
    times = [time for heard in one.heard if heard.final for time in (heard.t0, heard.t1)]
    assert times == sorted(times)


def test_an_answer_without_words_changes_nothing_that_is_shown() -> None:
    one = speaker("en").after(1.0, "we meet", 0.6, "", 0.6, "we meet again")
    finish(one, "")
    assert one.texts == ["we meet", "we meet again", "we meet again"]


def test_the_same_words_again_are_reported_because_this_makes_them_agreed() -> None:
    one = speaker("en").after(1.0, "we meet", 0.6, "we meet")
    assert one.texts == ["we meet", "we meet"]


def test_speech_of_which_no_word_is_left_is_withdrawn() -> None:
    one = speaker("en").after(1.0, "hm")
    finish(one, "")
    assert [(heard.text, heard.final) for heard in one.heard] == [("hm", False), ("", True)]


def test_speech_without_words_is_not_heard_at_all() -> None:
    one = speaker("en").after(1.0, "")
    finish(one, "")
    assert one.heard == [] and one.stream.idle


def test_a_failed_job_is_asked_for_again_with_more_audio() -> None:
    one = speaker("en").after(1.0, FAILURE)
    assert one.job is None
    one.say(0.6)
    assert one.length() == pytest.approx(1.6, abs=0.1)


def test_the_last_words_are_asked_for_twice_and_then_given_up() -> None:
    one = speaker("en").after(1.0, "we meet", -1.0, FAILURE, FAILURE)
    assert one.finals == ["we meet"] and one.job is None and one.stream.idle


def test_a_failure_during_a_pause_is_not_repeated_before_the_end() -> None:
    one = speaker("en").after(1.0, "we meet", -0.3, FAILURE)
    assert one.job is None
    one.after(-0.7, "we meet again")
    assert one.finals == ["we meet again"]


def test_the_end_of_the_audio_ends_the_utterance() -> None:
    one = speaker("en").after(1.0, "we", 0.3)
    one.note(one.stream.finish_speech())
    assert one.job is not None and one.job.final
    one.answer("we meet")
    assert one.finals == ["we meet"] and one.stream.idle
    one.note(one.stream.finish_speech())
    assert one.texts == ["we", "we meet"]


def test_stop_ends_everything_with_the_words_so_far() -> None:
    one = speaker("en").after(1.0, "we meet", 0.6, -1.0, 1.0)
    one.job = None
    one.note(one.stream.stop())
    assert one.finals == ["we meet"] and one.stream.idle and one.job is None
    with pytest.raises(AssertionError, match="there is no job"):
        one.stream.result(recognised("late"))


def test_reset_withdraws_what_is_not_final() -> None:
    one = speaker("en").after(1.0, "we meet", 0.6, -1.0, 1.0)
    one.job = None
    one.stream.reset()
    assert one.finals == [] and one.stream.idle
    one.after(1.0, "anew")
    assert one.heard[-1].utterance == 2


def test_long_speech_is_settled_sentence_by_sentence_and_stays_one_utterance() -> None:
    one, cut = speaker("en"), 0.0
    one.say(0.9)
    for n in range(1, 60):
        done = one.stream.settled
        if one.job is not None:
            length = done + one.length()
            skipped = round((done + 0.001) / 0.4)
            text = spoken(length, "one two three four. " * 60).split()[skipped:]
            one.answer(Recognised(words=words(" ".join(text), skipped * 0.4 - done)))
        cut = max(cut, one.stream.settled)
        if n < 45:
            one.say(0.5)
    assert cut > 10
    assert all(len(job.audio) < 13 * 32_000 for job in one.jobs)
    assert one.jobs[-1].prompt.endswith("four.")
    assert one.heard[-1].text == spoken(length, "one two three four. " * 60)
    assert {heard.utterance for heard in one.heard} == {1}


def test_speech_without_sentences_is_settled_at_a_pause_between_words() -> None:
    one = speaker("en").after(21.0)
    assert one.length() == pytest.approx(TIMING.longest, abs=0.1)
    said = words("a " * 30) + words("b " * 10, 13.0)
    one.answer(Recognised(words=said))
    assert one.stream.settled == pytest.approx(12.5, abs=0.1)
    assert one.job is not None and one.job.prompt == ("a " * 30).strip()


def test_long_voice_without_words_is_left_behind() -> None:
    one = speaker("en").after(21.0, "")
    assert one.stream.settled == pytest.approx(TIMING.longest - 1.0, abs=0.1)
    one.answer("we meet")
    assert one.texts == ["we meet"]


def test_a_very_long_utterance_may_end_with_all_of_its_words() -> None:
    timing = SpeechTiming(window=2.0, longest=4.0, utterance=2.0)
    one = Speaker(SpeechRecognition("s", ("en",), timing=timing)).after(
        4.2, "more more more more more more end."
    )
    assert one.texts == 2 * ["more more more more more more end."]
    assert [heard.final for heard in one.heard] == [False, True]


def test_a_very_long_utterance_ends_at_a_cut_and_the_rest_is_another_one() -> None:
    one = speaker("en")
    for _ in range(6):
        one.say(20.0)
        assert one.job is not None
        one.answer(Recognised(words=words("more " * 45 + "end. rest")))
        while one.job is not None:
            one.answer("")
    assert one.finals and all(text.endswith("end.") for text in one.finals)
    numbers = [heard.utterance for heard in one.heard]
    assert numbers == sorted(numbers) and numbers[-1] > 1
    assert any(not heard.final and heard.text == "rest" for heard in one.heard)


def test_too_much_waiting_audio_ends_the_utterance_with_what_it_has() -> None:
    for late in (lambda one: one.answer("too late"), Speaker.fail):
        one = speaker("en").after(1.0, "we meet", 1.0, 100.0)
        assert one.finals == ["we meet"]
        assert one.buffered <= TIMING.backlog * 32_000 + FRAME_BYTES
        late(one)  # the job is of the utterance that has ended
        assert one.texts == 2 * ["we meet"] and one.job is not None
        assert one.stream.lost == pytest.approx(60, abs=1.5)  # the first second was heard


def test_audio_that_waited_too_long_may_be_silent_when_its_utterance_ends() -> None:
    one = speaker("en").after(4.0, -100.0)
    assert one.stream.idle and one.finals == []
    assert one.stream.lost == pytest.approx(4.0, abs=0.1)


def test_too_much_waiting_audio_drops_the_oldest_utterance_first() -> None:
    one = speaker("en")
    for _ in range(40):
        one.after(1.5, -1.0)
    assert one.buffered <= TIMING.backlog * 32_000 + FRAME_BYTES
    assert one.stream.settled >= 35
    assert one.stream.lost == pytest.approx(16 * 1.5, abs=0.5)


def test_a_loan_word_does_not_change_the_language() -> None:
    one = speaker("de", "en").after(2.1, recognised("wir sehen", "de", 0.99))
    finish(one, "Wir sehen uns.")
    one.after(2.1, recognised("Meeting room", "en", 0.6))
    assert one.heard[-1].final and one.job is None  # the doubtful words are not shown
    one.after(-1.0, recognised("Meeting room", "en", 0.6))
    assert one.heard[-1].lang == "en"  # but twice is believed


def test_a_doubtful_short_answer_is_recognised_again_in_the_language_of_the_speaker() -> None:
    one = speaker("de", "en").after(
        2.1, recognised("wir sehen", "de", 0.99), -1.0, recognised("wir sehen uns", "de")
    )
    one.feed([1.0] * 8 + [0.0] * 40)
    one.answer(recognised("Oh", "en", 0.6))
    assert [job.langs for job in one.jobs[-2:]] == [("de", "en"), ("de",)]
    one.answer(recognised("Ja", "de"))
    assert one.finals == ["wir sehen uns", "Ja"]
    assert {heard.lang for heard in one.heard} == {"de"}


def test_a_single_language_is_known_even_if_the_recogniser_does_not_name_it() -> None:
    for langs, lang in ((("fr",), "fr"), (("fr", "de"), "")):
        one = speaker(*langs).after(1.0, replace(recognised("bon"), lang=""))
        assert one.heard[-1].lang == lang


def test_an_answer_without_a_job_is_an_error() -> None:
    one = speaker("en")
    with pytest.raises(AssertionError, match="there is no job"):
        one.stream.result(recognised("hello"))
    with pytest.raises(AssertionError, match="there is no job"):
        one.stream.failed()


def test_a_job_is_told_the_utterance_before_unless_it_was_in_another_language() -> None:
    for lang, prompt in (("en", "A meeting. We meet again."), ("de", "A meeting.")):
        one = speaker("en")
        one.stream.prompt = "A meeting."
        one.after(1.0, "We meet")
        finish(one, "We meet again.")
        one.stream.langs = (lang,)
        one.say(1.0)
        assert one.jobs[-1].prompt == prompt


def test_after_a_reset_no_job_is_told_what_was_said_before() -> None:
    one = speaker("en").after(1.0, "We meet")
    finish(one, "We meet again.")
    one.stream.reset()
    one.say(1.0)
    assert one.jobs[-1].prompt == ""
