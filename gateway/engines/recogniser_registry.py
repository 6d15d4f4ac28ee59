"""Construction of the recogniser that the settings name, with its supervision and fallback.

Owns: from `Settings` to one `Recogniser`, and the messages for what is missing. Must not know: how
a recogniser works, who uses it. The module of a recogniser is imported only when it is chosen.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from gateway.engines.recognition.base import NEEDS_PACKAGE, Recogniser
from gateway.engines.recognition.wrappers import FallbackRecogniser, SupervisedRecogniser
from gateway.errors import EngineFault
from gateway.settings.catalogue import Settings


def build(settings: Settings) -> Recogniser:
    """Construct the recogniser of ``settings``, and load nothing before `Recogniser.start`.

    Raises `EngineFault`, with a sentence for the operator, if a package or a setting is missing.
    """
    if settings.recogniser_fallback is None:
        return SupervisedRecogniser(partial(_make, settings))
    other = replace(
        settings,
        recogniser=settings.recogniser_fallback,
        recogniser_model=settings.recogniser_fallback_model,
        recogniser_workers=None,  # those of the setting are counted for the first one
    )
    # Two copies of one recogniser would fail for the same reason.
    chosen = (settings.recogniser, settings.recogniser_model)
    if (other.recogniser, other.recogniser_model) == chosen:
        raise EngineFault("The fallback of the recogniser is the same as the recogniser.")
    # Each goes on trying to start by itself.
    return FallbackRecogniser(
        SupervisedRecogniser(partial(_make, settings), insist=True),
        SupervisedRecogniser(partial(_make, other), insist=True),
    )


def _make(settings: Settings) -> Recogniser:
    """Construct one recogniser. Raises `EngineFault` if something is missing."""
    match settings.recogniser:
        case "openai":
            return _openai(settings)
        case "whisper":
            return _whisper(settings)
        case _:
            from gateway.engines.scripted import ScriptedRecogniser

            return ScriptedRecogniser()


def _openai(settings: Settings) -> Recogniser:
    from gateway.engines.recognition.openai import CAPACITY, OpenAIRecogniser

    if settings.recogniser_url is None or settings.recogniser_model is None:
        raise EngineFault(
            "The openai recogniser needs the address of a server and the name of a model."
        )
    return OpenAIRecogniser(
        settings.recogniser_url,
        settings.recogniser_model,
        api_key=settings.recogniser_api_key,
        capacity=settings.recogniser_workers or CAPACITY,
    )


def _whisper(settings: Settings) -> Recogniser:
    from gateway.engines.recognition.whisper import WhisperModel, WhisperRecogniser

    if importlib.util.find_spec("faster_whisper") is None:
        raise EngineFault(NEEDS_PACKAGE)
    model, workers = settings.recogniser_model, settings.recogniser_workers or 1
    if model is None:
        raise EngineFault(
            "The whisper recogniser needs a model: the directory of one in CTranslate2's form, or"
            " a name such as `small`."
        )
    load = partial(
        WhisperModel,
        model,
        device=settings.recogniser_device,
        compute_type=settings.recogniser_compute_type,
        workers=workers,
        download=settings.recogniser_download,
    )
    return WhisperRecogniser(Path(model).name, load, workers=workers)
