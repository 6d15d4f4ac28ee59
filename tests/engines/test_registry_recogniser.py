"""Construction of the recogniser that the settings name."""

from __future__ import annotations

import pytest

from gateway.engines import registry
from gateway.engines.base.service import Health
from gateway.engines.recognition.wrappers import FallbackRecogniser
from gateway.engines.registry import build_recogniser as build
from gateway.engines.scripted import ScriptedRecogniser
from gateway.errors import EngineFault
from gateway.job import RecognitionJob
from gateway.settings.catalogue import Settings
from tests.support import speech_audio
from tests.support.live import until


async def test_each_kind_is_built_without_being_loaded() -> None:
    names = [
        build(options).name
        for options in (
            Settings(recogniser="scripted"),
            Settings(
                recogniser="openai",
                recogniser_url="http://127.0.0.1:1",
                recogniser_model="whisper-1",
            ),
            Settings(recogniser="whisper", recogniser_model="/models/tiny.en"),
        )
    ]
    assert names == ["scripted", "openai:whisper-1", "whisper:tiny.en"]


async def test_whisper_recognises_when_it_is_started() -> None:
    options = Settings(
        recogniser="whisper", recogniser_model=str(speech_audio.model()), recogniser_device="cpu"
    )
    recogniser = build(options)
    await recogniser.start()
    audio = speech_audio.excerpt("two_cities", 0, 2.5)
    result = await recogniser.recognise(RecognitionJob(id="j1", audio=audio, langs=("en",)))
    assert "best" in result.text
    await recogniser.aclose()


async def test_a_fallback_is_another_recogniser() -> None:
    options = Settings(
        recogniser="openai",
        recogniser_url="http://h",
        recogniser_model="m",
        recogniser_fallback="scripted",
    )
    recogniser = build(options)
    assert isinstance(recogniser, FallbackRecogniser)
    assert recogniser.secondary.name == "scripted"
    with pytest.raises(EngineFault, match="same as the recogniser"):
        build(Settings(recogniser="scripted", recogniser_fallback="scripted"))


async def test_the_return_of_a_recogniser_is_reported_without_a_job(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    made: list[ScriptedRecogniser] = []

    def make(settings: Settings) -> ScriptedRecogniser:
        made.append(ScriptedRecogniser())
        return made[-1]

    monkeypatch.setattr(registry, "_recogniser", make)
    recogniser = build(Settings(recogniser="whisper", recogniser_fallback="scripted"))
    await recogniser.start()
    await until(lambda: made[0].health is made[1].health is Health.READY)
    made[0].die()
    await until(lambda: "scripted works again" in caplog.text)
    assert "scripted works instead of scripted" in caplog.text
    await recogniser.aclose()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Settings(recogniser="openai", recogniser_model="m"), "address of a server"),
        (Settings(recogniser="openai", recogniser_url="http://h"), "name of a model"),
        (Settings(recogniser="whisper"), "needs a model"),
    ],
)
def test_what_is_missing_is_named(options: Settings, message: str) -> None:
    with pytest.raises(EngineFault, match=message):
        build(options)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineFault, match=r"pip install 'caption-gateway\[speech\]'"):
        build(Settings(recogniser="whisper", recogniser_model="small"))
