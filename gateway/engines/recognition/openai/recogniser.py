"""The recogniser for servers with OpenAI's API of transcriptions: one request for each job.

Owns: connections, and what each answer of the server means. Must not know: the fields of requests
and answers (`gateway.engines.recognition.openai.transcription`), clients, rooms.

vLLM, Speaches, LocalAI and OpenAI itself have this API. The server's messages are not repeated in
faults, because they may quote what was said.
"""

from __future__ import annotations

import asyncio

import httpx2
import msgspec

from gateway.engines.base.engine import Health
from gateway.engines.openai.engine import (
    CONNECT_TIMEOUT,
    KEEPALIVE_TIMEOUT,
    REFUSAL_STATUSES,
    api_url,
    clean_key,
)
from gateway.engines.recognition.base import BaseRecogniser
from gateway.engines.recognition.openai.transcription import (
    Transcription,
    fields,
    recognised,
    wav,
)
from gateway.errors import EngineFault, EngineGone, JobFault, Overloaded
from gateway.job import Recognised, RecognitionJob

CAPACITY = 8
"""Default number of jobs at once. A GPU recognises them in one batch."""

READ_TIMEOUT = 10.0
"""Seconds until the answer. A text that comes later is of no use to live captions."""


class OpenAIRecogniser(BaseRecogniser):
    """A `Recogniser` behind a server.

    :param url: address of the server, with or without ``/v1``
    :param model: the server's name of the model
    :param api_key: sent as bearer token, and never logged
    :param capacity: value of `Recogniser.capacity`
    :param languages: canonical tags of its languages; empty: the server does not say

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
    ) -> None:
        super().__init__(f"openai:{model}", languages, capacity)
        base = api_url(url)
        self._address = f"{base.scheme}://{base.netloc.decode()}{base.path}"
        self._model = model
        self._verbose = True  # until the server refuses it
        self._tasks: set[asyncio.Task[httpx2.Response]] = set()
        key = clean_key(api_key)
        self._client = httpx2.AsyncClient(
            base_url=base,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT),
            limits=httpx2.Limits(
                max_connections=2 * capacity,
                max_keepalive_connections=capacity,
                keepalive_expiry=KEEPALIVE_TIMEOUT,
            ),
        )

    async def start(self) -> None:
        try:
            response = await self._client.get("models")
        except httpx2.HTTPError as error:
            self._health = Health.DEAD
            raise EngineGone(
                f"No server of transcriptions answers at {self._address}"
                f" ({type(error).__name__}): start it, or correct the url."
            ) from error
        # Some servers have no list of models; the first job shows whether the model exists.
        if response.status_code in (401, 403):
            self._health = Health.DEAD
            raise self._fault(response.status_code)
        self._health = Health.READY

    async def recognise(self, job: RecognitionJob) -> Recognised:
        self._require_health(Health.READY)
        if not job.audio.strip(b"\x00"):
            return Recognised(no_speech=1.0)  # a server may refuse it, or invent words
        self._unfinished += 1
        try:
            response = await self._ask(job)
            if response.status_code in REFUSAL_STATUSES and self._verbose:
                self._verbose = False  # newer models of OpenAI give the text alone
                response = await self._ask(job)
                self._verbose = response.status_code != 200
        finally:
            self._unfinished -= 1
        if response.status_code != 200:
            raise self._fault(response.status_code)
        try:
            answer = msgspec.json.decode(response.content, type=Transcription)
        except ValueError as error:
            raise EngineFault(
                f"{self._address} did not answer with a transcription. Check the url."
            ) from error
        return recognised(answer, job)

    async def aclose(self) -> None:
        self._health = Health.CLOSED
        for task in self._tasks:
            task.cancel()
        await self._client.aclose()

    async def _ask(self, job: RecognitionJob) -> httpx2.Response:
        """Send one request. Raises `EngineGone` if no answer comes."""
        task = asyncio.ensure_future(
            self._client.post(
                "audio/transcriptions",
                data=fields(job, self._model, verbose=self._verbose),
                files={"file": ("speech.wav", wav(job), "audio/wav")},
            )
        )
        self._tasks.add(task)
        try:
            await asyncio.wait((task,))
            if task.cancelled():
                raise EngineGone("The recogniser was closed while the job ran.")
            return task.result()
        except httpx2.HTTPError as error:
            raise EngineGone(
                f"The server of transcriptions at {self._address} gave no answer"
                f" ({type(error).__name__})."
            ) from error
        finally:
            task.cancel()
            self._tasks.discard(task)

    def _fault(self, status: int) -> EngineFault:
        """Return the fault for the HTTP status of a refusal."""
        if status in (401, 403):
            return EngineFault(
                f"The server at {self._address} does not accept the API key ({status}).",
                status=status,
            )
        if status in (429, 503):
            return Overloaded(f"The server of transcriptions is full ({status}).", status)
        kind = JobFault if status in REFUSAL_STATUSES else EngineFault
        return kind(f"The server of transcriptions refused the job ({status}).", status=status)
