"""Tests of the vLLM engine that need no vLLM."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.engines.base.service import Health
from gateway.engines.vllm import parent_watch
from gateway.engines.vllm.compat import EngineStats
from gateway.engines.vllm.engine import VllmEngine, VllmOptions, VllmSink
from gateway.errors import EngineFault, EngineGone
from gateway.job import Chunk
from tests.engines.reading import job, read
from tests.engines.workshop import settle
from tests.support.live import until
from tests.support.models import store_as_int8, tiny_llama
from tests.support.typed import current


async def test_without_vllm_the_start_fails_with_a_sentence_that_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "spawn")  # `start` sets it; undone after
    monkeypatch.setitem(sys.modules, "vllm", None)
    engine = VllmEngine("utter-project/EuroLLM-1.7B-Instruct")

    with pytest.raises(EngineFault, match="vLLM cannot be used") as raised:
        await engine.start()
    assert raised.value.hint == "pip install 'caption-gateway[vllm]'"
    assert current(engine.health) is Health.DEAD
    with pytest.raises(EngineGone):
        await read(engine, job("late"))
    await engine.aclose()
    assert engine.health is Health.CLOSED


def test_the_profile_is_found_by_the_name_of_the_model_or_by_its_configuration(
    tmp_path: Path,
) -> None:
    assert VllmEngine("utter-project/EuroLLM-1.7B-Instruct").profile.name == "eurollm"
    (tmp_path / "config.json").write_text('{"gateway_profile": "qwen3"}')
    assert VllmEngine(tmp_path).profile.name == "qwen3"


def test_a_model_without_a_profile_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["NobodyKnowsIt"]}')
    with pytest.raises(EngineFault, match="No profile was found"):
        VllmEngine(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(EngineFault, match="No profile was found"):
        VllmEngine(tmp_path)


def test_name_and_capacity_are_known_before_the_model_is_loaded() -> None:
    engine = VllmEngine(
        "utter-project/EuroLLM-1.7B-Instruct", options=VllmOptions(extra={"max_num_seqs": 3})
    )
    assert engine.name == "vllm:EuroLLM-1.7B-Instruct"
    assert engine.capacity == 3
    assert engine.unfinished == 0
    assert engine.health is Health.STARTING


class Asked:
    """A replacement of `VllmApi` that returns the arguments it gets."""

    def configure(self, options: Any, max_model_len: int) -> Any:
        return options


def test_int8_weights_are_given_to_vllm_as_float16_from_the_cache(tmp_path: Path) -> None:
    model, cache = tiny_llama(tmp_path / "embedded"), tmp_path / "cache"
    asked: Any = Asked()
    engine = VllmEngine(model, cache_dir=cache)
    assert engine._configure(asked)["model"] == str(model)
    store_as_int8(model)
    copy = Path(engine._configure(asked)["model"])
    assert list(cache.iterdir()) == [copy]
    assert engine.name == "vllm:embedded"  # and not as the copy is


def test_a_hub_id_is_left_to_vllm() -> None:
    asked: Any = Asked()
    assert VllmEngine("owner/eurollm")._configure(asked)["model"] == "owner/eurollm"


def test_a_chunk_counts_all_tokens_since_the_last_one_and_has_the_ids_of_its_text() -> None:
    found: list[Chunk] = []
    engine: Any = None
    sink: Any = SimpleNamespace(chunk=found.append)
    request = VllmSink(engine, "j", "j/1", sink, frozenset({2}))
    request.on_prompt([7])
    request.on_output("", [10])  # half a character
    request.on_output("guten Morgen", [11, 12])  # two steps, merged by vLLM
    request.on_output("皆さん", [13, 2])
    assert found == [
        Chunk("guten Morgen", 3, ids=(7, 10, 11, 12)),
        Chunk("皆さん", 2, ids=(13,)),
    ]


def test_gauges_show_the_last_step_and_counters_add_up() -> None:
    def scheduler(running: int, queries: int) -> Any:
        return SimpleNamespace(
            num_running_reqs=running,
            num_waiting_reqs=2,
            kv_cache_usage=0.5,
            prefix_cache_stats=SimpleNamespace(queries=queries, hits=1),
        )

    def iteration(tokens: int, *finished: Any) -> Any:
        return SimpleNamespace(
            num_preempted_reqs=1, num_generation_tokens=tokens, finished_requests=finished
        )

    request = SimpleNamespace(queued_time=0.5, prefill_time=0.25, decode_time=2.0)
    stats = EngineStats()
    stats.record(scheduler(4, 10), iteration(4))
    stats.record(scheduler(3, 20), None)
    stats.record(None, iteration(3, request, request))
    assert stats.values == {
        "running": 3,
        "waiting": 2,
        "kv_cache_usage": 0.5,
        "prefix_queries": 30,
        "prefix_hits": 2,
        "preemptions": 2,
        "steps": 2,
        "tokens": 7,
        "finished": 2,
        "queue_seconds": 1.0,
        "prefill_seconds": 0.5,
        "decode_seconds": 4.0,
    }


class Loaded:
    """A replacement of a loaded model."""

    dead = False
    unfinished = 0

    async def warm_up(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class Slow(VllmEngine):
    """An engine whose load takes until it is let go."""

    def __init__(self, *gpus: int) -> None:
        super().__init__(
            "owner/eurollm", options=VllmOptions(extra={"device_ids": [*gpus]} if gpus else {})
        )
        self.loading, self.go = threading.Event(), threading.Event()

    def _load(self) -> None:
        self.loading.set()
        self.go.wait(30)
        self._loaded = Loaded()  # type: ignore[assignment]


@asynccontextmanager
async def starting(*engines: Slow) -> AsyncIterator[None]:
    """Start engines at once, and end the block when all have started."""
    starts = [asyncio.create_task(engine.start()) for engine in engines]
    try:
        yield
    finally:
        for engine in engines:
            engine.go.set()
        await asyncio.gather(*starts, return_exceptions=True)


async def test_engines_without_a_common_gpu_start_side_by_side() -> None:
    one, other = Slow(0), Slow(1, 2)
    async with starting(one, other):
        await until(lambda: one.loading.is_set() and other.loading.is_set())


@pytest.mark.parametrize("gpus", [(), (0,), (0, 1)])
async def test_engines_that_share_a_gpu_start_one_after_the_other(gpus: tuple[int, ...]) -> None:
    one, other, apart = Slow(0), Slow(*gpus), Slow(5)
    async with starting(one, other):
        await until(one.loading.is_set)
        await settle()
        assert not other.loading.is_set()
        one.go.set()
        await until(other.loading.is_set)
    async with starting(other, apart):
        assert other.health is Health.READY


async def test_an_engine_that_is_closed_while_it_waits_for_its_gpu_is_not_loaded() -> None:
    one, other = Slow(0), Slow(0)
    async with starting(one):
        await until(one.loading.is_set)
        start = asyncio.create_task(other.start())
        await settle()
        await other.aclose()
        one.go.set()
        with pytest.raises(EngineGone, match="was closed while it started"):
            await start
    assert not other.loading.is_set()


async def test_a_start_that_fails_lets_the_next_one_on_its_gpu_begin() -> None:
    class Broken(Slow):
        def _load(self) -> None:
            raise ValueError("no memory")

    other = Slow(0)
    with pytest.raises(EngineFault, match="could not load owner/eurollm: no memory"):
        await Broken(0).start()
    async with starting(other):
        await until(other.loading.is_set)


def test_copies_that_die_as_one_are_refused() -> None:
    with pytest.raises(EngineFault, match=r"give each copy an \[\[engine\]\]"):
        VllmEngine("owner/eurollm", options=VllmOptions(extra={"data_parallel_size": 2}))


def test_a_process_without_a_parent_is_not_watched() -> None:
    before = set(multiprocessing.active_children())
    parent_watch.watch()
    assert set(multiprocessing.active_children()) == before
