"""Construction of the recogniser that the settings name."""

from __future__ import annotations

import pytest

from gateway.engines.recogniser_registry import RecogniserOptions, build
from gateway.engines.recognition.wrappers import FallbackRecogniser
from gateway.errors import EngineFault
from gateway.job import RecognitionJob
from tests.support import speech_audio


async def test_each_kind_is_built_without_being_loaded() -> None:
    names = [
        build(options).name
        for options in (
            RecogniserOptions(kind="scripted"),
            RecogniserOptions(kind="openai", url="http://127.0.0.1:1", model="whisper-1"),
            RecogniserOptions(kind="whisper", model="/models/tiny.en"),
        )
    ]
    assert names == ["scripted", "openai:whisper-1", "whisper:tiny.en"]


async def test_whisper_recognises_when_it_is_started() -> None:
    options = RecogniserOptions(kind="whisper", model=str(speech_audio.model()), device="cpu")
    recogniser = build(options)
    await recogniser.start()
    audio = speech_audio.excerpt("two_cities", 0, 2.5)
    result = await recogniser.recognise(RecognitionJob(id="j1", audio=audio, langs=("en",)))
    assert "best" in result.text
    await recogniser.aclose()


async def test_a_fallback_is_another_recogniser() -> None:
    scripted = RecogniserOptions(kind="scripted")
    options = RecogniserOptions(kind="openai", url="http://h", model="m", fallback=scripted)
    recogniser = build(options)
    assert isinstance(recogniser, FallbackRecogniser)
    assert recogniser.secondary.name == "scripted"
    with pytest.raises(EngineFault, match="same as the recogniser"):
        build(RecogniserOptions(kind="scripted", fallback=scripted))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (RecogniserOptions(kind="openai", model="m"), "address of a server"),
        (RecogniserOptions(kind="openai", url="http://h"), "name of a model"),
        (RecogniserOptions(kind="whisper"), "needs a model"),
    ],
)
def test_what_is_missing_is_named(options: RecogniserOptions, message: str) -> None:
    with pytest.raises(EngineFault, match=message):
        build(options)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineFault, match=r"pip install 'caption-gateway\[speech\]'"):
        build(RecogniserOptions(kind="whisper", model="small"))
