"""Words with times out of all answers of servers of transcriptions."""

from __future__ import annotations

import pytest

from gateway.engines.recognition.openai import (
    HOTWORDS,
    TranscribedSegment,
    TranscribedWord,
    Transcription,
    fields,
    recognised,
)
from gateway.job import RecognitionJob


def job(*langs: str) -> RecognitionJob:
    return RecognitionJob(id="j1", audio=bytes(64_000), langs=langs)


def test_words_get_the_punctuation_of_the_text() -> None:
    answer = Transcription(
        text="Yes, we do.",
        words=[
            TranscribedWord(word, n * 0.5, n * 0.5 + 0.4)
            for n, word in enumerate(("Yes", "we", "do"))
        ],
    )
    result = recognised(answer, job("en"))
    assert result.text == "Yes, we do."
    assert [word.start for word in result.words] == [0.0, 0.5, 1.0]


def test_words_that_do_not_fit_the_text_are_taken_as_they_are() -> None:
    answer = Transcription(text="Yes, we do.", words=[TranscribedWord("Yes", 0, 9)])
    result = recognised(answer, job("en"))
    assert result.text == "Yes"
    assert result.words[0].end == 2.0  # inside the audio


def test_words_without_times_share_the_time_of_their_segment() -> None:
    answer = Transcription(
        text="a bbb",
        segments=[TranscribedSegment("a bbb", 1.0, 2.0, avg_logprob=-0.5, no_speech_prob=0.2)],
    )
    result = recognised(answer, job("en"))
    assert [(word.text, word.start) for word in result.words] == [
        (" a", 1.0),
        (" bbb", pytest.approx(1.2)),
    ]
    assert result.words[-1].end == pytest.approx(2.0)
    assert (result.log_probability, result.no_speech, result.compression) == (-0.5, 0.2, 1.0)


def test_text_alone_shares_the_time_of_the_audio() -> None:
    result = recognised(Transcription(text="Good morning."), job())
    assert [word.text for word in result.words] == [" Good", " morning."]
    assert result.words[-1].end == pytest.approx(2.0)


def test_scripts_without_spaces_stay_without_spaces() -> None:
    result = recognised(Transcription(text="我们见面。"), job("zh"))
    assert result.text == "我们见面。" and len(result.words) > 1
    words = [TranscribedWord("我们", 0, 1), TranscribedWord("见面", 1, 2)]
    assert recognised(Transcription(text="我们见面。", words=words), job("zh")).text == "我们见面"


@pytest.mark.parametrize(
    ("name", "lang"), [("english", "en"), ("de", "de"), ("Klingon-ish", ""), ("", ""), ("xx", "")]
)
def test_the_language_comes_as_a_name_or_a_code(name: str, lang: str) -> None:
    result = recognised(Transcription(text="a", language=name), job())
    assert result.lang == lang and result.lang_probability < 0.9


def test_the_language_that_was_asked_for_is_certain() -> None:
    result = recognised(Transcription(text="a", language="english"), job("en-GB"))
    assert (result.lang, result.lang_probability) == ("en-GB", 1.0)
    assert (
        recognised(Transcription(text="a", language="english"), job("en-GB", "de")).lang == "en-GB"
    )


def test_no_text_is_no_words() -> None:
    assert recognised(Transcription(text=""), job()).words == ()


def test_only_a_decided_language_is_sent_and_names_are_bounded() -> None:
    assert "language" not in fields(job("en", "de"), "m", verbose=False)
    assert fields(job("pt-BR"), "m", verbose=False)["language"] == "pt"
    many = RecognitionJob(id="j", audio=b"", hotwords=("Łódź",) * 1000)
    assert len(fields(many, "m", verbose=True)["prompt"]) == HOTWORDS
