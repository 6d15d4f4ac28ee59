"""The embedded engine with models that are fetched: one at the start, or one for each pair.

Owns: when a model is fetched, and which ones are in memory. Must not know: where they come from.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gateway.engines import profiles
from gateway.engines.base.engine import Sink, refuse
from gateway.engines.base.service import Health
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.engines.fetched.known_models import OPUS, KnownModel
from gateway.engines.profiles import Profile
from gateway.errors import EngineFault, EngineGone, ErrorCode, JobFault
from gateway.io.tasks import BackgroundTasks
from gateway.job import Job

if TYPE_CHECKING:
    from gateway.engines.ctranslate2.decode_job import DecodeSink
    from gateway.engines.ctranslate2.model import TranslationModel

logger = logging.getLogger(__name__)

LOADED = 8
"""Models in memory. An OPUS-MT model takes about 110 MB, and half a second to load."""

IN_USE_S = 600.0
"""Seconds after its last job for which a model stays in memory, also beyond `LOADED`."""

RETRY_S = 60.0
"""Seconds after which a failed fetch may begin again, if somebody still asks for the pair."""

Pair = tuple[str, str]

Say = Callable[[str], object]
"""A function that is told lines about the progress of a fetch."""


class FetchedEngine(CTranslate2Engine):
    """A `CTranslate2Engine` with a known model. ``fetch`` makes its directory, and blocks."""

    def __init__(
        self, model: KnownModel, cache: Path, fetch: Callable[[Say], object], **options: Any
    ) -> None:
        options["profile"] = options.get("profile") or profiles.match(model.name)
        super().__init__(model.directory(cache), cache_dir=cache, **options)
        self._fetch = fetch

    async def start(self) -> None:
        self._require_health(Health.STARTING)
        try:
            await _fetching(self, self._fetch)
        except EngineFault:
            self._set_health(Health.DEAD)
            raise
        await super().start()


class OpusEngine(CTranslate2Engine):
    """A `CTranslate2Engine` with a model for each language pair.

    The model of a pair is fetched when the pair is first asked for, and loaded for its first job.
    Fetches follow one another, because each takes the whole line and half a gigabyte of memory.

    :param fetch: makes the directory of a model. Blocks. None: no model is fetched
    """

    def __init__(
        self,
        models: Mapping[Pair, KnownModel],
        cache: Path,
        fetch: Callable[[KnownModel, Say], object] | None,
        **options: Any,
    ) -> None:
        tags = tuple(dict.fromkeys(tag for pair in models for tag in pair))
        profile = replace(profiles.load(OPUS), languages=tags, pairs=tuple(models))
        super().__init__(cache / OPUS, profile, cache_dir=cache, **options)
        self._models = models
        self._fetch = fetch
        self._here: set[Pair] = set()
        self._asked: dict[Pair, float] = {}  # pairs that are being fetched, or when again
        self._turn = asyncio.Lock()
        self._fetches = BackgroundTasks(logger, "a fetch failed")

    async def start(self) -> None:
        models = self._models.items()
        self._here = {pair for pair, model in models if model.directory(self._cache).is_dir()}
        await super().start()

    def serves(self, source: str, target: str) -> bool:
        known = super().serves(source, target)
        return known and self._profile.resolve(source, target) in self._here

    def prepare(self, source: str, target: str) -> None:
        pair = self._profile.resolve(source, target)
        known = pair in self._here or self._asked.get(pair, 0.0) > time.monotonic()
        if known or self._fetch is None or self.health is not Health.READY:
            return
        self._asked[pair] = float("inf")
        self._fetches.start(self._get(pair))

    def submit(self, job: Job, sink: Sink) -> None:
        if self.health is not Health.READY or self.serves(job.source, job.target):
            super().submit(job, sink)
            return
        self.prepare(job.source, job.target)
        what = f"The model for {job.source} to {job.target} is not on this machine yet."
        hint = "It is fetched by itself; try again in a minute."
        refuse(sink, JobFault(what, ErrorCode.ENGINE_UNAVAILABLE, hint))

    async def aclose(self) -> None:
        await self._fetches.aclose()
        await super().aclose()

    async def _get(self, pair: Pair) -> None:
        """Fetch the model of a pair."""
        assert self._fetch is not None
        model = self._models[pair]
        try:
            async with self._turn:
                logger.info("%s is asked for", model.name)
                await _fetching(self, partial(self._fetch, model))
        except EngineFault as fault:
            logger.warning("%s is not available: %s", model.name, fault)
            self._asked[pair] = time.monotonic() + RETRY_S
        else:
            self._here.add(pair)
            del self._asked[pair]
            self.changed()

    # The methods below run in threads.

    def _load(self) -> TranslationModel:
        folders = {pair: model.directory(self._cache) for pair, model in self._models.items()}
        return LoadedModels(lambda pair: self._load_from(folders[pair]))


async def _fetching(engine: CTranslate2Engine, fetch: Callable[[Say], object]) -> None:
    """Fetch in a thread that ends with the process: the next fetch continues there. Raises
    `EngineFault`.
    """

    def say(line: str) -> None:
        if engine.health is Health.CLOSED:
            raise EngineGone(f"{engine.name} was closed.")
        logger.info("%s", line)

    def work() -> None:
        try:
            fetch(say)
        except EngineFault as fault:
            done.set_exception(fault)
        except OSError as exc:
            done.set_exception(EngineFault(f"{exc}."))
        except Exception as exc:
            logger.error("a fetch failed", exc_info=exc)
            done.set_exception(EngineFault(type(exc).__name__))
        else:
            done.set_result(None)

    done: Future[None] = Future()
    done.set_running_or_notify_cancel()
    threading.Thread(target=work, name="fetch", daemon=True).start()
    await asyncio.wrap_future(done)


class LoadedModels:
    """A `TranslationModel` of one model for each pair, of which the last used are in memory."""

    def __init__(
        self,
        load: Callable[[Pair], TranslationModel],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._clock = clock
        self._models: dict[Pair, tuple[float, TranslationModel]] = {}  # the last used at the end
        self._lock = threading.Lock()

    def decode(self, sinks: Sequence[DecodeSink], profile: Profile, beam: int = 1) -> None:
        groups: dict[Pair, list[DecodeSink]] = {}
        for sink in sinks:
            pair = profile.resolve(sink.job.source, sink.job.target)
            groups.setdefault(pair, []).append(sink)
        for pair, group in groups.items():
            try:
                model = self._model(pair)
            except EngineFault as fault:
                for sink in group:
                    sink.end(fault=fault)
            else:
                model.decode(group, profile, beam)

    def _model(self, pair: Pair) -> TranslationModel:
        """Return the model of a pair. Raises `EngineFault` if it cannot be loaded."""
        # Two jobs that are the first of one pair must not load it twice.
        with self._lock:
            now = self._clock()
            _, model = self._models.pop(pair, (now, None))
            if model is None:
                model = self._load(pair)
            self._models[pair] = now, model
            # A thread that still decodes with a model that is dropped keeps it until then.
            for other in [*self._models][:-LOADED]:
                if now - self._models[other][0] > IN_USE_S:
                    del self._models[other]
            return model
