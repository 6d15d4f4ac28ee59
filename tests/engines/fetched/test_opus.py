"""Tests of OPUS-MT for any pair: models that are fetched and loaded when a pair is first used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.cli.main import main
from gateway.engines import profiles, registry
from gateway.engines.base.engine import Engine
from gateway.engines.base.service import Health
from gateway.engines.fetched import engine as module
from gateway.engines.fetched import known_models as catalogue
from gateway.engines.fetched.engine import IN_USE_S, LOADED, LoadedModels, OpusEngine
from gateway.engines.fetched.install import install
from gateway.engines.fetched.known_models import KnownModel, known
from gateway.errors import EngineFault, ErrorCode, JobFault
from gateway.job import Job
from gateway.settings.catalogue import Settings
from tests.engines.fetched.hub import Hub, opus_archive, served
from tests.engines.reading import read, started, tried
from tests.engines.workshop import substitutes
from tests.support.live import running, until
from tests.support.talk import Talk, talk

PAIRS = [("en", "de"), ("de", "en"), ("en", "it"), ("fr", "en"), ("de", "it")]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return opus_archive(tmp_path_factory.mktemp("opus") / "files")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, archive: bytes) -> Iterator[Hub]:
    """Return a hub with the models of `PAIRS`, in place of the real addresses."""
    with served() as hub:
        models = {}
        for source, target in PAIRS:
            name = f"opus-mt-{source}-{target}"
            model = known().get(name) or msgspec.structs.replace(
                known()["opus-mt-en-de"], name=name, pair=(source, target)
            )
            hub.files[f"{name}.zip"] = archive
            files = {"model.zip": f"{hub.address}/cdn/{name}.zip"}
            models[name] = msgspec.structs.replace(model, files=files, sha256="")
        monkeypatch.setattr(catalogue, "known", lambda: models)
        yield hub


def job(source: str = "en", target: str = "de", id: str = "j") -> Job:
    return Job(id=id, text="good morning everybody", source=source, target=target)


def build(cache: Path, *, download: bool = True, **fields: Any) -> Engine:
    return registry.build(
        Settings(model="opus-mt", cache_dir=str(cache), download=download, guards=False, **fields)
    )


def asked(hub: Hub) -> list[str]:
    """Return the names of the archives that were asked for."""
    return [path.rpartition("/")[2].removesuffix(".zip") for path, _ in hub.asked]


async def events(peer: Talk, until: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Yield the events before one."""
    while (event := await peer.next()) != until:
        yield event


async def test_the_shipped_model_translates_until_the_model_of_a_pair_is_there(
    hub: Hub, tmp_path: Path
) -> None:
    engine = build(tmp_path)
    async with started(engine):
        told = substitutes(engine)
        assert (engine.name, engine.substitute, hub.asked) == ("ctranslate2:opus-mt", None, [])
        assert "Morgen" in await read(engine, job())
        await until(lambda: len(told) == 2)
        assert told == ["ctranslate2:opus-mt, ctranslate2:embedded", None]
        assert "Morgen" not in await read(engine, job()), "its weights are random"
        assert asked(hub) == ["opus-mt-en-de"]


async def test_the_model_of_a_pair_is_fetched_when_its_first_reader_comes(
    hub: Hub, tmp_path: Path
) -> None:
    async with running(build(tmp_path)) as live, AsyncExitStack() as stack:
        await tried(live.engine)
        speaker = await stack.enter_async_context(talk(live, "?room=walk&from=en"))
        reader = await stack.enter_async_context(talk(live, "?room=walk&to=de&role=view"))
        for peer in (speaker, reader):
            told = [
                event async for event in events(peer, until={"type": "degraded", "partials": "on"})
            ]
            assert told[0]["type"] == "welcome"
            substitutes = [event["engine"] for event in told if event["type"] == "degraded"]
            assert substitutes == ["ctranslate2:opus-mt, ctranslate2:embedded"]
        assert asked(hub) == ["opus-mt-en-de"], "nobody has said anything"


async def test_many_first_jobs_of_a_pair_fetch_its_model_once(hub: Hub, tmp_path: Path) -> None:
    engine = build(tmp_path)
    async with started(engine):
        jobs = [job(id=f"j{n}") for n in range(8)] + [job("de", "en", id=f"k{n}") for n in range(8)]
        await asyncio.gather(*(read(engine, each) for each in jobs))
        await until(lambda: engine.substitute is None)
        await asyncio.gather(*(read(engine, each) for each in jobs))
    assert sorted(asked(hub)) == ["opus-mt-de-en", "opus-mt-en-de"]


async def test_a_pair_without_a_model_is_translated_through_english(
    hub: Hub, tmp_path: Path
) -> None:
    engine = build(tmp_path)
    assert engine.profile.pivots("fr", "it") and not engine.profile.pivots("de", "it")
    async with started(engine):
        with pytest.raises(EngineFault, match="No engine is ready to translate"):
            await read(engine, job("fr", "it"))
        await until(lambda: engine.serves("fr", "it"))
        await read(engine, job("fr", "it"))
    assert sorted(asked(hub)) == ["opus-mt-en-it", "opus-mt-fr-en"]


def test_one_text_waits_for_the_models_of_both_steps(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--model", "opus-mt", "--download", "--cache-dir", str(tmp_path), "--no-guards"]
    assert main(["say", "bonjour tout le monde", "--from", "fr", "--to", "it", *flags]) == 0
    assert capsys.readouterr().out.strip()
    assert sorted(asked(hub)) == ["opus-mt-en-it", "opus-mt-fr-en"]


async def test_a_direct_model_is_fetched_while_the_shipped_one_takes_two_steps(
    hub: Hub, tmp_path: Path
) -> None:
    engine = build(tmp_path)
    async with started(engine):
        for pair in (("de", "en"), ("en", "it")):
            engine.prepare(*pair)
            await until(lambda pair=pair: engine.serves(*pair))  # type: ignore[misc]
        await read(engine, job("de", "it"))
        await until(lambda: "opus-mt-de-it" in asked(hub))


async def test_without_a_word_from_the_operator_only_models_at_hand_are_offered(
    hub: Hub, tmp_path: Path
) -> None:
    with pytest.raises(EngineFault, match="No OPUS-MT model is on this machine"):
        build(tmp_path, download=False)
    install(catalogue.known()["opus-mt-en-it"], tmp_path, lambda *progress: None)
    hub.asked.clear()
    engine = build(tmp_path, download=False)
    assert engine.profile.supports("en", "it") and not engine.profile.supports("fr", "ja-Latn-US")
    async with started(engine):
        await read(engine, job("en", "it"))
        await read(engine, job())
        assert engine.substitute is None, "German is a language of the shipped model alone"
    assert not hub.asked


async def test_the_shipped_model_goes_on_after_a_fetch_that_failed(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    del hub.files["opus-mt-en-de.zip"]
    engine = build(tmp_path)
    async with started(engine):
        await read(engine, job())
        await until(lambda: "opus-mt-en-de is not available: http://" in caplog.text)
        assert "Morgen" in await read(engine, job())
        assert len(hub.asked) == 1, "it is not tried again at once"
        assert engine.substitute is not None


def opus(
    tmp_path: Path, fetch: Callable[[KnownModel, Callable[[str], object]], object] | None
) -> OpusEngine:
    models = {("en", "de"): known()["opus-mt-en-de"], ("de", "en"): known()["opus-mt-de-en"]}
    return OpusEngine(models, tmp_path, fetch)


async def test_without_another_engine_a_job_says_that_its_model_is_being_fetched(
    tmp_path: Path,
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def fetch(model: KnownModel, say: Callable[[str], object]) -> None:
        begun.set()
        go_on.wait()
        say("fetching")

    engine = opus(tmp_path, fetch)
    await engine.start()
    with pytest.raises(JobFault, match="The model for en to de is not on this machine") as caught:
        await read(engine, job())
    assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE
    await asyncio.to_thread(begun.wait)
    await engine.aclose()
    assert engine.health is Health.CLOSED, "the fetch is not waited for"
    go_on.set()


async def test_a_fetch_that_failed_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    faults = [EngineFault("It cannot be reached.")]

    def fetch(model: KnownModel, say: Callable[[str], object]) -> None:
        if faults:
            raise faults.pop()

    engine = opus(tmp_path, fetch)
    async with started(engine):
        engine.prepare("en", "de")
        await until(lambda: not faults and engine._asked[("en", "de")] < float("inf"))
        assert not engine.serves("en", "de")
        engine.prepare("en", "de")
        await until(lambda: engine.serves("en", "de"))


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), ValueError("a bug")])
async def test_any_fault_of_a_fetch_is_logged_and_ends_it(
    tmp_path: Path, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fetch(model: KnownModel, say: Callable[[str], object]) -> None:
        raise fault

    engine = opus(tmp_path, fetch)
    async with started(engine):
        engine.prepare("en", "de")
        engine.prepare("en", "de")
        await until(lambda: "opus-mt-en-de is not available" in caplog.text)
        assert not engine.serves("en", "de")


class Model:
    """A model that notes its jobs."""

    def __init__(self, pair: tuple[str, str]) -> None:
        self.pair = pair
        self.given: list[str] = []

    def decode(self, sinks: Any, profile: profiles.Profile, beam: int = 1) -> None:
        self.given += [sink.job.id for sink in sinks]


class Sink:
    def __init__(self, source: str, target: str) -> None:
        self.job = job(source, target, id=f"{source}-{target}")
        self.fault: EngineFault | None = None

    def end(self, rest: str = "", fault: Any = None, **judged: Any) -> None:
        self.fault = fault


def loaded(
    faults: set[tuple[str, str]] | None = None,
) -> tuple[LoadedModels, list[Model], list[float]]:
    """Return models, the loaded ones, and the time in seconds."""
    made: list[Model] = []
    time = [0.0]

    def load(pair: tuple[str, str]) -> Any:
        if pair in (faults or ()):
            raise EngineFault("It is damaged.")
        made.append(Model(pair))
        return made[-1]

    return LoadedModels(load, clock=lambda: time[0]), made, time


PROFILE = profiles.Profile(name="p", kind="ids", languages=tuple("abcdefghijklmnop"))


def decode(models: LoadedModels, *pairs: tuple[str, str]) -> list[Sink]:
    sinks = [Sink(*pair) for pair in pairs]
    models.decode(sinks, PROFILE)  # type: ignore[arg-type]
    return sinks


def test_models_out_of_use_leave_memory_and_models_in_use_stay() -> None:
    models, made, time = loaded()
    pairs = [("a", other) for other in "bcdefghijklm"]
    decode(models, *pairs)
    assert len(made) == len(pairs) > LOADED
    decode(models, *pairs)
    assert len(made) == len(pairs), "all of them are in use"
    time[0] = IN_USE_S + 1
    decode(models, *pairs[-2:])
    assert list(models._models) == pairs[-LOADED:], "those that were used last"
    decode(models, pairs[0])
    assert len(made) == len(pairs) + 1


def test_a_batch_of_several_pairs_goes_to_the_model_of_each() -> None:
    models, made, _ = loaded(faults={("c", "a")})
    sinks = decode(models, ("a", "b"), ("c", "a"), ("b", "a"), ("a", "b"))
    assert [(model.pair, model.given) for model in made] == [
        (("a", "b"), ["a-b", "a-b"]),
        (("b", "a"), ["b-a"]),
    ]
    assert [sink.fault is None for sink in sinks] == [True, False, True, True]
