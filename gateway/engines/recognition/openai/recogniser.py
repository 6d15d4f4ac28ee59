"""The recogniser for servers with OpenAI's API of transcriptions: one request for each job.

Owns: what each answer of the server means. Must not know: connections
(`gateway.engines.openai.server`), the fields of requests and answers
(`gateway.engines.recognition.openai.transcription`), clients, rooms.

vLLM, Speaches, LocalAI and OpenAI itself have this API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import httpx2
import msgspec

from gateway.engines.base.engine import Health
from gateway.engines.openai.server import REFUSAL_STATUSES, ModelServer
from gateway.engines.recognition.base import BaseRecogniser
from gateway.engines.recognition.openai.transcription import (
    Transcription,
    fields,
    recognised,
    wav,
)
from gateway.errors import EngineFault, EngineGone, Overloaded
from gateway.job import Recognised, RecognitionJob

CAPACITY = 8
"""Default number of jobs at once. A GPU recognises them in one batch."""

READ_TIMEOUT = 10.0
"""Seconds until the answer. A text that comes later is of no use to live captions."""

BUSY_WAIT = 0.5
"""Seconds before a final job is sent again to a server that was full. A batch of a GPU takes less,
and behind a router the next request may reach another replica."""


class OpenAIRecogniser(BaseRecogniser):
    """A `Recogniser` behind a server.

    :param url: see `ModelServer`, also for ``api_key``
    :param model: the server's name of the model
    :param capacity: value of `Recogniser.capacity`
    :param languages: canonical tags of its languages; empty: the server does not say
    :param sleep: waits the given seconds; tests replace it

    Raises `EngineFault` if the url or the key is malformed.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        capacity: int = CAPACITY,
        languages: tuple[str, ...] = (),
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        super().__init__(f"openai:{model}", languages, capacity)
        self._server = ModelServer(
            url,
            api_key,
            key_setting="recogniser_api_key",
            capacity=capacity,
            connections=2 * capacity,
            read_timeout=READ_TIMEOUT,
        )
        self._model = model
        self._sleep = sleep
        self._verbose = True  # until the server refuses it

    async def recognise(self, job: RecognitionJob) -> Recognised:
        self._require_health(Health.READY)
        if not job.audio.strip(b"\x00"):
            return Recognised(no_speech=1.0)  # a server may refuse it, or invent words
        return await self._run(asyncio.ensure_future(self._transcribe(job)))

    async def aclose(self) -> None:
        await super().aclose()
        await self._server.client.aclose()

    async def _load(self) -> None:
        # Some servers have no list of models; the first job shows whether the model exists.
        await self._server.list_models()

    async def _transcribe(self, job: RecognitionJob) -> Recognised:
        """Return the words of a job. A final one that the server has no room for is sent twice."""
        try:
            return await self._ask(job)
        except Overloaded:
            if not job.final:  # the next one hears the same speech and more
                raise
        await self._sleep(BUSY_WAIT)
        return await self._ask(job)

    async def _ask(self, job: RecognitionJob) -> Recognised:
        """Have the server recognise a job, in the form of answer that it knows."""
        response = await self._post(job)
        if response.status_code in REFUSAL_STATUSES and self._verbose:
            self._verbose = False  # newer models of OpenAI give the text alone
            response = await self._post(job)
            self._verbose = response.status_code != 200
        if response.status_code != 200:
            raise self._server.fault(response.status_code)
        try:
            return recognised(msgspec.json.decode(response.content, type=Transcription), job)
        except ValueError as error:
            raise EngineFault(
                f"{self._server.address} did not answer with a transcription. Check the url."
            ) from error

    async def _post(self, job: RecognitionJob) -> httpx2.Response:
        """Send one request. Raises `EngineGone` if no answer comes."""
        try:
            return await self._server.client.post(
                "audio/transcriptions",
                data=fields(job, self._model, verbose=self._verbose),
                files={"file": ("speech.wav", wav(job), "audio/wav")},
            )
        except httpx2.HTTPError as error:
            raise EngineGone(
                f"The model server at {self._server.address} gave no answer"
                f" ({type(error).__name__})."
            ) from error
