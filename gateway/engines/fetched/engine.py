"""The embedded engine with a model that is fetched at the start.

Owns: that order. Must not know: where the model comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.engines import profiles
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.engines.fetched.known import KnownModel
from gateway.errors import EngineFault

if TYPE_CHECKING:
    from gateway.engines.ctranslate2.model import TranslationModel


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
