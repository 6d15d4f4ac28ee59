"""Unstarted `CTranslate2Engine` objects around tiny models, for this engine's tests and others.

All translate English into German. None of them is told its profile by default, so that the rules
by which profiles are found are used as they are for real models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.engines.profiles import Profile
from tests.support import models


def make_llama(dir: Path, profile: Profile | None = None, **settings: Any) -> CTranslate2Engine:
    """Return an engine with a tiny embedded model; ``dir`` gets the model and its cache."""
    model = models.tiny_llama(dir / "embedded")
    return CTranslate2Engine(model, profile, cache_dir=dir / "cache", **settings)


def make_marian(dir: Path, profile: Profile | None = None, **settings: Any) -> CTranslate2Engine:
    """Return an engine with a tiny OPUS-MT model."""
    model = models.tiny_marian(dir / "opus-mt-en-de")
    return CTranslate2Engine(model, profile, cache_dir=dir / "cache", **settings)


def make_nllb(dir: Path, profile: Profile | None = None, **settings: Any) -> CTranslate2Engine:
    """Return an engine with a tiny NLLB model."""
    model = models.tiny_nllb(dir / "nllb")
    return CTranslate2Engine(model, profile, cache_dir=dir / "cache", **settings)
