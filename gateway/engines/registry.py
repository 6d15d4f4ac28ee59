"""The rim towards models: which engine the settings ask for, wrapped in what every engine needs.

Owns: from `Settings` to one `Engine`, and the sentences for a missing model or package. Must not
know: how an engine works, who uses it. An engine is imported only when it is asked for: vLLM takes
seconds and need not be installed.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Callable, MutableMapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gateway.errors import EngineFault

if TYPE_CHECKING:
    from gateway.engines.base.engine import Engine
    from gateway.engines.profiles import Profile
    from gateway.engines.wrappers.supervised import Supervisor
    from gateway.settings.catalogue import Settings

SERVER_MOST = 8.0
"""Seconds after which a model server is asked again at the latest. To ask costs a few tokens; to
build an engine in this process can take minutes, so that waits longer."""

EMBEDDED = Path(__file__).resolve().parents[1] / "model"
"""Where a wheel has its own model, which is called that and not by its directory."""


def build(settings: Settings, guards: MutableMapping[tuple[str, str], int] | None = None) -> Engine:
    """Construct the engine of ``settings``; nothing is loaded before `Engine.start`.

    ``guards`` counts what the guards stopped, see `gateway.engines.wrappers.guarded`. Raises
    `EngineFault` with a sentence that says what is missing."""
    from gateway.engines.wrappers.fallback import FallbackEngine

    counts: MutableMapping[tuple[str, str], int] = guards if guards is not None else Counter()
    if settings.fallback is None:
        return _whole(_living(settings, insist=False), settings, counts)
    other = replace(settings, engine=settings.fallback, model=settings.fallback_model, profile=None)
    if (other.engine, other.model) == (settings.engine, settings.model):
        raise EngineFault(
            "The fallback is the same as the engine: name another one with --fallback,"
            " or another model with --fallback-model."
        )
    one, two = _living(settings, insist=True), _living(other, insist=True)
    engine = FallbackEngine(_whole(one, settings, counts), _whole(two, other, counts))
    one.changed = two.changed = engine.look
    return engine


def around(engine: Any, settings: Settings, guards: MutableMapping[tuple[str, str], int]) -> Engine:
    """The engine of a process that has one of vLLM's already, which stays its own.

    :param engine: an `AsyncLLM`. Raises `EngineFault`.
    """
    from gateway.engines.vllm.borrowed import BorrowedEngine

    return _whole(
        _made(lambda _, profile: BorrowedEngine(engine, profile), settings), settings, guards
    )


def _living(settings: Settings, *, insist: bool) -> Supervisor:
    """Construct an engine that comes back by itself."""
    from gateway.engines.wrappers.supervised import BACKOFF_MOST, Supervisor

    make = partial(_made, _MAKERS[settings.engine], settings)
    most = SERVER_MOST if settings.engine == "openai" else BACKOFF_MOST
    return Supervisor(make, insist=insist, hang=settings.hang_s, most=most)


def _whole(
    engine: Engine, settings: Settings, counts: MutableMapping[tuple[str, str], int]
) -> Engine:
    """An engine in what every engine needs."""
    from gateway.engines.wrappers.guarded import GuardedEngine
    from gateway.engines.wrappers.piecewise import PiecewiseEngine

    # The scripted one is no model: what it repeats of the source is its whole output.
    if settings.engine == "scripted":
        return engine
    if settings.guards:
        engine = GuardedEngine(engine, counts)
    # Outside the guards, which compare a text with its translation: each piece is judged alone.
    return PiecewiseEngine(engine)


def _made(make: Callable[[Settings, Profile | None], Engine], settings: Settings) -> Engine:
    from gateway.engines import profiles

    try:
        profile = profiles.load(settings.profile) if settings.profile else None
        return make(settings, profile)
    except OSError as exc:
        raise EngineFault(
            f"{exc.filename} cannot be read: {exc.strerror or exc}. Check --model, and whether this"
            " user may read it."
        ) from exc
    except (profiles.UnknownProfile, ValueError) as exc:
        raise EngineFault(str(exc)) from exc


def _scripted(settings: Settings, profile: Profile | None) -> Engine:
    from gateway.engines.scripted import ScriptedEngine

    return ScriptedEngine(
        capacity=settings.max_num_seqs,
        delay=settings.scripted_delay,
        pace=settings.scripted_pace,
        faults=settings.scripted_faults,
    )


def _ctranslate2(settings: Settings, profile: Profile | None) -> Engine:
    from gateway.engines.ctranslate2.engine import CTranslate2Engine

    return CTranslate2Engine(
        _directory(settings.model),
        profile,
        compute_type=settings.compute_type,
        inter_threads=settings.inter_threads,
        batch=settings.batch,
        intra_threads=settings.intra_threads,
        cache_dir=_cache(settings),
        name=_name(settings),
    )


def _openai(settings: Settings, profile: Profile | None) -> Engine:
    from gateway.engines.openai.engine import OpenAIEngine

    if settings.openai_url is None:
        raise EngineFault(
            "The openai engine needs the address of a server:"
            " --openai-url http://HOST:PORT/v1 or GATEWAY_OPENAI_URL."
        )
    return OpenAIEngine(
        settings.openai_url,
        settings.model,
        api_key=settings.openai_api_key,
        profile=profile,
        api=settings.openai_api,
        capacity=settings.max_num_seqs,
        vllm_extras=settings.openai_extras,
        read_timeout=settings.hang_s,
    )


def _vllm(settings: Settings, profile: Profile | None) -> Engine:
    from gateway.engines.vllm.engine import VllmEngine

    if importlib.util.find_spec("vllm") is None:
        raise EngineFault("The vllm engine needs vLLM: pip install 'caption-gateway[vllm]'.")
    model = settings.model
    if model is None or not _HUB_ID.fullmatch(model) or Path(model).exists():
        model = str(_directory(model))
    return VllmEngine(
        model,
        profile,
        dtype=settings.dtype,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        max_model_len=settings.max_model_len,
        enforce_eager=settings.enforce_eager,
        load_format=settings.load_format,
        cache_dir=_cache(settings),
        feed=settings.feed,
        name=_name(settings),
        extra=settings.vllm,
    )


_MAKERS: dict[str, Callable[[Settings, Profile | None], Engine]] = {
    "ctranslate2": _ctranslate2,
    "openai": _openai,
    "scripted": _scripted,
    "vllm": _vllm,
}


_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
"""``owner/name``, which may also be a directory."""


def _name(settings: Settings) -> str | None:
    return "embedded" if settings.model is None else None


def _cache(settings: Settings) -> Path | None:
    return Path(settings.cache_dir).expanduser() if settings.cache_dir else None


def _directory(model: str | None) -> Path:
    """The model's directory, the embedded one by default. Raises `EngineFault` if there is none."""
    if model is None:
        if not (EMBEDDED / "config.json").is_file():
            raise EngineFault(
                "No embedded model is installed. Name one with --model DIR or GATEWAY_MODEL,"
                " or try the gateway without a model: --engine scripted."
            )
        return EMBEDDED
    path = Path(model).expanduser()
    if not path.is_dir():
        raise EngineFault(
            f"There is no model directory {path}. Name one that exists with --model DIR"
            " or GATEWAY_MODEL."
        )
    return path
