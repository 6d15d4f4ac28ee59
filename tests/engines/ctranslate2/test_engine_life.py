"""Tests of start, close and failure of the embedded engine."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.engines.base import model_files
from gateway.engines.base.service import Health
from gateway.engines.ctranslate2 import engine as ctranslate2
from gateway.engines.ctranslate2 import model
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.errors import EngineFault, EngineGone
from tests.engines.ctranslate2_factory import make_llama, make_marian, make_nllb
from tests.engines.puppet import Puppet, begun
from tests.engines.reading import job, read, started
from tests.support import models
from tests.support.typed import current

pytest.importorskip("ctranslate2")
pytest.importorskip("sentencepiece")

Make = Callable[..., CTranslate2Engine]


def test_capacity_is_a_full_batch_for_each_thread(
    dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make_llama(dir, inter_threads=3, batch=4).capacity == 12
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 7}, raising=False)
    assert make_llama(dir, batch=4).capacity == 8
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert make_llama(dir).capacity == 80


def test_the_engine_is_named_after_its_model(dir: Path) -> None:
    assert make_llama(dir).name == "ctranslate2:embedded"


async def test_health_follows_the_life_of_the_engine(dir: Path) -> None:
    engine = make_llama(dir)
    seen = [engine.health]

    async with started(engine):
        seen.append(engine.health)
    assert [*seen, engine.health] == [Health.STARTING, Health.READY, Health.CLOSED]


async def test_before_start_and_after_close_jobs_are_refused(dir: Path) -> None:
    engine = make_llama(dir)

    with pytest.raises(EngineGone, match="is starting"):
        await read(engine, job())
    await engine.start()
    await engine.aclose()
    await engine.aclose()
    with pytest.raises(EngineGone, match="is closed"):
        await read(engine, job())
    with pytest.raises(EngineGone, match="is closed"):
        await engine.start()


async def test_closing_the_engine_ends_its_streams_and_frees_the_model(
    monkeypatch: pytest.MonkeyPatch, dir: Path
) -> None:
    puppets = [Puppet()]
    alive = weakref.ref(puppets[0])
    monkeypatch.setattr(model, "load", lambda *_: puppets[0])
    engine = make_llama(dir, inter_threads=1)

    await engine.start()
    tasks = [asyncio.create_task(read(engine, job(str(n)))) for n in range(2)]
    await begun(puppets[0], 1)
    closing = asyncio.create_task(engine.aclose())
    for task in tasks:
        with pytest.raises(EngineGone):
            await task
    puppets[0].token("Guten")
    await closing
    assert engine.unfinished == 0
    puppets.clear()
    assert alive() is None


async def test_close_does_not_wait_for_ever_for_a_decode_that_hangs(
    puppet: Puppet, dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ctranslate2, "CLOSE_TIMEOUT", 0.0)
    engine = make_llama(dir)

    await engine.start()
    task = asyncio.create_task(read(engine, job()))
    await begun(puppet, 1)
    await engine.aclose()
    with pytest.raises(EngineGone):
        await task
    puppet.token("Ja")
    assert "not waiting" in caplog.text


def test_a_decode_stops_when_its_event_loop_is_closed(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir)

    async def leave() -> None:
        await engine.start()
        waiting = asyncio.ensure_future(read(engine, job()))
        await begun(puppet, 1)
        waiting.cancel()

    asyncio.run(leave())
    puppet.token("Guten")
    asyncio.run(engine.aclose())
    assert engine.unfinished == 0


async def test_an_engine_closed_while_it_starts_does_not_become_ready(
    dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_llama(dir)
    go = threading.Event()
    monkeypatch.setattr(model, "load", lambda *_: go.wait() and Puppet())

    starting = asyncio.create_task(engine.start())
    await asyncio.sleep(0)
    closing = asyncio.create_task(engine.aclose())
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(EngineGone, match="is closed"):
        await starting
    await closing
    assert engine.health is Health.CLOSED


async def test_an_engine_that_cannot_load_its_model_is_dead_and_says_why(tmp_path: Path) -> None:
    engine = make_llama(tmp_path)
    (tmp_path / "embedded" / "model.safetensors").unlink()

    with pytest.raises(EngineFault, match="could not be converted"):
        await engine.start()
    assert engine.health is Health.DEAD
    await engine.aclose()


async def test_a_cache_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in its place")
    engine = make_llama(tmp_path)

    with pytest.raises(EngineFault, match="could not be loaded: .*/cache: File exists") as told:
        await engine.start()
    assert f"copy to {tmp_path / 'cache'}; choose another" in str(told.value.hint)
    await engine.aclose()


async def test_a_full_disk_at_the_first_start_is_a_fault_that_names_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(model_files, "convert", full)
    engine = make_llama(tmp_path)

    with pytest.raises(EngineFault, match="/cache: No space left on device") as told:
        await engine.start()
    assert told.value.hint == "Make room there, or choose another --cache-dir."
    await engine.aclose()


@pytest.mark.parametrize(
    ("make", "name"), [(make_llama, "embedded"), (make_marian, "opus-mt"), (make_nllb, "nllb")]
)
def test_the_profile_is_found_by_the_name_of_the_model(make: Make, name: str, dir: Path) -> None:
    assert make(dir).profile.name == name


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (None, "no config.json"),
        ("{", "is malformed"),
        ('{"architectures": ["X"]}', "No profile fits"),
    ],
)
def test_an_unknown_model_is_a_fault_that_says_what_to_do(
    config: str | None, said: str, tmp_path: Path
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(EngineFault, match=said):
        CTranslate2Engine(tmp_path)


async def test_converted_models_go_into_the_cache_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    engine = CTranslate2Engine(models.tiny_llama(tmp_path / "embedded"))

    async with started(engine):
        assert [path.name[:9] for path in (tmp_path / "xdg/gateway").iterdir()] == ["embedded-"]


def test_the_module_needs_no_ctranslate2_before_start() -> None:
    code = "import sys, gateway.engines.ctranslate2.engine; sys.exit('ctranslate2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


EXIT = """
import asyncio, sys
from pathlib import Path
from tests.engines.ctranslate2_factory import make_llama
from tests.engines.reading import job

async def main():
    engine = make_llama(Path(sys.argv[1]))
    await engine.start()
    stream = engine.translate(job())
    await anext(stream)
    sys.exit(7)

asyncio.run(main())
"""


def test_a_process_that_ends_without_closing_its_engine_does_not_crash(dir: Path) -> None:
    """CTranslate2 by itself crashes an interpreter that ends during a decode."""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", EXIT, str(dir)], cwd=root, check=False)
    assert done.returncode == 7


@pytest.mark.external
@pytest.mark.skipif("GATEWAY_TEST_MODEL" not in os.environ, reason="GATEWAY_TEST_MODEL is not set")
async def test_a_real_model_translates(tmp_path: Path) -> None:
    engine = CTranslate2Engine(Path(os.environ["GATEWAY_TEST_MODEL"]), cache_dir=tmp_path)

    async with started(engine):
        assert "Guten Morgen" in await read(engine, job())
        assert "Guten Tag" not in await read(engine, job(prefix="Guten Tag"))


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA failed with error out of memory"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("No position encodings are defined"), False),
    ],
)
async def test_an_engine_is_dead_after_a_memory_error_but_not_after_a_bad_job(
    dir: Path, error: Exception, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_llama(dir)

    async with started(engine):
        with monkeypatch.context() as patch:
            patch.setattr(engine._model, "decode", failing_with(error))
            with pytest.raises(EngineFault) as caught:
                await read(engine, job())
        assert isinstance(caught.value, EngineGone) is lost
        assert current(engine.health) is (Health.DEAD if lost else Health.READY)
        if lost:
            with pytest.raises(EngineGone, match="is dead"):
                await read(engine, job())
        else:
            assert await read(engine, job())
    assert engine.health is Health.CLOSED


def failing_with(error: Exception) -> Callable[..., None]:
    def decode(*_: Any) -> None:
        raise error

    return decode
