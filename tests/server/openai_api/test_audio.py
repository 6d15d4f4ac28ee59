"""Requests for the transcription of a file, and their answers."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gateway.core.history.event_log import LogEntry
from gateway.core.transcripts.transcript import Transcript
from gateway.errors import ClientFault
from gateway.protocol.messages import Failed, Final, Source, Timing
from gateway.server.openai_api.audio import AudioFileRequest


def asked(**fields: Any) -> AudioFileRequest:
    return msgspec.convert({"file": b"sound", **fields}, AudioFileRequest, strict=False)


def said(number: int, text: str, lang: str = "en", **captions: str | None) -> list[LogEntry]:
    """Return the events of an utterance; a caption of None has failed."""
    id, end = f"u{number}", 2.0 * number
    place: dict[str, Any] = {"seq": number, "id": id, "rev": 1, "ord": number}
    events: list[Any] = [
        Source(**place, lang=lang, text=text, speaker=None, t0=end - 1.5, t1=end),
    ]
    for to, caption in captions.items():
        if caption is None:
            events.append(Failed(**place, lang=to, code="rejected", retry=False))
        else:
            ms = Timing(queue=0, first=0, total=0)
            events.append(Final(**place, lang=to, text=caption, by="mt", ms=ms))
    return [LogEntry(event, end) for event in events]


TALK = Transcript.of(
    [*said(1, "Good morning.", de="Guten Morgen."), *said(2, "It rains.", de="Es regnet.")]
)


def body(request: AudioFileRequest, heard: Transcript = TALK, to: str | None = None) -> Any:
    media_type, answer = request.answer(heard, 4.2, to)
    return json.loads(answer) if media_type == "application/json" else answer.decode()


def test_json_has_the_text_and_the_length() -> None:
    usage = {"type": "duration", "seconds": 5}
    assert body(asked()) == {"text": "Good morning. It rains.", "usage": usage}
    assert body(asked(), to="de") == {"text": "Guten Morgen. Es regnet.", "usage": usage}


def test_text_is_one_line() -> None:
    assert body(asked(response_format="text"), to="de") == "Guten Morgen. Es regnet.\n"


@pytest.mark.parametrize(
    ("format", "cue"),
    [
        ("srt", "2\n00:00:02,500 --> 00:00:04,000\nIt rains.\n"),
        ("vtt", "00:00:02.500 --> 00:00:04.000\nIt rains.\n"),
    ],
)
def test_subtitles_have_the_times_of_the_file(format: str, cue: str) -> None:
    assert cue in body(asked(response_format=format))


def test_the_long_form_has_segments_and_names_the_language() -> None:
    answer = body(asked(response_format="verbose_json"))
    assert (answer["task"], answer["language"], answer["duration"]) == (
        "transcribe", "english", 4.2,
    )  # fmt: skip
    shown = [(each["start"], each["end"], each["text"]) for each in answer["segments"]]
    assert shown == [(0.5, 2.0, "Good morning."), (2.5, 4.0, "It rains.")]
    answer = body(asked(response_format="verbose_json"), to="de")
    assert (answer["task"], answer["language"]) == ("translate", "german")
    assert answer["segments"][1]["text"] == "Es regnet."


def test_a_file_without_speech_has_an_empty_text() -> None:
    answer = body(asked(response_format="verbose_json"), Transcript.of([]))
    assert (answer["text"], answer["language"], answer["segments"]) == ("", "", [])


def test_languages_without_spaces_are_joined_without_spaces() -> None:
    talk = Transcript.of([*said(1, "おはよう。", "ja"), *said(2, "雨です。", "ja")])
    assert body(asked(), talk)["text"] == "おはよう。雨です。"


def test_a_caption_that_failed_shows_the_original_marked_with_its_language() -> None:
    talk = Transcript.of([*said(1, "Good morning.", de=None), *said(2, "It rains.", de="Regen.")])
    assert body(asked(), talk, "de")["text"] == "[en] Good morning. Regen."


@pytest.mark.parametrize(
    "fields",
    [
        {"stream": "true"},
        {"timestamp_granularities[]": "word"},
        {"timestamp_granularities[]": ["segment", "word"]},
    ],
)
def test_what_is_not_made_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ClientFault):
        asked(**fields).check()


@pytest.mark.parametrize(
    "fields",
    [{"language": ""}, {"stream": "false"}, {"timestamp_granularities[]": "segment"}],
)
def test_what_has_no_effect_is_accepted(fields: dict[str, Any]) -> None:
    asked(**fields).check()
