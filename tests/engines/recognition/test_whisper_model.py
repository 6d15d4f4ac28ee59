"""The language and the context of a Whisper model, which tiny.en alone does not show."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.engines.recognition.whisper import WhisperModel
from gateway.errors import EngineFault, EngineGone, JobFault
from gateway.job import RecognitionJob
from tests.support import speech_audio


class Multilingual:
    """A library's model that detects Welsh before English before German, in Whisper's form."""

    supported_languages = ("en", "de", "cy", "not a tag")

    def __init__(self, *args: Any, **options: Any) -> None:
        found = [[("<|cy|>", 0.7), ("<|en|>", 0.2), ("<|de|>", 0.1)]]
        self.model = SimpleNamespace(detect_language=lambda encoded: found)


@pytest.fixture
def multilingual(monkeypatch: pytest.MonkeyPatch) -> WhisperModel:
    monkeypatch.setattr("faster_whisper.WhisperModel", Multilingual)
    return WhisperModel("any")


def test_languages_are_those_of_the_model_that_have_tags(multilingual: WhisperModel) -> None:
    assert multilingual.languages == ("en", "de", "cy")


def test_the_language_is_detected_among_those_allowed(multilingual: WhisperModel) -> None:
    for allowed, lang, probability in (
        ((), "cy", 0.7),
        (("de", "en-GB"), "en", 2 / 3),
        (("de", "ja"), "de", 1.0),
    ):
        found, certainty = multilingual._language(None, allowed)
        assert found == lang
        assert certainty == pytest.approx(probability)


@pytest.mark.parametrize(
    ("device", "gpus", "chosen"),
    [
        ("auto", 0, ("cpu", "int8")),
        ("auto", 1, ("cuda", "float16")),
        ("cpu", 1, ("cpu", "int8")),
        ("cuda", 1, ("cuda", "float16")),
    ],
)
def test_a_model_computes_in_eight_bits_on_a_cpu_whatever_its_file_has(
    monkeypatch: pytest.MonkeyPatch, device: str, gpus: int, chosen: tuple[str, str]
) -> None:
    seen: list[dict[str, Any]] = []

    class Noted(Multilingual):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__()
            seen.append(options)

    monkeypatch.setattr("faster_whisper.WhisperModel", Noted)
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: gpus)
    WhisperModel("any", device=device)
    WhisperModel("any", device=device, compute_type="float32")
    assert (seen[0]["device"], seen[0]["compute_type"]) == chosen
    assert seen[1]["compute_type"] == "float32"


@pytest.mark.parametrize(
    ("error", "download", "said"),
    [
        (FileNotFoundError, True, r"it could not be downloaded \(FileNotFoundError\)"),
        (FileNotFoundError, False, "it is not on this machine .* --download"),
        (RuntimeError, True, "it is broken"),
    ],
)
def test_a_model_that_is_not_found_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception], download: bool, said: str
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise error("A long text of a library.\nOn many lines.")

    monkeypatch.setattr("faster_whisper.WhisperModel", fail)
    with pytest.raises(EngineFault, match=f"model small cannot be loaded: {said}") as raised:
        WhisperModel("small", download=download)
    assert "Name the directory of a model in CTranslate2's form" in str(raised.value)
    assert "library" not in str(raised.value) and "\n" not in str(raised.value)


def test_a_job_that_nobody_waits_for_ends_after_its_present_step() -> None:
    model = WhisperModel(str(speech_audio.model()), device="cpu")
    job = RecognitionJob(id="j", audio=speech_audio.excerpt("two_cities", 0, 2.0), langs=("en",))
    for steps in (0, 1):
        wanted = iter([True] * steps + [False])
        with pytest.raises(EngineGone):
            model.recognise(job, lambda wanted=wanted: next(wanted))  # type: ignore[misc]
        assert next(wanted, None) is None


def test_a_job_in_a_language_that_the_model_lacks_is_refused(multilingual: WhisperModel) -> None:
    with pytest.raises(JobFault, match="does not recognise ja, ko"):
        multilingual._language(None, ("ja", "ko"))


def test_the_context_is_as_long_as_the_audio_and_at_most_thirty_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = WhisperModel(str(speech_audio.model()), device="cpu", compute_type="int8")
    lengths: list[int] = []
    encode = model._whisper.encode

    def noted(features: Any) -> Any:
        lengths.append(features.shape[1])
        return encode(features)

    monkeypatch.setattr(model._whisper, "encode", noted)
    for seconds in (0.5, 2.0, 30.0):
        audio = speech_audio.excerpt("two_cities", 0, seconds)
        model.recognise(RecognitionJob(id="j", audio=audio, langs=("en",)), lambda: True)
    assert lengths == [600, 800, 3000]


def test_an_output_without_tokens_has_no_words() -> None:
    model = WhisperModel(str(speech_audio.model()), device="cpu", compute_type="int8")
    assert model._words(None, [], None, 0, 0.0) == ()
