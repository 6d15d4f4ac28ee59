"""The recogniser for servers with OpenAI's API of transcriptions: one request for each job.

Owns: the fields of requests to ``/v1/audio/transcriptions``, what each answer means, and words with
times out of whatever a server gives. Must not know: connections (`gateway.engines.openai.server`).

OpenAI's `verbose_json` has words with times for Whisper models; vLLM gives segments; newer models
give the text alone. Where words have no times, that of their segment is shared out by letters.
"""

from __future__ import annotations

import asyncio
import io
import wave
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import httpx2
import msgspec
from msgspec.structs import replace

from gateway.engines.base.service import Health
from gateway.engines.openai.server import REFUSAL_STATUSES, ModelServer
from gateway.engines.recognition.base import SAMPLE_BYTES, BaseRecogniser, duration, placed
from gateway.errors import ClientFault, EngineFault, EngineGone, Overloaded
from gateway.job import SAMPLE_RATE, Recognised, RecognitionJob, Word
from gateway.text import languages, word_units

CAPACITY = 8
"""Default number of jobs at once. A GPU recognises them in one batch."""

READ_TIMEOUT = 10.0
"""Seconds until the answer. A text that comes later is of no use to live captions."""

BUSY_WAIT = 0.5
"""Seconds before a final job is sent again to a server that was full. A batch of a GPU takes less,
and behind a router the next request may reach another replica."""


DETECTED = 0.6
"""Confidence in a language that the server has detected: it tells none."""

HOTWORDS = 800
"""Characters of the hotwords in a prompt: half of the 224 tokens that Whisper takes."""


class OpenAIRecogniser(BaseRecogniser):
    """A `Recogniser` behind a server.

    :param url: see `ModelServer`, also for ``api_key``
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


class TranscribedWord(msgspec.Struct, frozen=True):
    """A word in `verbose_json`."""

    word: str
    start: float
    end: float


class TranscribedSegment(msgspec.Struct, frozen=True):
    """A segment in `verbose_json`. vLLM sends null for what it does not know."""

    text: str
    start: float
    end: float
    avg_logprob: float | None = None
    compression_ratio: float | None = None
    no_speech_prob: float | None = None


class Transcription(msgspec.Struct, frozen=True):
    """An answer in `json` or `verbose_json`."""

    text: str
    language: str | None = None
    words: list[TranscribedWord] | None = None
    segments: list[TranscribedSegment] | None = None


def fields(job: RecognitionJob, model: str, *, verbose: bool) -> dict[str, str | list[str]]:
    """Return the fields of a request beside the audio. ``verbose`` asks for words with times."""
    hotwords = ", ".join(job.hotwords)[:HOTWORDS]
    asked: dict[str, str | list[str]] = {
        "model": model,
        "response_format": "verbose_json" if verbose else "json",
        "temperature": "0",
        "prompt": " ".join(part for part in (hotwords, job.prompt) if part),
    }
    if verbose:
        asked["timestamp_granularities[]"] = ["word", "segment"]
    if len(job.langs) == 1:
        asked["language"] = job.langs[0].partition("-")[0]
    return {name: value for name, value in asked.items() if value}


def wav(job: RecognitionJob) -> bytes:
    """Return the audio of a job as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(SAMPLE_BYTES)
        writer.setframerate(SAMPLE_RATE)
        writer.writeframes(job.audio)
    return file.getvalue()


def recognised(answer: Transcription, job: RecognitionJob) -> Recognised:
    """Return the words of an answer, with times inside the audio."""
    lang = job.langs[0] if len(job.langs) == 1 else _tag(answer.language or "", job.langs)
    seconds = duration(job)
    segments = answer.segments or [TranscribedSegment(answer.text, 0.0, seconds)]
    no_speech = min(segment.no_speech_prob or 0.0 for segment in segments)
    words = [Word(word.word, word.start, word.end) for word in answer.words or ()]
    if not words:
        words = [word for segment in segments for word in _shared_out(segment, lang)]
    elif not lang or word_units.spaced(lang):
        words = _spelt(words, answer.text)
    return Recognised(
        words=placed(words, seconds),
        lang=lang,
        lang_probability=1.0 if len(job.langs) == 1 else DETECTED,
        no_speech=min(max(no_speech, 0.0), 1.0),
        log_probability=min(segment.avg_logprob or 0.0 for segment in segments),
        compression=max(segment.compression_ratio or 1.0 for segment in segments),
    )


def _tag(name: str, allowed: Sequence[str]) -> str:
    """Return the tag of a language that a server names, ``en`` or ``english``; empty if unknown."""
    try:
        tag = languages.normalise(name) if len(name) <= 3 else languages.named(name)
    except ClientFault:
        return ""
    return (languages.match(tag, allowed) or tag) if tag else ""


def _spelt(words: list[Word], text: str) -> list[Word]:
    """Return words as the text spells them: a server leaves punctuation out of words."""
    spelt = text.split()
    if len(spelt) != len(words):
        spelt = [word.text.lstrip() for word in words]
    return [replace(word, text=f" {text}") for word, text in zip(words, spelt, strict=True)]


def _shared_out(segment: TranscribedSegment, lang: str) -> Iterator[Word]:
    """Yield the words of a segment, each with a share of its time."""
    spaced = not lang or word_units.spaced(lang)
    pieces = [piece for piece in word_units.split(segment.text, spaced) if piece.strip()]
    letters = sum(len(piece) for piece in pieces)
    place = 0
    for piece in pieces:
        start = segment.start + (segment.end - segment.start) * place / letters
        place += len(piece)
        text = f" {piece.lstrip()}" if spaced else piece
        yield Word(text, start, segment.start + (segment.end - segment.start) * place / letters)
