"""The recognition of speech: which audio a job has, and when a job is asked for again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.core.recognition.endpointing import ONSET
from gateway.core.recognition.speech_recognition import SpeechRecognition
from gateway.core.recognition.speech_timing import (
    FRAME_BYTES,
    FRAME_SECONDS,
    SpeechTiming,
    frames,
    seconds,
)
from gateway.job import Recognised, Word
from tests.core.recognition.speech import Speaker, recognised, speaker, words

TIMING = SpeechTiming()
BEFORE = seconds(frames(TIMING.before) - ONSET)
"""Audio before the first frame of voice: speech is noticed at its third frame."""


def test_a_stream_of_an_unknown_speaker_names_nothing_in_its_jobs() -> None:
    one = Speaker(SpeechRecognition("s")).after(1.0)
    job = one.jobs[0]
    assert (job.room, job.tenant, job.langs) == ("", "", ())
    assert (job.prompt, job.hotwords, one.stream.prompt) == ("", (), "")


def test_a_job_has_the_audio_as_it_came() -> None:
    one = speaker("en")
    pcm = b"".join(bytes([n]) * FRAME_BYTES for n in range(frames(1.0)))
    one.note(one.stream.add_audio(pcm, [1.0] * frames(1.0)))
    assert one.jobs[0].audio == pcm
    assert one.stream.settled == 0


def test_speech_begins_a_fixed_time_before_its_first_voice() -> None:
    one = speaker("en").after(-5, 1.0)
    assert one.length() == pytest.approx(seconds(frames(1.0)) + BEFORE)


def test_the_end_of_an_utterance_is_not_heard_again_in_the_next() -> None:
    one = speaker("en").after(1.0)
    one.note(one.stream.finish_speech())
    one.after("we meet", 1.0)
    assert one.length() == pytest.approx(seconds(frames(1.0)))


def test_the_silence_after_an_utterance_may_begin_the_next() -> None:
    one = speaker("en").after(1.0, -1.0, "we meet")
    assert one.finals == ["we meet"]
    one.say(1.0)
    assert one.length() == pytest.approx(seconds(frames(1.0)) + BEFORE)


def test_what_is_heard_has_its_words_with_their_times_in_the_whole_audio() -> None:
    one = speaker("en").after(-5, 1.0)
    begin = 5 - BEFORE
    one.answer(Recognised(words=(Word(" we", 0.25, 0.5, 0.75), Word(" meet", 0.5, 0.75, 1.0))))
    heard = one.heard[0]
    assert [word.probability for word in heard.words] == [0.75, 1.0]
    times = [time - begin for word in heard.words for time in (word.start, word.end)]
    assert times == pytest.approx([0.25, 0.5, 0.5, 0.75], abs=FRAME_SECONDS)
    assert (heard.t0, heard.t1) == (heard.words[0].start, heard.words[1].end)


def test_words_behind_the_last_voice_are_not_believed_late_in_the_audio_either() -> None:
    one = speaker("en").after(
        -5, 1.0, Recognised(words=(*words("we meet"), Word(" again", 3.0, 3.2)))
    )
    assert one.texts == ["we meet"]


def test_no_other_job_is_asked_for_while_speech_goes_on_and_one_is_not_answered() -> None:
    one = speaker("en").after(1.0)
    job = one.job
    one.say(2.0)
    assert one.job is job


def test_a_pause_late_in_the_audio_replaces_an_intermediate_job_too() -> None:
    one = speaker("en").after(-30, 1.0, -0.3)
    assert [job.final for job in one.jobs] == [False, True]


def test_a_pause_does_not_replace_a_job_that_has_as_much_audio_as_a_job_may_have() -> None:
    one = speaker("en").after(1.0, 20.5, "we")
    job = one.job
    assert one.length() == pytest.approx(TIMING.longest)
    one.hush(0.3)
    assert one.job is job


def test_an_answer_about_a_pause_ends_the_utterance_even_if_the_speaker_has_gone_on() -> None:
    one = speaker("en").after(1.0, -0.3, -0.7, 1.0, "we meet")
    assert one.finals == ["we meet"]
    assert one.length() == pytest.approx(seconds(frames(1.0)) + BEFORE)


def test_the_words_of_a_pause_replace_agreed_words() -> None:
    one = speaker("en")
    for _ in range(2):
        one.after(1.0, "we meat again")
    one.after(-0.3, "We meet again.", -1.0)
    assert one.finals == ["We meet again."]


def test_an_intermediate_hypothesis_never_replaces_agreed_words_even_as_the_last() -> None:
    one = speaker("en")
    for text in ("we meet again", "we meet again", "they met a"):
        one.after(1.0, text)
    one.note(one.stream.stop())
    assert one.finals == ["we meet again"]


def test_a_pause_is_asked_about_once_even_if_its_job_fails() -> None:
    one = speaker("en").after(1.0, "we")
    for _ in range(frames(TIMING.settle)):
        one.feed([0.0])
    one.fail()
    assert one.job is None


@pytest.mark.parametrize("first", ["doubt", "failure"])
def test_doubts_and_failures_count_together_as_tries_of_the_last_words(first: str) -> None:
    one = speaker("de", "en").after(
        2.1, recognised("wir sehen", "de", 0.99), -1.0, recognised("wir sehen uns", "de")
    )
    one.feed([1.0] * 8 + [0.0] * 40)
    for kind in ("doubt", "failure") if first == "doubt" else ("failure", "doubt"):
        assert one.job is not None
        if kind == "doubt":
            one.answer(recognised("Oh", "en", 0.6))
        else:
            one.fail()
    assert one.job is None and one.stream.idle


def test_short_speech_late_in_the_audio_is_short() -> None:
    one = speaker("de", "en").after(-30, 1.0, recognised("Meeting", "en", 0.95))
    assert one.heard == []  # too short to believe the language


def test_the_first_short_utterance_is_in_the_language_detected_if_any_may_be_spoken() -> None:
    one = Speaker(SpeechRecognition("s")).after(0.4, -1.0, recognised("bon", "fr", 0.6))
    assert [(heard.text, heard.lang) for heard in one.heard] == [("bon", "fr")]


def test_a_job_is_told_the_utterance_before_while_its_language_is_not_decided() -> None:
    one = speaker("en", "de").after(
        2.1, recognised("We meet", "en", 0.99), -1.0, recognised("We meet again.", "en"), 1.0
    )
    assert (one.jobs[-1].langs, one.jobs[-1].prompt) == (("en", "de"), "We meet again.")


def test_an_utterance_is_not_long_because_it_begins_late() -> None:
    one = speaker("en").after(-30, 11.0)
    said = replace(Recognised(words=words("more " * 20 + "end. rest")), lang="en")
    for _ in range(2):
        one.after(said, 1.0)
    assert one.stream.settled > 35 and one.finals == []
