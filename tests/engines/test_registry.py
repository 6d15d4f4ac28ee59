from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal

import pytest

from caption_gateway.testing import EngineContract
from gateway.engines import registry
from gateway.engines.base.engine import Engine
from gateway.engines.base.service import Health
from gateway.engines.ctranslate2.engine import BATCH
from gateway.engines.openai.engine import OpenAIEngine
from gateway.engines.registry import SERVER_BACKOFF_MAX
from gateway.engines.vllm.engine import VllmEngine
from gateway.engines.wrappers.guarded import GuardedEngine
from gateway.engines.wrappers.piecewise import PiecewiseEngine
from gateway.engines.wrappers.pivot import PivotEngine
from gateway.engines.wrappers.routed import RoutedEngine
from gateway.engines.wrappers.supervised import Supervisor
from gateway.errors import EngineFault
from gateway.job import Job
from gateway.settings.catalogue import EngineTable, Settings, SettingsError
from gateway.settings.loading import load
from gateway.settings.setting import ENGINES
from tests.engines.workshop import lane
from tests.support.models import tiny_llama


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a directory that looks like a model of one language pair and is never loaded."""
    path = tmp_path / "models" / "opus-mt-en-de"
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"model_type": "marian"}))
    return path


@pytest.fixture
def with_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())


def close(engine: Any) -> None:
    asyncio.run(engine.aclose())


def build(settings: Settings, counts: Counter[tuple[str, str]] | None = None) -> Engine:
    """Return the engine inside of the one that pivots."""
    engine = registry.build(settings, counts)
    assert isinstance(engine, PivotEngine)
    return engine.engine


def test_the_engine_is_supervised_inside_then_guarded_and_given_pieces(model: Path) -> None:
    engine = build(Settings(model=str(model)))
    assert isinstance(engine, PiecewiseEngine)
    assert isinstance(engine.engine, GuardedEngine)
    assert isinstance(engine.engine.engine, Supervisor)
    assert engine.health is Health.STARTING
    close(engine)


def test_guards_can_be_switched_off_and_count_into_the_given_mapping(model: Path) -> None:
    bare = build(Settings(model=str(model), guards=False))
    assert isinstance(bare, PiecewiseEngine)
    assert isinstance(bare.engine, Supervisor)
    close(bare)
    counts: Counter[tuple[str, str]] = Counter()
    engine = build(Settings(model=str(model)), counts)
    assert isinstance(engine, PiecewiseEngine)
    assert isinstance(engine.engine, GuardedEngine)
    assert engine.engine.counts is counts
    close(engine)


def test_the_scripted_engine_is_not_guarded() -> None:
    assert isinstance(build(Settings(engine="scripted")), Supervisor)


def test_a_fallback_engine_is_built_beside_the_chosen_one(model: Path) -> None:
    engine = build(Settings(model=str(model), fallback="scripted", hang_s=7))
    assert isinstance(engine, RoutedEngine)
    chosen, spare = engine.routes
    assert (chosen.spare, spare.spare) == (False, True)
    assert isinstance(chosen.engine, PiecewiseEngine)
    assert isinstance(chosen.engine.engine, GuardedEngine)
    living = chosen.engine.engine.engine
    assert isinstance(living, Supervisor) and isinstance(spare.engine, Supervisor)
    assert living.insist and living.hang == 7
    assert living.changed == spare.engine.changed == engine.update
    assert engine.name == chosen.name == "ctranslate2:opus-mt-en-de"
    assert spare.name == "ctranslate2:opus-mt-en-de.fallback"
    close(engine)


def test_the_embedded_model_can_take_over_from_a_server() -> None:
    url = "http://127.0.0.1:1/v1"
    engine = build(Settings(engine="openai", openai_url=url, model="qwen3", fallback="ctranslate2"))
    assert isinstance(engine, RoutedEngine)
    assert engine.routes[1].engine.name == "ctranslate2:embedded"
    close(engine)


def test_an_engine_cannot_be_its_own_fallback() -> None:
    with pytest.raises(EngineFault, match="same as the engine.*--fallback-model"):
        build(Settings(engine="scripted", fallback="scripted"))


async def test_a_scripted_engine_has_its_settings() -> None:
    async def test() -> str:
        engine = build(Settings(engine="scripted", scripted_pace=0, max_num_seqs=3))
        assert engine.capacity == 3
        await engine.start()
        job = Job(id="1", text="good morning", source="en", target="de")
        async with aclosing(engine.translate(job)) as chunks:
            text = "".join([chunk.text async for chunk in chunks])
        await engine.aclose()
        return text

    assert await test() == "[de] good morning"


def test_a_ctranslate2_engine_has_the_batch_size_of_its_settings(model: Path) -> None:
    engine = build(Settings(model=str(model), inter_threads=3, batch=5))
    assert engine.capacity == 15
    close(engine)


def test_a_ctranslate2_engine_is_built_from_its_directory(model: Path) -> None:
    engine = build(Settings(model=str(model), inter_threads=3, cache_dir="~/nowhere"))
    assert engine.name == "ctranslate2:opus-mt-en-de"
    assert engine.capacity == 3 * BATCH
    assert (engine.profile.sources, engine.profile.targets) == (("en",), ("de",))
    close(engine)


@pytest.mark.parametrize("engine", ["ctranslate2", "vllm"])
def test_an_installed_embedded_model_is_the_default(
    engine: Literal["ctranslate2", "vllm"],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    with_vllm: None,
) -> None:
    model = tiny_llama(tmp_path / "model")
    shape = {"vocab_size": 16384, "hidden_size": 512, "num_hidden_layers": 11}
    config = json.loads((model / "config.json").read_bytes())
    (model / "config.json").write_text(json.dumps(config | shape))
    monkeypatch.setattr(registry, "EMBEDDED", model)
    built = build(Settings(engine=engine))
    assert built.name == f"{engine}:embedded"
    assert built.profile.name == "embedded"
    close(built)


def test_without_an_embedded_model_the_fault_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "EMBEDDED", tmp_path)
    with pytest.raises(EngineFault, match="--model DIR or GATEWAY_MODEL.*--engine scripted"):
        build(Settings())


def test_a_profile_can_be_named(model: Path) -> None:
    engine = build(Settings(model=str(model), profile="nllb"))
    assert engine.profile.name == "nllb"
    close(engine)


def test_a_model_server_is_supervised_and_retried_sooner_than_other_engines() -> None:
    url = "http://127.0.0.1:1/v1"
    settings = Settings(engine="openai", openai_url=url, model="qwen3", max_num_seqs=5, hang_s=7)
    engine = build(settings)
    assert isinstance(engine, PiecewiseEngine)
    assert isinstance(engine.engine, GuardedEngine)
    living = engine.engine.engine
    assert isinstance(living, Supervisor)
    assert isinstance(living.engine, OpenAIEngine)
    assert (living.hang, living.engine._read_timeout, living.max_backoff) == (
        7,
        7,
        SERVER_BACKOFF_MAX,
    )
    assert (engine.name, engine.capacity) == ("openai:qwen3", 5)
    close(engine)


def test_a_vllm_engine_is_built_from_a_directory_or_a_hub_id(model: Path, with_vllm: None) -> None:
    for name in (str(model), "somebody/opus-mt-en-de"):
        engine = build(Settings(engine="vllm", model=name, max_num_seqs=5, guards=False))
        assert isinstance(engine, PiecewiseEngine)
        assert isinstance(engine.engine, Supervisor)
        assert isinstance(engine.engine.engine, VllmEngine)
        assert (engine.name, engine.capacity) == ("vllm:opus-mt-en-de", 5)


def test_arguments_for_vllm_override_those_of_the_gateway(model: Path, with_vllm: None) -> None:
    engine = build(Settings(engine="vllm", model=str(model), vllm={"max_num_seqs": 2}))
    assert engine.capacity == 2


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"model": "nowhere"}, "no model directory nowhere.*--model"),
        ({"model": "owner/name"}, "no model directory owner/name"),
        ({"engine": "vllm", "model": "./owner/name"}, "no model directory owner/name"),
        ({"engine": "openai"}, "--openai-url .* GATEWAY_OPENAI_URL"),
        ({"engine": "openai", "openai_url": "there"}, "must look like http://host:port"),
        ({"engine": "scripted", "profile": "nonesuch"}, "no profile 'nonesuch'"),
        ({"engine": "scripted", "profile": "/nowhere/own.toml"}, "No such file"),
    ],
)
def test_a_missing_model_or_package_is_named_in_the_fault(
    settings: dict[str, Any], says: str, with_vllm: None
) -> None:
    with pytest.raises(EngineFault, match=says):
        build(Settings(**settings))


def test_a_model_file_that_cannot_be_read_is_named_in_the_fault(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    says = f"^{tmp_path}/config.json cannot be read: Is a directory. Check --model"
    with pytest.raises(EngineFault, match=says):
        build(Settings(model=str(tmp_path)))


def test_a_model_without_a_profile_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EngineFault, match="--profile"):
        build(Settings(model=str(tmp_path)))


def test_a_missing_vllm_is_reported_with_the_command_that_installs_it(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EngineFault, match=r"needs vLLM: pip install 'caption-gateway\[vllm\]'"):
        build(Settings(engine="vllm", model=str(model)))


# --- several engines ---------------------------------------------------------------------------


def several(*tables: EngineTable, **settings: Any) -> RoutedEngine:
    engine = build(Settings(engines=tables, **settings))
    assert isinstance(engine, RoutedEngine)
    return engine


def test_each_engine_table_becomes_an_engine_with_its_own_wrappers(model: Path) -> None:
    engine = several(
        EngineTable(
            name="german", pairs=(("en", "de"),), weight=2.0, settings=Settings(model=str(model))
        ),
        EngineTable(name="rest", settings=Settings(engine="scripted")),
    )
    german, rest = engine.routes
    assert (german.name, german.weight, rest.name, rest.weight) == ("german", 2.0, "rest", 1.0)
    assert isinstance(german.engine, PiecewiseEngine)
    assert isinstance(german.engine.engine, GuardedEngine)
    living = german.engine.engine.engine
    assert isinstance(living, Supervisor) and living.insist
    assert living.changed == engine.update
    assert german.takes("en", "de") and not german.takes("de", "en")
    assert lane(engine) == ()
    close(engine)


def test_the_gpus_of_an_engine_are_arguments_of_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    made = Settings(engine="vllm", model="owner/eurollm", vllm={"seed": 1})
    made_of = [
        route.engine.engine.engine.engine  # type: ignore[attr-defined]
        for route in several(
            EngineTable(name="a", gpus=(1,), settings=made),
            EngineTable(name="b", gpus=(2, 3), settings=made),
            EngineTable(name="c", settings=made),
        ).routes
    ]
    args = [one._engine_args for one in made_of]
    assert [one._gpus for one in made_of] == [(1,), (2, 3), ()]
    assert [one.get("tensor_parallel_size") for one in args] == [1, 2, None]
    assert {one["seed"] for one in args} == {1} and "device_ids" not in args[0]


@pytest.mark.parametrize("pair", [("en", "fr"), ("*", "fr"), ("de", "*")])
def test_a_pair_that_the_model_of_its_engine_lacks_is_refused(
    model: Path, pair: tuple[str, str]
) -> None:
    table = EngineTable(name="german", pairs=(pair,), settings=Settings(model=str(model)))
    says = f"The engine german is to translate from {pair[0]} into {pair[1]}, but"
    with pytest.raises(EngineFault, match=re.escape(says)):
        several(table)


def test_a_fault_of_one_of_several_engines_names_it() -> None:
    with pytest.raises(EngineFault, match="^The engine 東京: The openai engine needs the address"):
        several(EngineTable(name="東京", settings=Settings(engine="openai")))


def test_the_pairs_of_a_model_server_are_known_when_it_has_started() -> None:
    there = Settings(engine="openai", openai_url="http://127.0.0.1:1/v1")
    engine = several(EngineTable(name="far", pairs=(("en", "tlh"),), settings=there))
    assert not engine.profile.sources
    close(engine)


def test_an_engine_of_several_can_have_its_own_fallback(model: Path) -> None:
    engine = several(
        EngineTable(name="a", settings=Settings(model=str(model), fallback="scripted")),
        EngineTable(name="b", settings=Settings(engine="scripted")),
    )
    assert [route.name for route in engine.routes] == ["a", "a.fallback", "b"]
    assert [route.spare for route in engine.routes] == [False, True, False]
    close(engine)


def test_the_pivot_can_be_another_language_or_none() -> None:
    german = registry.build(Settings(engine="scripted", pivot="DE"))
    assert isinstance(german, PivotEngine) and german.pivot == "de"
    assert isinstance(registry.build(Settings(engine="scripted", pivot="off")), Supervisor)
    with pytest.raises(EngineFault, match="`?` is not a language tag. Check --pivot"):
        registry.build(Settings(engine="scripted", pivot="?"))


def test_the_embedded_model_translates_all_thirty_directions_of_its_languages() -> None:
    profile = registry.build(Settings()).profile
    pairs = [(one, other) for one in profile.sources for other in profile.targets if one != other]
    assert len(pairs) == 30
    assert all(profile.supports(*pair) for pair in pairs)
    assert sum(profile.pivots(*pair) for pair in pairs) == 20


FAILING = """
from caption_gateway.engines import EngineFault
from word_book import WordBook
from word_book import make as make_word_book


class Failing(WordBook):
    async def generate(self, job):
        raise EngineFault("The word book is closed.")
        yield


def make(settings, profile):
    made = make_word_book(settings, profile)
    return Failing("failing", made.profile, made.capacity)
"""


@pytest.fixture
def word_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the package of the how-to page, as pip would, and one that fails."""
    example = how_to_write_an_engine()[0]
    (tmp_path / "word_book.py").write_text(example)
    (tmp_path / "failing.py").write_text(FAILING)
    info = tmp_path / "word_book-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: word-book\nVersion: 1.0\n")
    points = ["words = word_book:make", "failing = failing:make", "broken = word_book:absent"]
    (info / "entry_points.txt").write_text("\n".join(["[caption_gateway.engines]", *points]))
    monkeypatch.syspath_prepend(tmp_path)


def how_to_write_an_engine() -> list[str]:
    """Return the Python programs of the how-to page: the engine, and its tests."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "write-engine.md"
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


JOB = Job(id="1", text="Good morning", source="en", target="de")


async def translate(engine: Engine) -> str:
    await engine.start()
    try:
        async with aclosing(engine.translate(JOB)) as chunks:
            return "".join([chunk.text async for chunk in chunks])
    finally:
        await engine.aclose()


@pytest.mark.usefixtures("word_book")
async def test_an_engine_of_another_package_is_guarded_and_supervised_like_the_own() -> None:
    engine = build(load({"engine": "words"}, {}).settings)
    assert isinstance(engine, PiecewiseEngine)
    assert isinstance(engine.engine, GuardedEngine)
    assert isinstance(engine.engine.engine, Supervisor)
    assert await translate(engine) == "guten Morgen"


@pytest.mark.usefixtures("word_book")
async def test_a_fault_of_an_engine_of_another_package_reaches_the_caller() -> None:
    with pytest.raises(EngineFault, match="The word book is closed"):
        await translate(build(load({"engine": "failing"}, {}).settings))


@pytest.mark.usefixtures("word_book")
def test_an_engine_that_there_is_not_is_named_with_those_that_there_are() -> None:
    names = ", ".join(sorted((*ENGINES, "broken", "failing", "words")))
    with pytest.raises(EngineFault, match=f"no engine 'wrods', only {names}\\."):
        build(Settings(engine="wrods"))


@pytest.mark.usefixtures("word_book")
def test_an_engine_that_cannot_be_imported_is_named_with_the_reason() -> None:
    with pytest.raises(EngineFault, match=r"broken \(word_book:absent\) cannot be imported"):
        build(load({"engine": "broken"}, {}).settings)


@pytest.mark.usefixtures("word_book")
def test_an_engine_of_another_package_can_be_a_fallback_and_vllm_cannot() -> None:
    assert load({"fallback": "words"}, {}).settings.fallback == "words"
    with pytest.raises(SettingsError, match="--fallback cannot be 'vllm'"):
        load({"fallback": "vllm"}, {})


def test_the_tests_of_the_how_to_page_pass_for_its_engine(tmp_path: Path) -> None:
    engine, tests = how_to_write_an_engine()
    (tmp_path / "word_book.py").write_text(engine)
    (tmp_path / "test_word_book.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    contract = [name for name in vars(EngineContract) if name.startswith("test_")]
    assert f"{len(contract)} passed" in run.stdout
