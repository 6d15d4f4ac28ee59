"""Tests of models fetched by name: OPUS-MT as Marian writes it, and NLLB for CTranslate2."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from gateway.cli.main import main
from gateway.engines import registry
from gateway.engines.base.service import Health
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.engines.fetched import known_models as catalogue
from gateway.engines.fetched.engine import FetchedEngine
from gateway.engines.fetched.install import install
from gateway.engines.fetched.known_models import KnownModel, known
from gateway.errors import EngineFault, EngineGone
from gateway.job import Job
from gateway.settings.catalogue import Settings
from tests.engines.fetched.hub import Hub, opus_archive, served
from tests.engines.reading import read, started
from tests.support.live import until
from tests.support.models import tiny_nllb

OPUS, NLLB = "opus-mt-en-de", "nllb-200"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return opus_archive(tmp_path_factory.mktemp("opus") / "files")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, archive: bytes, tmp_path: Path) -> Iterator[Hub]:
    """Return a hub with one model of each kind, in place of the real addresses."""
    with served() as hub:
        hub.files["model.zip"] = archive
        hub.files |= {
            file.name: file.read_bytes() for file in tiny_nllb(tmp_path / "nllb").iterdir()
        }
        models = dict(known())
        opus = msgspec.structs.replace(
            models[OPUS], files={"model.zip": f"{hub.address}/cdn/model.zip"}
        )
        files = {name: f"{hub.address}/resolve/{name}" for name in hub.files if name != "model.zip"}
        other = msgspec.structs.replace(opus, name="opus-mt-de-en", pair=("de", "en"))
        nllb = msgspec.structs.replace(models[NLLB], files=files)
        here = {model.name: model for model in (nllb, opus, other)}
        monkeypatch.setattr(catalogue, "known", lambda: here)
        yield hub


def job(source: str = "en", target: str = "de") -> Job:
    return Job(id="j", text="good morning everybody", source=source, target=target)


def settings(cache: Path, name: str, *, download: bool = True) -> Settings:
    return Settings(model=name, cache_dir=str(cache), download=download, guards=False)


def progress(file: str, came: int, size: int | None) -> None:
    pass


@pytest.mark.parametrize(("name", "pair"), [(OPUS, ("en", "de")), (NLLB, ("en", "de"))])
async def test_a_named_model_is_fetched_once_and_translates(
    hub: Hub, tmp_path: Path, name: str, pair: tuple[str, str]
) -> None:
    async def translated(**options: bool) -> str:
        engine = registry.build(settings(tmp_path / "cache", name, **options))
        async with started(engine):
            # The shipped model may have started before the named one.
            await until(lambda: engine.substitute is None)
            return await read(engine, job(*pair))

    first = await translated()
    asked = len(hub.asked)
    assert await translated(download=False) == first != ""
    assert len(hub.asked) == asked, "the network is used once"


async def test_the_converted_model_writes_what_ctranslate2_itself_does(
    hub: Hub, tmp_path: Path
) -> None:
    import ctranslate2
    import sentencepiece

    engine = registry.build(settings(tmp_path, OPUS))
    async with started(engine):
        found = await read(engine, job())
    made = catalogue.known()[OPUS].directory(tmp_path)
    assert sorted(file.name for file in made.iterdir()) == [
        *("LICENSE", "about.json", "config.json", "model.bin", "shared_vocabulary.json"),
        *("source.spm", "target.spm"),
    ]
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(made / f"{side}.spm"))
        for side in ("source", "target")
    )
    translator = ctranslate2.Translator(str(made))
    pieces = source.encode(job().text, out_type=str)
    (result,) = translator.translate_batch([pieces], beam_size=1, disable_unk=True)
    shared = target.decode(result.hypotheses[0])
    assert found and shared.startswith(found[:20])


@pytest.mark.parametrize(("name", "fallback"), [(OPUS, "ctranslate2"), (NLLB, None)])
async def test_the_shipped_model_translates_until_a_named_one_is_there(
    hub: Hub, tmp_path: Path, name: str, fallback: str | None
) -> None:
    hub.files.clear()  # nothing can be fetched
    engine = registry.build(msgspec.structs.replace(settings(tmp_path, name), fallback=fallback))
    async with started(engine):
        assert engine.substitute == "ctranslate2:embedded"
        assert "Morgen" in await read(engine, job())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (OPUS, "(en to de) is 280 MB from {}/cdn/model.zip, under the licence CC-BY-4.0."),
        (
            NLLB,
            "(about 100, each to each) is 634 MB from {}/resolve/, under the licence CC-BY-NC-4.0,"
            " for non-commercial use only.",
        ),
    ],
)
def test_nothing_is_fetched_without_a_word_from_the_operator(
    hub: Hub, tmp_path: Path, name: str, says: str
) -> None:
    with pytest.raises(EngineFault) as caught:
        registry.build(settings(tmp_path, name, download=False))
    what = says.format(hub.address)
    assert str(caught.value) == f"{name} is not on this machine. {name} {what}"
    assert caught.value.hint == (
        f"Allow that with --download, or fetch it now: gateway models fetch {name}."
    )
    assert not hub.asked


async def test_a_gateway_ends_without_waiting_for_a_fetch(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()
    stopped: list[BaseException] = []

    def fetch(say: Callable[[str], object]) -> None:
        begun.set()
        go_on.wait()
        try:
            say("fetching")
        except EngineGone as gone:
            stopped.append(gone)
            raise

    engine = FetchedEngine(known()[NLLB], tmp_path, fetch)
    starting = asyncio.create_task(engine.start())
    await asyncio.to_thread(begun.wait)
    await engine.aclose()
    go_on.set()
    with pytest.raises(EngineGone, match="was closed"):
        await starting
    assert stopped


async def test_a_disk_that_fills_up_is_an_error_of_the_start(tmp_path: Path) -> None:
    def fetch(say: Callable[[str], object]) -> None:
        raise OSError(28, "No space left on device", "about.json")

    engine = FetchedEngine(known()[NLLB], tmp_path, fetch)
    with pytest.raises(EngineFault, match="No space left on device: .about.json"):
        await engine.start()
    assert engine.health is Health.DEAD


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"PK not an archive", "is damaged"),
        ("cut", "is damaged"),
        ("bpe", "it has no source.spm, so it is of a kind that is not supported"),
        ("empty", "it has no source.spm"),
    ],
)
def test_an_archive_that_is_none_is_an_error_and_is_not_kept(
    hub: Hub, tmp_path: Path, archive: bytes, body: bytes | str, says: str
) -> None:
    if isinstance(body, str):
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as opened:
            if body == "bpe":
                opened.writestr("source.bpe", "merges")
        changed = bytearray(archive)
        changed[len(archive) // 2] ^= 1
        body = bytes(changed) if body == "cut" else made.getvalue()
    hub.files["model.zip"] = body
    model = catalogue.known()[OPUS]
    with pytest.raises(EngineFault, match=says):
        install(model, tmp_path, progress)
    assert not model.directory(tmp_path).exists()


def test_the_command_lists_fetches_and_removes(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = ["--cache-dir", str(tmp_path)]
    assert main(["models", *cache]) == 0
    listed = capsys.readouterr().out
    assert listed.splitlines() == [
        "opus-mt        2 pairs                  280 MB each fast  CC-BY-4.0",
        "nllb-200       about 100, each to each  634 MB      slow  CC-BY-NC-4.0, for non-commercial"
        " use only",
        "opus-mt-en-de  en to de                 280 MB      fast  CC-BY-4.0",
        "opus-mt-de-en  de to en                 280 MB      fast  CC-BY-4.0",
    ]
    assert main(["models", "fetch", OPUS, NLLB, *cache]) == 0
    out, said = capsys.readouterr()
    assert out == f"{tmp_path / 'fetched' / OPUS}\n{tmp_path / 'fetched' / NLLB}\n"
    assert f"{OPUS} (en to de) is 280 MB from http:" in said and "fetching model.zip" in said
    (tmp_path / "fetched" / NLLB).rename(tmp_path / "fetched" / f".{NLLB}")
    assert main(["models", "--json", *cache]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["here"] for row in rows] == [[OPUS], [], [OPUS], []]
    assert main(["models", *cache]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("on this machine: ")[2] for line in lines] == [
        *("1 MB, 1 of 2", "1 MB, not complete", "1 MB, all", ""),
    ]
    assert main(["models", "remove", "opus-mt", NLLB, *cache]) == 0
    assert capsys.readouterr().out == f"opus-mt: 1 MB removed\n{NLLB}: 1 MB removed\n"
    assert not [*(tmp_path / "fetched").iterdir()]
    assert main(["models", "fetch", "opus-mt", *cache]) == 2
    assert "opus-mt is 2 models of 280 MB each. Name those you" in capsys.readouterr().err
    assert main(["models", "fetch", "opus-mt-xx-yy", *cache]) == 2
    assert "No model is called 'opus-mt-xx-yy'" in capsys.readouterr().err
    assert main(["models", "remove", *cache]) == 2


@pytest.mark.parametrize("name", ["opus-mt", NLLB])
def test_one_text_is_translated_by_the_named_model_and_not_by_the_shipped_one(
    hub: Hub,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    start, shipped = CTranslate2Engine.start, asyncio.Event()

    async def in_turn(engine: CTranslate2Engine) -> None:
        if engine.name != "ctranslate2:embedded":
            await shipped.wait()
        await start(engine)
        shipped.set()

    monkeypatch.setattr(CTranslate2Engine, "start", in_turn)
    flags = ["--model", name, "--download", "--cache-dir", str(tmp_path), "--no-guards"]
    assert main(["say", "Guten Morgen", "--from", "de", "--to", "en", *flags]) == 0
    out, said = capsys.readouterr()
    assert out.strip() and "morning" not in out.lower(), "its weights are random"
    assert "under the licence" in said and "fetching" in said


def test_the_known_models_have_addresses_licences_and_profiles() -> None:
    models = known().values()
    assert len(models) > 30
    assert all(address.startswith("https://") for one in models for address in one.files.values())
    assert known()[OPUS].files == {
        "model.zip": "https://object.pouta.csc.fi/OPUS-MT-models/en-de/opus-2020-02-26.zip"
    }
    assert {(one.profile, one.licence) for one in models} == {
        ("opus-mt", "CC-BY-4.0"),
        ("nllb", "CC-BY-NC-4.0"),
    }
    assert isinstance(known()[OPUS], KnownModel) and known()[OPUS].pair == ("en", "de")
