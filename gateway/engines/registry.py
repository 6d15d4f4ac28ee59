"""Construction of the engine and the recogniser that the settings name, with their wrappers.

Owns: from `Settings` to one `Engine` and one `Recogniser`, and the messages for a missing model or
package. Must not know: how they work, who uses them. The module of an engine is imported only when
it is chosen, because vLLM takes seconds to import and need not be installed.
"""

from __future__ import annotations

import importlib.util
import logging
import re
from collections import Counter
from collections.abc import Callable, MutableMapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gateway.engines import profiles
from gateway.engines.base import model_files
from gateway.engines.base.engine import Engine
from gateway.engines.base.language_detection import Detector
from gateway.engines.fetched import known_models
from gateway.engines.fetched.known_models import KnownModel
from gateway.engines.profiles import Profile
from gateway.engines.recognition.base import NEEDS_PACKAGE, Recogniser
from gateway.engines.recognition.wrappers import FallbackRecogniser, SupervisedRecogniser
from gateway.engines.wrappers.guarded import GuardedEngine
from gateway.engines.wrappers.piecewise import PiecewiseEngine
from gateway.engines.wrappers.pivot import PivotEngine
from gateway.engines.wrappers.route import EngineRoute
from gateway.engines.wrappers.routed import RoutedEngine
from gateway.engines.wrappers.supervised import BACKOFF_MAX, Supervisor
from gateway.errors import ClientFault, EngineFault
from gateway.settings import catalogue
from gateway.settings.catalogue import EngineTable, Settings
from gateway.settings.setting import ENGINE_POINTS
from gateway.text import languages

Maker = Callable[[Settings, Profile | None], Engine]

logger = logging.getLogger(__name__)

SERVER_BACKOFF_MAX = 8.0
"""Longest wait in seconds before a model server is tried again. A try costs a few tokens. An engine
in this process can take minutes to build, so its limit is longer."""

EMBEDDED = Path(__file__).resolve().parents[1] / "model"
"""Directory of the model in a wheel. The model is named ``embedded``, not after this directory."""


def build(settings: Settings, guards: MutableMapping[tuple[str, str], int] | None = None) -> Engine:
    """Construct the engine of ``settings``, and load nothing before `Engine.start`.

    Several engines, or one and its fallback, are put behind one that chooses among them for each
    job. Around it is the engine that translates in two steps, unless that is switched off.

    :param guards: counts what the guards did

    Raises `EngineFault`, with a sentence for the operator, if a model or package is missing.
    """
    counts: MutableMapping[tuple[str, str], int] = guards if guards is not None else Counter()
    if not settings.engines and _fallback(settings) is None:
        return _pivoting(_wrapped(settings, counts, insist=False), settings)
    routes = []
    for table in catalogue.engines(settings):
        try:
            # The others go on while one of them is tried again.
            engine = _wrapped(_of_table(table), counts, insist=True)
            other = _fallback(table.settings)
            spare = None if other is None else _wrapped(other, counts, insist=True)
        except EngineFault as fault:
            if not settings.engines:
                raise
            raise EngineFault(f"The engine {table.name}: {fault}") from fault
        name = str(table.name) if settings.engines else engine.name
        routes.append(EngineRoute(name, engine, pairs=table.pairs, weight=table.weight))
        _check_pairs(routes[-1], table)
        if spare is not None:
            routes.append(EngineRoute(f"{name}.fallback", spare, pairs=table.pairs, spare=True))
    return _pivoting(RoutedEngine(routes), settings)


def _of_table(table: EngineTable) -> Settings:
    """Return the settings of an engine, with its GPUs as arguments of vLLM."""
    if table.gpus is None:
        return table.settings
    gpus = {"device_ids": [*table.gpus], "tensor_parallel_size": len(table.gpus)}
    return replace(table.settings, vllm=gpus | table.settings.vllm)


def _check_pairs(route: EngineRoute, table: EngineTable) -> None:
    """Raise `EngineFault` if a model lacks a pair that its engine is to be given."""
    # A model server may name a model with other languages when it starts.
    if table.settings.engine == "openai":
        return
    for source, target in table.pairs or ():
        model = route.engine.profile
        sources = model.sources if source == "*" else (source,)
        targets = model.targets if target == "*" else (target,)
        if not any(route.takes(first, second) for first in sources for second in targets):
            raise EngineFault(
                f"The engine {route.name} is to translate from {source} into {target}, but"
                f" {route.engine.name} does not. Check its pairs."
            )


def _pivoting(engine: Engine, settings: Settings) -> Engine:
    """Wrap an engine in the one that translates the other pairs in two steps."""
    if settings.pivot == "off":
        return engine
    try:
        pivot = languages.normalise(settings.pivot)
    except ClientFault as fault:
        raise EngineFault(f"{fault} Check --pivot.") from fault
    return PivotEngine(engine, pivot, settings.flow.stability)


def _fallback(settings: Settings) -> Settings | None:
    """Return the settings of the fallback of an engine, None if it has none."""
    engine, model = settings.fallback, settings.fallback_model
    # Until a model of many pairs is there, the one in the package translates what it can.
    models = named(settings) if engine is None else ()
    many = len(models) > 1 or any(model.pair is None for model in models)
    if many and (EMBEDDED / "config.json").is_file():
        engine, model = "ctranslate2", None
    if engine is None:
        return None
    other = replace(settings, engine=engine, model=model, profile=None)
    # Two copies of one engine would fail for the same reason.
    if (other.engine, other.model) == (settings.engine, settings.model):
        raise EngineFault(
            "The fallback is the same as the engine: name another one with --fallback,"
            " or another model with --fallback-model."
        )
    return other


def _wrapped(
    settings: Settings, counts: MutableMapping[tuple[str, str], int], *, insist: bool
) -> Engine:
    """Construct an engine with its wrappers. ``insist``: keep trying if the first start fails."""
    make = partial(_construct, _maker(settings.engine), settings)
    max_backoff = SERVER_BACKOFF_MAX if settings.engine == "openai" else BACKOFF_MAX
    living = Supervisor(make, insist=insist, hang=settings.hang_s, max_backoff=max_backoff)
    if living.repeats_source:
        return living
    # Outside the guards, because these compare a source with its translation, piece by piece.
    guarded = GuardedEngine(living, counts, Detector(())) if settings.guards else living
    return PiecewiseEngine(guarded)


def _construct(make: Maker, settings: Settings) -> Engine:
    """Construct an engine. Raises `EngineFault` if its profile or files cannot be read."""
    try:
        profile = profiles.load(settings.profile) if settings.profile else None
        return make(settings, profile)
    except OSError as exc:  # a file of the model or the profile
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


def cache_directory(settings: Settings) -> Path:
    """Return the directory of converted and fetched models."""
    given = settings.cache_dir
    return Path(given).expanduser() if given else model_files.user_cache()


def named(settings: Settings) -> Sequence[KnownModel]:
    """Return the models of the name in the settings that can be fetched; empty: none."""
    name = settings.model or ""
    # A directory of this name takes precedence.
    local = settings.engine != "ctranslate2" or Path(name).is_dir()
    return () if local else known_models.named().get(name, ())


def notice(model: KnownModel) -> str:
    """Return a sentence about a download: its size, address and licence."""
    return (
        f"{model.name} ({model.languages}) is {model.megabytes} MB from {model.address}, under the"
        f" licence {model.terms}."
    )


def fetch(model: KnownModel, cache: Path, say: Callable[[str], object] = logger.info) -> Path:
    """Return the directory of a model, after saying its size and licence, and fetching it."""
    from gateway.engines.fetched.install import install

    def report(file: str, came: int, size: int | None) -> None:
        of = "" if size is None else f" of {size / 1e6:.0f}"
        say(f"fetching {file}: {came / 1e6:.0f}{of} MB")

    if not model.directory(cache).is_dir():
        say(notice(model))
    return install(model, cache, report)


def _ctranslate2(settings: Settings, profile: Profile | None) -> Engine:
    from gateway.engines.ctranslate2.engine import CTranslate2Engine
    from gateway.engines.fetched.engine import FetchedEngine

    cache, models = cache_directory(settings), named(settings)
    names = ("compute_type", "inter_threads", "batch", "intra_threads")
    options = {name: getattr(settings, name) for name in names}
    if len(models) > 1:
        return _opus(models, settings, cache, options)
    if not models:
        options |= {"cache_dir": cache, "name": _name(settings)}
        return CTranslate2Engine(_directory(settings.model), profile, **options)
    (model,) = models
    if not model.directory(cache).is_dir() and not settings.download:
        raise EngineFault(
            f"{model.name} is not on this machine. {notice(model)}",
            hint=f"Allow that with --download, or fetch it now: gateway models fetch {model.name}.",
        )
    return FetchedEngine(model, cache, partial(fetch, model, cache), profile=profile, **options)


def _opus(
    every: Sequence[KnownModel], settings: Settings, cache: Path, options: dict[str, Any]
) -> Engine:
    """Construct the engine of OPUS-MT for any pair."""
    from gateway.engines.fetched.engine import OpusEngine

    models = {model.pair: model for model in every if model.pair is not None}
    if settings.download:
        return OpusEngine(models, cache, lambda model, say: fetch(model, cache, say), **options)
    models = {pair: model for pair, model in models.items() if model.directory(cache).is_dir()}
    if not models:
        raise EngineFault(
            f"No OPUS-MT model is on this machine, in {cache}.",
            hint="Allow fetching with --download, or fetch one now: gateway models fetch NAME.",
        )
    return OpusEngine(models, cache, None, **options)


def _openai(settings: Settings, profile: Profile | None) -> Engine:
    from gateway.engines.openai.engine import OpenAIEngine

    if settings.openai_url is None:
        flag = "--openai-url http://HOST:PORT/v1 or GATEWAY_OPENAI_URL"
        raise EngineFault(f"The openai engine needs the address of a server: {flag}.")
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
    from gateway.engines.vllm.engine import VllmEngine, VllmOptions

    if importlib.util.find_spec("vllm") is None:
        raise EngineFault("The vllm engine needs vLLM: pip install 'caption-gateway[vllm]'.")
    model = settings.model
    # vLLM downloads a hub id itself, but a directory of the same form takes precedence.
    if model is None or not _HUB_ID.fullmatch(model) or Path(model).exists():
        model = str(_directory(model))
    names = VllmOptions.__struct_fields__
    shared = {name: getattr(settings, name) for name in names if hasattr(settings, name)}
    options = VllmOptions(**shared, extra=settings.vllm or {})
    cache, name = cache_directory(settings), _name(settings)
    return VllmEngine(model, profile, options, cache_dir=cache, name=name)


_MAKERS: dict[str, Maker] = {
    "ctranslate2": _ctranslate2,
    "openai": _openai,
    "scripted": _scripted,
    "vllm": _vllm,
}


def _maker(name: str) -> Maker:
    """Return the function that constructs the engine of this name.

    It is one of this package, or what an entry point in the group ``caption_gateway.engines``
    refers to: a function of the settings, and of the profile that they name or None. It loads
    nothing, and raises `EngineFault` with a sentence for the operator.

    Raises `EngineFault` if there is no such engine, or it cannot be imported.
    """
    if name in _MAKERS:
        return _MAKERS[name]
    points = metadata.entry_points(group=ENGINE_POINTS)
    # `load_settings` has refused unknown names, but programs also construct `Settings` themselves.
    if name not in points.names:
        known = ", ".join(sorted({*_MAKERS, *points.names}))
        raise EngineFault(f"There is no engine {name!r}, only {known}.")
    point = points[name]
    try:
        maker: Maker = point.load()
    except (ImportError, AttributeError) as exc:
        raise EngineFault(f"The engine {name} ({point.value}) cannot be imported: {exc}.") from exc
    return maker


_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
"""Pattern of a model id, ``owner/name``. A relative directory may look the same."""


def _name(settings: Settings) -> str | None:
    return "embedded" if settings.model is None else None


def _directory(model: str | None) -> Path:
    """Return the directory of a model, by default the embedded one. Raises `EngineFault`."""
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
            f"There is no model directory {path}, and `gateway models` lists no such name. Name one"
            " that exists with --model or GATEWAY_MODEL."
        )
    return path


def build_recogniser(settings: Settings) -> Recogniser:
    """Construct the recogniser of ``settings``, and load nothing before `Recogniser.start`. Raises
    `EngineFault`, with a sentence for the operator.
    """
    kind, model = settings.recogniser_fallback, settings.recogniser_fallback_model
    primary = SupervisedRecogniser(partial(_recogniser, settings), insist=kind is not None)
    if kind is None:
        return primary
    # Two copies of one would fail for the same reason. `recogniser_workers` is for the first one.
    if (kind, model) == (settings.recogniser, settings.recogniser_model):
        raise EngineFault("The fallback of the recogniser is the same as the recogniser.")
    other = replace(settings, recogniser=kind, recogniser_model=model, recogniser_workers=None)
    secondary = SupervisedRecogniser(partial(_recogniser, other), insist=True)
    recogniser = FallbackRecogniser(primary, secondary)
    primary.changed = secondary.changed = recogniser.report
    return recogniser


def _recogniser(settings: Settings) -> Recogniser:
    """Construct one recogniser. Raises `EngineFault` if something is missing."""
    match settings.recogniser:
        case "openai":
            return _openai_recogniser(settings)
        case "whisper":
            return _whisper_recogniser(settings)
        case _:
            from gateway.engines.scripted import ScriptedRecogniser

            return ScriptedRecogniser()


def _openai_recogniser(settings: Settings) -> Recogniser:
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


def _whisper_recogniser(settings: Settings) -> Recogniser:
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
        download=settings.download,
    )
    return WhisperRecogniser(Path(model).name, load, workers=workers)
