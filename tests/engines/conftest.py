"""Every engine, for the tests of the contract; fixtures with tiny models."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.engines.base.engine import Engine
from gateway.engines.ctranslate2 import model
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.engines.profiles import Profile
from gateway.engines.registry import EMBEDDED
from gateway.engines.scripted import ScriptedEngine
from gateway.engines.wrappers.guarded import GuardedEngine
from gateway.engines.wrappers.piecewise import PiecewiseEngine
from gateway.engines.wrappers.pivot import PivotEngine
from gateway.engines.wrappers.route import EngineRoute
from gateway.engines.wrappers.routed import RoutedEngine
from gateway.engines.wrappers.supervised import Supervisor
from tests.engines.puppet import Puppet
from tests.engines.workshop import with_spare


class Backwards(dict[tuple[str, str], list[str]]):
    """A script that spells each word backwards, which no guard takes for a copy of the source."""

    def get(self, key: tuple[str, str], default: Any = None) -> Any:
        words = [word[::-1] for word in key[0].split()]
        return [words[0], *(f" {word}" for word in words[1:])]


@contextmanager
def scripted(dir: Path) -> Iterator[Engine]:
    yield ScriptedEngine(pace=0.001)


@contextmanager
def guarded(dir: Path) -> Iterator[Engine]:
    yield GuardedEngine(ScriptedEngine(Backwards(), pace=0.001), Counter())


@contextmanager
def piecewise(dir: Path) -> Iterator[Engine]:
    from tests.engines.ctranslate2_factory import make_llama

    yield PiecewiseEngine(make_llama(dir))


@contextmanager
def supervised(dir: Path) -> Iterator[Engine]:
    yield Supervisor(lambda: ScriptedEngine(pace=0.001))


@contextmanager
def fallback(dir: Path) -> Iterator[Engine]:
    yield with_spare(ScriptedEngine(pace=0.001), ScriptedEngine(pace=0.001))


@contextmanager
def fallen(dir: Path) -> Iterator[Engine]:
    first = ScriptedEngine(pace=0.001)
    first.start = never  # type: ignore[method-assign]
    yield with_spare(first, ScriptedEngine(pace=0.001))


class Legs(ScriptedEngine):
    """An engine that needs French between English and German."""

    def __init__(self) -> None:
        super().__init__(pace=0.001)
        pairs = (("en", "fr"), ("fr", "de"))
        self._profile = Profile(name="legs", kind="raw", languages=("en", "fr", "de"), pairs=pairs)


@contextmanager
def routed(dir: Path) -> Iterator[Engine]:
    yield RoutedEngine([EngineRoute(f"e{n}", ScriptedEngine(pace=0.001)) for n in range(2)])


@contextmanager
def pivoting(dir: Path) -> Iterator[Engine]:
    yield PivotEngine(Legs(), "fr")


@contextmanager
def pivoting_routed(dir: Path) -> Iterator[Engine]:
    routes = [
        EngineRoute("first", Legs(), pairs=(("en", "*"),)),
        EngineRoute("second", Legs(), pairs=(("fr", "de"),)),
    ]
    yield PivotEngine(RoutedEngine(routes), "fr")


async def never() -> None:
    await asyncio.Event().wait()


@contextmanager
def llama(dir: Path) -> Iterator[Engine]:
    from tests.engines.ctranslate2_factory import make_llama

    yield make_llama(dir)


@contextmanager
def shipped(dir: Path) -> Iterator[Engine]:
    """Give the model of the package, whose weights are trained.

    With int8 a draft that is checked at once is rounded otherwise than one token after the other,
    so that near ties of two words fall differently.
    """
    yield CTranslate2Engine(EMBEDDED, compute_type="float32")


@contextmanager
def marian(dir: Path) -> Iterator[Engine]:
    from tests.engines.ctranslate2_factory import make_marian

    yield make_marian(dir)


@contextmanager
def opus(dir: Path) -> Iterator[Engine]:
    from gateway.engines.fetched.engine import OpusEngine
    from gateway.engines.fetched.known_models import known
    from tests.support.models import tiny_marian

    model = known()["opus-mt-en-de"]
    model.directory(dir).parent.mkdir(exist_ok=True)
    tiny_marian(model.directory(dir))
    yield OpusEngine({("en", "de"): model}, dir, None)


@contextmanager
def openai(dir: Path) -> Iterator[Engine]:
    from tests.engines.openai_factory import make_engine

    with make_engine() as engine:
        yield engine


@contextmanager
def vllm(dir: Path) -> Iterator[Engine]:
    from tests.engines.vllm_factory import make_vllm, require
    from tests.support.models import tiny_llama

    require()
    yield make_vllm(tiny_llama(dir / "llama", head=32))


@contextmanager
def vllm_asked(dir: Path) -> Iterator[Engine]:
    """Give an engine that reads outputs from vLLM's generator instead of the direct path."""
    from tests.engines.vllm_factory import make_vllm, require
    from tests.support.models import tiny_llama

    require()
    yield make_vllm(tiny_llama(dir / "llama", head=32), feed=False)


ENGINES = {
    make.__name__: make
    for make in (
        *(scripted, guarded, piecewise, supervised, fallback, fallen),
        *(routed, pivoting, pivoting_routed),
        *(llama, shipped, marian, opus, openai, vllm, vllm_asked),
    )
}
MARKS = dict.fromkeys(("vllm", "vllm_asked"), (pytest.mark.vllm, pytest.mark.timeout(600)))
STARTS = dict.fromkeys(("vllm", "vllm_asked"), 540.0)
"""Seconds a start may take, where that is longer than a test."""


@pytest.fixture(scope="session")
def dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of tiny models, which are made and converted once for all tests."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def puppet(monkeypatch: pytest.MonkeyPatch) -> Puppet:
    """Return the model that every embedded engine uses in this test."""
    puppet = Puppet()
    monkeypatch.setattr(model, "load", lambda *_: puppet)
    return puppet
