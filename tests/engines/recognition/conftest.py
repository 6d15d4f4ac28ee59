"""Every recogniser, started for each test of the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest

from gateway.engines.recognition.base import Recogniser
from gateway.engines.recognition.scripted import ScriptedRecogniser
from gateway.engines.recognition.whisper.model import WhisperModel
from gateway.engines.recognition.whisper.recogniser import WhisperRecogniser
from tests.support import speech_audio


def whisper() -> WhisperRecogniser:
    path = str(speech_audio.model())
    return WhisperRecogniser("tiny.en", lambda: WhisperModel(path, compute_type="int8"))


MAKERS: dict[str, Callable[[], Recogniser]] = {
    "scripted": lambda: ScriptedRecogniser("It was the best of times.", delay=0.01),
    "whisper": whisper,
}


@pytest.fixture(params=MAKERS)
async def recogniser(request: pytest.FixtureRequest) -> AsyncIterator[Recogniser]:
    async with aclosing(MAKERS[request.param]()) as made:
        await made.start()
        yield made
