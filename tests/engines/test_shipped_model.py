"""The shipped model gives the same text behind every engine, and behind all wrappers of one.

Most tests of engines use tiny models of random weights, of which no output can be wrong. A part of
an engine that garbles text is seen here: the reference is CTranslate2's plain translation of the
sentences in `tests/quality`. vLLM is compared by `benchmarks.check`, as on a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks import check
from gateway.engines import profiles, registry
from gateway.engines.base.engine import Engine
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.engines.openai.engine import OpenAIEngine
from gateway.engines.wrappers.guarded import GuardedEngine
from gateway.engines.wrappers.piecewise import PiecewiseEngine
from gateway.engines.wrappers.pivot import PivotEngine
from gateway.engines.wrappers.route import EngineRoute
from gateway.engines.wrappers.routed import RoutedEngine
from gateway.engines.wrappers.supervised import Supervisor
from gateway.job import Job
from gateway.settings import setting
from gateway.settings.catalogue import Settings
from tests.engines.openai_server import Script, Server
from tests.engines.vllm_factory import SETTINGS, make_vllm, require
from tests.engines.workshop import with_spare
from tests.quality import SETS, captions, lines

FEW = 10
"""Sentences of each direction in the tests that run everywhere."""

Texts = Mapping[tuple[str, str], str]
"""Translations of CTranslate2 by source text and target."""


def jobs(directions: Sequence[str], most: int | None = None) -> list[Job]:
    return [
        Job(id=f"{name} {direction} {number}", text=text, source=source, target=target)
        for name in SETS
        for direction in directions
        for source, target in [direction.split("-")]
        for number, text in enumerate(lines(name, source)[:most])
    ]


def plain() -> CTranslate2Engine:
    return CTranslate2Engine(registry.EMBEDDED, profiles.load("embedded"), name="embedded")


@pytest.fixture
async def texts() -> AsyncIterator[dict[str, str]]:
    """Return CTranslate2's translation of each job from English into German, by id."""
    yield await captions(plain(), jobs(["en-de"], FEW))


def by_registry(stack: ExitStack, texts: Texts) -> Engine:
    return registry.build(Settings())


def by_server(stack: ExitStack, texts: Texts) -> Engine:
    """Return the engine of a server that has the shipped model."""

    def translate(body: dict[str, Any]) -> Script:
        said = body["messages"][-1]["content"]
        ((source, _),) = [key for key in texts if f"<source>{key[0]}</source>" in said]
        text = texts[source, "de"]
        return Script(pieces=[text[at : at + 3] for at in range(0, len(text), 3)])

    server = stack.enter_context(Server(default=translate))
    return OpenAIEngine(server.url, profile=profiles.load("chat"))


ENGINES: dict[str, Callable[[ExitStack, Texts], Engine]] = {
    "ctranslate2": by_registry,
    "openai": by_server,
}
WITHOUT_A_MODEL = {"scripted"}
BY_VLLM = {"vllm"}
"""Engines of the test at the end of this module."""

WRAPPERS: dict[str, Callable[[], Engine]] = {
    "guarded": lambda: GuardedEngine(plain(), Counter()),
    "piecewise": lambda: PiecewiseEngine(plain()),
    "supervised": lambda: Supervisor(plain),
    "fallback": lambda: with_spare(plain(), plain()),
    "routed": lambda: RoutedEngine([EngineRoute(f"e{n}", plain()) for n in range(2)]),
    "pivot": lambda: PivotEngine(plain(), "en"),
}


def test_every_engine_of_this_package_is_tested_with_the_shipped_model() -> None:
    assert {*ENGINES, *WITHOUT_A_MODEL, *BY_VLLM} == set(registry._MAKERS)


def test_every_engine_of_this_package_can_be_chosen_by_the_setting() -> None:
    assert set(setting.ENGINES) == set(registry._MAKERS)


@pytest.mark.parametrize("name", ENGINES)
async def test_an_engine_gives_the_text_of_the_shipped_model(
    name: str, texts: dict[str, str]
) -> None:
    asked = jobs(["en-de"], FEW)
    known = {(job.text, job.target): texts[job.id] for job in asked}
    with ExitStack() as stack:
        assert await captions(ENGINES[name](stack, known), asked) == texts


@pytest.mark.parametrize("name", WRAPPERS)
async def test_a_wrapper_leaves_the_text_of_the_shipped_model_as_it_is(
    name: str, texts: dict[str, str]
) -> None:
    assert await captions(WRAPPERS[name](), jobs(["en-de"], FEW)) == texts


async def test_two_steps_give_the_text_of_two_translations() -> None:
    first = await captions(plain(), jobs(["de-en"], FEW))
    second = [
        Job(id=job.id, text=first[job.id], source="en", target="fr") for job in jobs(["de-en"], FEW)
    ]
    both = [Job(id=job.id, text=job.text, source="de", target="fr") for job in jobs(["de-en"], FEW)]
    assert await captions(PivotEngine(plain(), "en"), both) == await captions(plain(), second)


async def test_a_draft_and_a_forced_beginning_change_no_letter(texts: dict[str, str]) -> None:
    whole = [
        Job(id=job.id, text=job.text, source="en", target="de", draft=texts[job.id])
        for job in jobs(["en-de"], FEW)
    ]
    assert await captions(plain(), whole) == texts
    begun = {
        id: text[: text.find(" ", len(text) // 2)] for id, text in texts.items() if " " in text
    }
    rest = [
        Job(id=job.id, text=job.text, source="en", target="de", prefix=begun[job.id])
        for job in jobs(["en-de"], FEW)
        if begun.get(job.id)
    ]
    made = await captions(plain(), rest)
    assert {id: begun[id] + text for id, text in made.items()} == {id: texts[id] for id in made}


@pytest.mark.vllm
@pytest.mark.timeout(900)
async def test_vllm_gives_the_captions_of_ctranslate2(tmp_path: Path) -> None:
    require()
    many = SETTINGS | {
        "max_num_seqs": check.STREAMS,
        "extra": {"kv_cache_memory_bytes": 512 * 2**20},
    }
    engine = make_vllm(registry.EMBEDDED, cache_dir=tmp_path, **many)
    # A quarter of the cases takes a minute, not four; one of 50 may be a near tie.
    report = await check.check(engine, await check.cases(25))
    assert report.passed, report
