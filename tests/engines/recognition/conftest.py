"""Every recogniser, started for each test of the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import pytest

from gateway.engines.recognition.base import Recogniser
from gateway.engines.recognition.openai import OpenAIRecogniser
from gateway.engines.recognition.whisper import WhisperModel, WhisperRecogniser
from gateway.engines.recognition.wrappers import FallbackRecogniser, SupervisedRecogniser
from gateway.engines.scripted import ScriptedRecogniser
from tests.engines.recognition.openai_server import serving
from tests.support import speech_audio


def whisper() -> WhisperRecogniser:
    path = str(speech_audio.model())
    return WhisperRecogniser("tiny.en", lambda: WhisperModel(path, compute_type="int8"))


@asynccontextmanager
async def openai() -> AsyncIterator[Recogniser]:
    async with serving() as server, aclosing(OpenAIRecogniser(server.url, "whisper-1")) as made:
        yield made


def scripted() -> ScriptedRecogniser:
    return ScriptedRecogniser("It was the best of times.", delay=0.01)


MAKERS: dict[str, Callable[[], AbstractAsyncContextManager[Recogniser]]] = {
    "openai": openai,
    "scripted": lambda: aclosing(scripted()),
    "supervised": lambda: aclosing(SupervisedRecogniser(scripted)),
    "fallback": lambda: aclosing(FallbackRecogniser(scripted(), scripted())),
    "whisper": lambda: aclosing(whisper()),
}


@pytest.fixture(params=MAKERS)
async def recogniser(request: pytest.FixtureRequest) -> AsyncIterator[Recogniser]:
    async with MAKERS[request.param]() as made:
        await made.start()
        yield made
