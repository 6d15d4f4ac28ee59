"""OpenAI's transcription and translation of files, used by OpenAI's own client and by hand."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import tempfile
from typing import Any

import httpx2 as httpx
import pytest

from gateway.engines.scripted import ScriptedRecogniser
from gateway.errors import ClientFault, EngineGone
from gateway.job import RecognitionJob
from gateway.server.routes import audio_files
from gateway.server.routes.audio_files import MOST, Uploads
from tests.server.access.credentials import requiring_keys
from tests.support import speech_audio, speech_gateway
from tests.support.hearing import hearing, tone
from tests.support.live import browse, running, until
from tests.support.sound_files import encoded, silent_film, wav

openai = pytest.importorskip("openai")

SPOKEN_S = 3.2
SAID = "We meet again on Monday in the large"
"""Words that the scripted recogniser hears in that time."""
FILE = wav(tone(SPOKEN_S) + bytes(32_000))
HEARD, TRANSLATED = "/v1/audio/transcriptions", "/v1/audio/translations"


def upload(**fields: Any) -> dict[str, Any]:
    """Return the options of a request of httpx."""
    return {"files": {"file": ("talk.wav", FILE)}, "data": fields}


@pytest.mark.parametrize("format", ["json", "text", "srt", "vtt", "verbose_json"])
async def test_openai_python_transcribes_a_file_in_each_format(format: Any) -> None:
    async with running() as live, hearing(live):
        api = openai.AsyncOpenAI(base_url=f"{live.http}/v1", api_key="none", max_retries=0)
        answer = await api.audio.transcriptions.create(
            file=("talk.wav", FILE),
            model="whisper-1",
            language="en",
            prompt="A meeting",
            temperature=0.2,
            response_format=format,
        )
        await api.close()
    text = answer if isinstance(answer, str) else answer.text
    assert SAID in text.replace("\n", " ")
    if format == "verbose_json":
        (segment,) = answer.segments
        assert (segment.text, answer.language, answer.task) == (SAID, "english", "transcribe")
        assert 0.0 <= segment.start < 0.5 and 2.5 < segment.end <= answer.duration


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # of the client alone
async def test_openai_python_translates_a_file_into_english_or_another_language() -> None:
    said = "Wir treffen uns am Montag wieder im Saal"
    async with running() as live, hearing(live, ScriptedRecogniser(said, languages=("de",))):
        api = openai.AsyncOpenAI(base_url=f"{live.http}/v1", api_key="none", max_retries=0)
        answer = await api.audio.translations.create(file=("talk.wav", FILE), model="whisper-1")
        assert answer.text == f"[en] {said}"
        answer = await api.audio.translations.create(
            file=("talk.wav", FILE),
            model="whisper-1",
            response_format="srt",
            extra_body={"target_lang": "fr"},
        )
        assert f"[fr] {said}" in str(answer).replace("\n", " ")
        await api.close()


async def test_a_translation_of_english_into_english_is_what_was_said() -> None:
    async with browse() as (http, live), hearing(live):
        assert (await http.post(TRANSLATED, **upload(language="en"))).json()["text"] == SAID


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_a_form_of_curl_is_answered_with_subtitles(tmp_path: Any) -> None:
    (tmp_path / "talk.mp3").write_bytes(encoded(tone(SPOKEN_S, 48_000), "mp3", "mp3"))
    async with running() as live, hearing(live):
        curl = await asyncio.create_subprocess_exec(
            *("curl", "-sS", "-F", "file=@talk.mp3", "-F", "response_format=vtt"),
            live.http + HEARD,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await curl.communicate()
    assert out.startswith(b"WEBVTT\n")
    assert SAID[:20] in out.decode()


@pytest.mark.parametrize("format", ["wav", "mp3"])
async def test_real_speech_is_written_down_by_a_real_model(format: str) -> None:
    speech = speech_audio.recording("beckett")
    file = wav(speech) if format == "wav" else encoded(speech, "mp3", "mp3", 16_000)
    speech_audio.model()
    async with browse() as (http, live), speech_gateway.whisper(live):
        form = {"response_format": "verbose_json", "language": "en"}
        answer = await http.post(HEARD, files={"file": file}, data=form, timeout=None)
    body = answer.json()
    words = re.findall(r"[a-z]+", body["text"].lower())
    assert {"ever", "tried", "failed", "no", "matter", "better"} <= set(words)
    assert len(body["segments"]) >= 3
    ends = [segment["end"] for segment in body["segments"]]
    assert ends == sorted(ends) and 8.0 < ends[-1] <= body["duration"] + 0.1


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"file": b"no sound"}, 400, "audio_unsupported"),
        ({"file": silent_film()}, 400, "audio_unsupported"),
        ({"language": "it"}, 400, "lang_unsupported"),
        ({"language": "x" * 300}, 400, "bad_frame"),
        ({"response_format": "diarized_json"}, 400, "bad_frame"),
        ({"stream": "true"}, 400, "bad_frame"),
        ({"timestamp_granularities[]": "word"}, 400, "bad_frame"),
        ({"prompt": "x" * 4001}, 400, "bad_frame"),
    ],
)
async def test_a_request_that_cannot_be_answered_is_refused_in_openais_form(
    fields: dict[str, Any], status: int, code: str
) -> None:
    async with browse() as (http, live), hearing(live):
        file = fields.pop("file", FILE)
        answer = await http.post(HEARD, files={"file": file}, data=fields)
        assert not live.hub.sessions
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_a_body_that_is_no_form_with_a_file_is_refused() -> None:
    async with browse() as (http, live), hearing(live):
        wrong: tuple[dict[str, Any], ...] = ({"json": {"file": "abc"}}, {"data": {"prompt": "x"}})
        for options in wrong:
            answer = await http.post(HEARD, **options)
            assert answer.status_code == 400
            assert "curl -F file=@talk.wav" in answer.json()["error"]["message"]
        two = [("file", ("a.wav", FILE)), ("file", ("b.wav", FILE))]
        assert (await http.post(HEARD, files=two)).status_code == 400


async def test_an_unknown_target_is_refused() -> None:
    async with browse() as (http, live), hearing(live):
        answer = await http.post(TRANSLATED, **upload(target_lang="cy"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "lang_unsupported")


async def test_a_gateway_without_a_recogniser_says_how_to_start_one() -> None:
    async with browse() as (http, _):
        answer = await http.post(HEARD, **upload())
    assert answer.status_code == 400
    assert "--recogniser" in answer.json()["error"]["message"]


async def test_files_and_recordings_that_are_too_long_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with browse() as (http, live), hearing(live):
        monkeypatch.setattr(audio_files, "LONGEST_S", 2.0)
        long = await http.post(HEARD, **upload())
        monkeypatch.setattr(audio_files, "UPLOAD_BYTES", 50_000)
        large = await http.post(HEARD, **upload())
        chunked = await http.post(HEARD, headers={"transfer-encoding": "chunked"}, **upload())
        assert not live.hub.sessions
    for answer in (long, large, chunked):
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_long")


def test_a_tenant_takes_at_most_as_many_places_as_it_leaves() -> None:
    uploads = Uploads()
    held = [uploads.place("one") for _ in range(MOST // 2)]
    for place in held:
        place.__enter__()
    with pytest.raises(ClientFault, match="Too many files"), uploads.place("one"):
        pass
    for tenant in ("two", "three"):
        with uploads.place(tenant):
            pass
    for place in held:
        place.__exit__(None, None, None)
    with uploads.place("one"):
        pass


async def test_a_file_too_many_is_refused_before_it_is_read() -> None:
    recogniser = ScriptedRecogniser()
    recogniser.hold()
    async with browse() as (http, live), hearing(live, recogniser):
        asking = [asyncio.create_task(http.post(HEARD, **upload())) for _ in range(MOST // 2)]
        await until(lambda: len(live.hub.sessions) == MOST // 2)
        answer = await http.post(HEARD, **upload())
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "5"
        recogniser.release()
        assert {(await each).status_code for each in asking} == {200}


async def test_a_client_that_goes_away_ends_all_work_for_its_file() -> None:
    recogniser = ScriptedRecogniser()
    recogniser.hold()
    async with browse() as (http, live), hearing(live, recogniser) as runner:
        asking = asyncio.create_task(http.post(HEARD, **upload()))
        await until(lambda: bool(recogniser.jobs))
        asking.cancel()
        await until(lambda: not live.hub.sessions and not runner.streams)
        await until(lambda: len(recogniser.cancelled) == len(recogniser.jobs))
        recogniser.release()
        assert (await http.post(HEARD, **upload())).status_code == 200, "the place is free again"


async def test_speech_that_a_recogniser_fails_at_is_no_empty_text() -> None:
    def fail(job: RecognitionJob) -> None:
        raise EngineGone("It is broken.")

    async with browse() as (http, live), hearing(live, ScriptedRecogniser(fault=fail)):
        answer = await http.post(HEARD, **upload())
    assert answer.status_code == 503
    assert "were not recognised" in answer.json()["error"]["message"]


async def test_a_file_that_is_not_heard_in_time_is_answered_with_504(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audio_files, "ANSWER_S", 0.05)
    recogniser = ScriptedRecogniser()
    recogniser.hold()
    async with browse() as (http, live), hearing(live, recogniser):
        answer = await http.post(HEARD, **upload())
        assert not live.hub.sessions
    assert answer.status_code == 504


async def test_a_gateway_that_stops_says_so() -> None:
    recogniser = ScriptedRecogniser()
    recogniser.hold()
    async with browse(drain_s=0.0) as (http, live), hearing(live, recogniser):
        asking = asyncio.create_task(http.post(HEARD, **upload()))
        await until(lambda: bool(recogniser.jobs))
        await live.hub.drain(0)
        assert (await asking).status_code == 503


async def test_nothing_of_a_file_is_logged_kept_or_written_to_a_disk(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rollover(file: object) -> None:
        raise AssertionError("the file was written to a disk")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", rollover)
    large = wav(tone(SPOKEN_S) + bytes(2_000_000))
    monkeypatch.setattr(audio_files, "LONGEST_S", 60.0)
    with caplog.at_level(logging.DEBUG):
        async with browse() as (http, live), hearing(live):
            form = {"prompt": "a private topic"}
            answer = await http.post(HEARD, files={"file": large}, data=form)
            assert answer.status_code == 413, "it was read whole, and then found too long"
            answer = await http.post(HEARD, **upload(prompt="a private topic"))
            assert answer.json()["text"] == SAID
            assert not live.hub.rooms
    assert answer.headers["cache-control"] == "no-store"
    assert SAID not in caplog.text and "private topic" not in caplog.text


async def test_a_key_may_read_its_languages_only() -> None:
    keys = requiring_keys()
    async with running(authenticator=keys) as live, hearing(live):
        async with httpx.AsyncClient(base_url=live.http) as http:
            assert (await http.post(HEARD, **upload())).status_code == 401
