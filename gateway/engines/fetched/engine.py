"""The embedded engine with models that are fetched: one at the start, or one for each pair.

Owns: when a model is fetched, and which ones are in memory. Must not know: where they come from.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gateway.engines import profiles
from gateway.engines.base.engine import Sink, refuse
from gateway.engines.base.service import Health
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.engines.fetched.known import OPUS, KnownModel
from gateway.engines.profiles import Profile
from gateway.errors import EngineFault, EngineGone, ErrorCode, JobFault
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


class FetchedEngine(CTranslate2Engine):
    """A `CTranslate2Engine` with a known model.

    :param cache: directory of converted and fetched models
    :param fetch: makes the directory of the model, if it is not there. Blocks
    :param options: more parameters of `CTranslate2Engine`
    """

    def __init__(
        self, model: KnownModel, cache: Path, fetch: Callable[[], object], **options: Any
    ) -> None:
        options["profile"] = options.get("profile") or profiles.match(model.name)
        super().__init__(model.directory(cache), cache_dir=cache, **options)
        self._fetch = fetch

    def _load(self) -> TranslationModel:
        try:
            self._fetch()
        except OSError as exc:
            why = f"{exc.filename}: {exc.strerror or exc}"
            raise EngineFault(f"{self._path.name} could not be fetched: {why}.") from exc
        return super()._load()


class OpusEngine(CTranslate2Engine):
    """A `CTranslate2Engine` with a model for each language pair.

    The model of a pair is fetched when the pair is first asked for, and loaded for its first job.
    Fetches follow one another, because each takes the whole line and half a gigabyte of memory.

    :param models: the models by language pair
    :param cache: directory of converted and fetched models
    :param fetch: makes the directory of a model, and calls the given function with lines about the
        progress. Blocks. None: no model is fetched
    :param options: more parameters of `CTranslate2Engine`
    """

    def __init__(
        self,
        models: Mapping[Pair, KnownModel],
        cache: Path,
        fetch: Callable[[KnownModel, Callable[[str], object]], object] | None,
        **options: Any,
    ) -> None:
        tags = tuple(dict.fromkeys(tag for pair in models for tag in pair))
        profile = replace(profiles.load(OPUS), languages=tags, pairs=tuple(models))
        super().__init__(cache / OPUS, profile, cache_dir=cache, **options)
        self._models = models
        self._fetch = fetch
        self._here = {pair for pair, model in models.items() if model.directory(cache).is_dir()}
        self._asked: dict[Pair, float] = {}  # pairs that are being fetched, or when again
        self._fetching = threading.Lock()

    def serves(self, source: str, target: str) -> bool:
        known = super().serves(source, target)
        return known and self._profile.resolve(source, target) in self._here

    def prepare(self, source: str, target: str) -> None:
        pair = self._profile.resolve(source, target)
        known = pair in self._here or self._asked.get(pair, 0.0) > time.monotonic()
        if known or self._fetch is None or self.health is not Health.READY:
            return
        self._asked[pair] = float("inf")
        # A daemon: a fetch that is cut off by the end of the process continues there next time.
        work = (pair, asyncio.get_running_loop())
        threading.Thread(target=self._get, args=work, name="fetch", daemon=True).start()

    def submit(self, job: Job, sink: Sink) -> None:
        if self.health is not Health.READY or self.serves(job.source, job.target):
            super().submit(job, sink)
            return
        self.prepare(job.source, job.target)
        what = f"The model for {job.source} to {job.target} is not on this machine yet."
        hint = "It is fetched by itself; try again in a minute."
        refuse(sink, JobFault(what, ErrorCode.ENGINE_UNAVAILABLE, hint))

    def _fetched(self, pair: Pair, fault: str | None) -> None:
        if fault is None:
            self._here.add(pair)
            del self._asked[pair]
            self.changed()
        else:
            logger.warning("%s is not available: %s", self._models[pair].name, fault)
            self._asked[pair] = time.monotonic() + RETRY_S

    # The methods below run in threads.

    def _get(self, pair: Pair, loop: asyncio.AbstractEventLoop) -> None:
        """Fetch the model of a pair."""

        def say(line: str) -> None:
            if self.health is Health.CLOSED:
                raise EngineGone(f"{self.name} was closed.")
            logger.info("%s", line)

        assert self._fetch is not None
        fault: str | None = None
        try:
            with self._fetching:
                say(f"{self._models[pair].name} is asked for")
                self._fetch(self._models[pair], say)
        except (EngineFault, OSError) as exc:
            fault = str(exc)
        except Exception as exc:
            logger.error("a fetch failed", exc_info=exc)
            fault = type(exc).__name__
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._fetched, pair, fault)

    def _load(self) -> TranslationModel:
        return LoadedModels(self._load_pair)

    def _load_pair(self, pair: Pair) -> TranslationModel:
        return self._load_from(self._models[pair].directory(self._cache))


class LoadedModels:
    """A `TranslationModel` of one model for each pair, of which the last used are in memory.

    :param load: loads the model of a pair. Blocks
    :param clock: returns the time in seconds; tests replace it
    """

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
