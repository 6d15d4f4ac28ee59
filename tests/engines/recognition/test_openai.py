"""Recognition by a server of transcriptions, over real HTTP."""

from __future__ import annotations

import asyncio
import io
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.responses import JSONResponse, PlainTextResponse, Response

from gateway.engines.base.service import Health
from gateway.engines.recognition.openai import BUSY_WAIT, OpenAIRecogniser
from gateway.errors import EngineFault, EngineGone, JobFault, Overloaded
from gateway.job import RecognitionJob
from tests.engines.recognition.openai_server import Form, TranscriptionServer, serving, verbose

JOB = RecognitionJob(
    id="j1",
    audio=b"\x01\x00" * 32_000,
    langs=("en",),
    prompt="A meeting.",
    hotwords=("Zygmunt", "Łódź"),
)


@asynccontextmanager
async def started(**options: Any) -> AsyncIterator[tuple[TranscriptionServer, OpenAIRecogniser]]:
    async with serving() as server:
        recogniser = OpenAIRecogniser(server.url, "whisper-1", **options)
        await recogniser.start()
        try:
            yield server, recogniser
        finally:
            await recogniser.aclose()


async def test_the_request_has_audio_model_language_prompt_and_names() -> None:
    async with started(api_key="secret") as (server, recogniser):
        result = await recogniser.recognise(JOB)
        assert result.text == "It was the best of"
        form = server.forms[0]
        with wave.open(io.BytesIO(form.pop("file")[0])) as file:
            assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (
                16000,
                1,
                32000,
            )
        assert form == {
            "model": [b"whisper-1"],
            "response_format": [b"verbose_json"],
            "temperature": [b"0"],
            "prompt": ["Zygmunt, Łódź A meeting.".encode()],
            "timestamp_granularities[]": [b"word", b"segment"],
            "language": [b"en"],
        }
        assert server.headers[0]["authorization"] == "Bearer secret"


async def test_a_model_that_gives_text_alone_is_asked_for_that() -> None:
    def plain(form: Form) -> Response:
        if form["response_format"] == [b"verbose_json"]:
            return PlainTextResponse("no", 400)
        return JSONResponse({"text": "Good morning."})

    async with started() as (server, recogniser):
        server.answer = plain
        for _ in range(2):
            assert (await recogniser.recognise(JOB)).text == "Good morning."
        assert len(server.forms) == 3  # the second job is asked in the right way at once


async def test_a_job_that_is_refused_in_any_form_is_at_fault_itself() -> None:
    async with started() as (server, recogniser):
        server.answer = lambda form: PlainTextResponse("private", 422)
        with pytest.raises(JobFault) as raised:
            await recogniser.recognise(JOB)
        assert "private" not in str(raised.value)
        server.forms.clear()
        with pytest.raises(JobFault):
            await recogniser.recognise(JOB)
        assert server.forms[0]["response_format"] == [b"verbose_json"]


@pytest.mark.parametrize(
    ("status", "fault"),
    [(401, EngineFault), (429, Overloaded), (503, Overloaded), (500, EngineFault)],
)
async def test_the_status_of_a_refusal_decides_its_kind(
    status: int, fault: type[EngineFault]
) -> None:
    async with started() as (server, recogniser):
        server.answer = lambda form: PlainTextResponse("no", status)
        with pytest.raises(fault) as raised:
            await recogniser.recognise(JOB)
        assert type(raised.value) is fault


class BusyServer:
    """Answers of a server that is full for the first jobs, and the waits of its client."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.waits: list[float] = []

    def answer(self, form: Form) -> Response:
        return PlainTextResponse("no", self.statuses.pop(0)) if self.statuses else verbose(form)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_final_job_that_a_full_server_refuses_is_sent_once_more(status: int) -> None:
    final, busy = replace(JOB, final=True), BusyServer(status)
    async with started(sleep=busy.sleep) as (server, recogniser):
        server.answer = busy.answer
        assert (await recogniser.recognise(final)).text == "It was the best of"
        assert busy.waits == [BUSY_WAIT]
        busy.statuses = [status, status, status]
        with pytest.raises(Overloaded):
            await recogniser.recognise(final)
        assert (len(server.forms), len(busy.waits)) == (4, 2)


async def test_a_partial_job_that_a_full_server_refuses_is_left_to_the_next_one() -> None:
    busy = BusyServer(429)
    async with started(sleep=busy.sleep) as (server, recogniser):
        server.answer = busy.answer
        with pytest.raises(Overloaded):
            await recogniser.recognise(JOB)
        assert (len(server.forms), busy.waits) == (1, [])


async def test_an_answer_that_is_no_transcription_is_a_fault() -> None:
    async with started() as (server, recogniser):
        server.answer = lambda form: PlainTextResponse("<html>")
        with pytest.raises(EngineFault, match="did not answer with a transcription"):
            await recogniser.recognise(JOB)


async def test_a_server_that_is_gone_is_named() -> None:
    async with serving() as server:
        recogniser = OpenAIRecogniser(server.url, "whisper-1")
        await recogniser.start()
    with pytest.raises(EngineGone, match="gave no answer"):
        await recogniser.recognise(JOB)
    await recogniser.aclose()
    again = OpenAIRecogniser(server.url, "whisper-1")
    with pytest.raises(EngineGone, match="start it, or correct the url"):
        await again.start()
    assert again.health is Health.DEAD
    await again.aclose()


async def test_a_wrong_key_fails_the_start() -> None:
    async with serving() as server:
        server.models = Response(status_code=401)
        recogniser = OpenAIRecogniser(server.url, "whisper-1")
        with pytest.raises(EngineFault, match="API key"):
            await recogniser.start()
        await recogniser.aclose()


async def test_a_cancelled_job_closes_its_request() -> None:
    async with started() as (server, recogniser):
        server.may_answer.clear()
        task = asyncio.create_task(recogniser.recognise(JOB))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled() and recogniser.unfinished == 0
        server.may_answer.set()
        assert (await recogniser.recognise(JOB)).words
