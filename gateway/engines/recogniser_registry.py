"""Construction of the recogniser that the settings name, with its supervision and fallback.

Owns: from options to one `Recogniser`, and the messages for what is missing. Must not know: how a
recogniser works, who uses it. The module of a recogniser is imported only when it is chosen.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Literal

import msgspec

from gateway.engines.recognition.base import NEEDS_PACKAGE, Recogniser
from gateway.engines.recognition.wrappers import FallbackRecogniser, SupervisedRecogniser
from gateway.errors import EngineFault

RecogniserKind = Literal["openai", "scripted", "whisper"]


class RecogniserOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The choice of a recogniser, and of one that replaces it while it cannot recognise."""

    kind: RecogniserKind
    model: str | None = None
    """`whisper`: directory or name of a model. `openai`: the server's name of the model."""
    url: str | None = None
    """`openai`: address of the server."""
    api_key: str | None = None
    """`openai`: key of the server."""
    device: str = "auto"
    """`whisper`: ``cpu``, ``cuda`` or ``auto``."""
    compute_type: str | None = None
    """`whisper`: number format of CTranslate2. None: the fastest one that is good enough."""
    workers: int | None = None
    """Recognitions at once. None: 1 with `whisper`, `openai.recogniser.CAPACITY` with `openai`."""
    threads: int = 1
    """`whisper`: threads of one recognition."""
    download: bool = False
    """`whisper`: a named model that is not on this machine may be downloaded."""
    fallback: RecogniserOptions | None = None
    """The recogniser that replaces this one."""


def build(options: RecogniserOptions) -> Recogniser:
    """Construct a recogniser, and load nothing before `Recogniser.start`.

    Raises `EngineFault`, with a sentence for the operator, if a package or a setting is missing.
    """
    if options.fallback is None:
        return SupervisedRecogniser(lambda: _make(options))
    other = options.fallback
    if (other.kind, other.model, other.url) == (options.kind, options.model, options.url):
        raise EngineFault("The fallback of the recogniser is the same as the recogniser.")
    # Each goes on trying to start by itself.
    return FallbackRecogniser(
        SupervisedRecogniser(lambda: _make(options), insist=True),
        SupervisedRecogniser(lambda: _make(other), insist=True),
    )


def _make(options: RecogniserOptions) -> Recogniser:
    """Construct one recogniser. Raises `EngineFault` if something is missing."""
    match options.kind:
        case "scripted":
            from gateway.engines.recognition.scripted import ScriptedRecogniser

            return ScriptedRecogniser()
        case "openai":
            from gateway.engines.recognition.openai.recogniser import CAPACITY, OpenAIRecogniser

            if options.url is None or options.model is None:
                raise EngineFault(
                    "The openai recogniser needs the address of a server and the name of a model."
                )
            return OpenAIRecogniser(
                options.url,
                options.model,
                api_key=options.api_key,
                capacity=options.workers or CAPACITY,
            )
        case "whisper":
            return _whisper(options)


def _whisper(options: RecogniserOptions) -> Recogniser:
    from gateway.engines.recognition.whisper.model import WhisperModel
    from gateway.engines.recognition.whisper.recogniser import WhisperRecogniser

    if importlib.util.find_spec("faster_whisper") is None:
        raise EngineFault(NEEDS_PACKAGE)
    model, workers = options.model, options.workers or 1
    if model is None:
        raise EngineFault(
            "The whisper recogniser needs a model: the directory of one in CTranslate2's form, or"
            " a name such as `small`."
        )
    return WhisperRecogniser(
        Path(model).name,
        lambda: WhisperModel(
            model,
            device=options.device,
            compute_type=options.compute_type,
            threads=options.threads,
            workers=workers,
            download=options.download,
        ),
        workers=workers,
    )
