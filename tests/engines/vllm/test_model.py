"""Tests of how requests are spread over copies of the model, with a stub of vLLM's engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.engines import profiles
from gateway.engines.registry import build
from gateway.engines.vllm.compat import EngineStats
from gateway.engines.vllm.engine import VllmEngine, VllmOptions
from gateway.engines.vllm.model import LoadedModel, ProbeRequest, choose_rank
from gateway.job import Job, Priority
from gateway.settings.catalogue import Settings
from tests.support.models import tiny_llama

RANKS = 2


class StubLLM:
    """An `AsyncLLM` that keeps what each request was sent with, and answers with nothing."""

    errored = False
    output_handler = None
    vllm_config = SimpleNamespace(model_config=SimpleNamespace(max_model_len=512))

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.params: list[dict[str, Any]] = []

    async def generate(
        self, prompt: Any, params: Any, request_id: str, **options: Any
    ) -> AsyncIterator[Any]:
        self.asked.append(options)
        self.params.append(params)
        yield SimpleNamespace(
            outputs=[SimpleNamespace(text="", token_ids=[], finish_reason="stop")], finished=True
        )

    async def abort(self, request_id: str) -> None:
        pass


async def ask(model: Path, *jobs: Job, **options: Any) -> StubLLM:
    """Return a stub that was asked for ``jobs`` by a `LoadedModel` with ``options``."""
    api: Any = SimpleNamespace(tokens_input=list, sampling_params=lambda **params: params)
    stub = StubLLM()
    loaded = LoadedModel(api, stub, str(model), profiles.load("embedded"), feed=False, **options)
    for job in jobs:
        request = ProbeRequest()
        loaded.start_request(job, request)
        await request.done
    return stub


async def asked(model: Path, ranks: int, *jobs: Job) -> list[dict[str, Any]]:
    """Return what vLLM is asked for ``jobs``, besides their prompts."""
    return (await ask(model, *jobs, ranks=ranks)).asked


def job(room: str, target: str = "de", text: str = "good morning") -> Job:
    priority = Priority.PARTIAL
    return Job(id="j", text=text, source="en", target=target, room=room, priority=priority)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("ranks") / "llama")


async def test_a_growing_text_stays_on_one_copy_of_the_model(model: Path) -> None:
    growing = [job("r", text=" ".join(["good"] * n)) for n in range(1, 6)]
    found = await asked(model, RANKS, *growing)
    rank = choose_rank("r", "de", RANKS)
    assert found == [{"priority": 1, "data_parallel_rank": rank}] * 5


async def test_rooms_and_languages_spread_over_the_copies(model: Path) -> None:
    jobs = [job(f"room-{n}", target) for n in range(16) for target in ("de", "fr", "es")]
    ranks = [one["data_parallel_rank"] for one in await asked(model, RANKS, *jobs)]
    assert set(ranks) == {0, 1}
    assert 16 <= ranks.count(0) <= 32


async def test_a_job_without_a_room_goes_where_vllm_likes(model: Path) -> None:
    assert await asked(model, RANKS, job("")) == [{"priority": 1}]


async def test_with_one_copy_no_rank_is_sent(model: Path) -> None:
    assert await asked(model, 1, job("r")) == [{"priority": 1}]


@pytest.mark.parametrize("room", ["会議", "совещание", "اجتماع", ""])
def test_every_room_has_a_rank(room: str) -> None:
    assert all(0 <= choose_rank(room, "zh-Hant", ranks) < ranks for ranks in range(1, 9))


def test_another_process_chooses_the_same_ranks() -> None:
    code = (
        "from gateway.engines.vllm.model import choose_rank;"
        "print([choose_rank(str(n), 'de', 8) for n in range(20)])"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert other.stdout.strip() == str([choose_rank(str(n), "de", 8) for n in range(20)])


def test_each_copy_takes_max_num_seqs_jobs() -> None:
    options = VllmOptions(max_num_seqs=4, data_parallel_size=2)
    assert options.engine_args()["data_parallel_size"] == 2
    assert VllmEngine("owner/eurollm", options=options).capacity == 8
    extra = VllmOptions(max_num_seqs=4, extra={"data_parallel_size": 3})
    assert VllmEngine("owner/eurollm", options=extra).capacity == 12


def test_the_setting_reaches_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    settings = Settings(engine="vllm", model="owner/eurollm", max_num_seqs=4, data_parallel_size=2)
    assert build(settings).capacity == 8


def test_gauges_of_several_copies_are_added_up() -> None:
    def scheduler(running: int, usage: float) -> Any:
        return SimpleNamespace(
            num_running_reqs=running,
            num_waiting_reqs=1,
            kv_cache_usage=usage,
            prefix_cache_stats=SimpleNamespace(queries=1, hits=1),
        )

    stats = EngineStats()
    stats.record(scheduler(4, 0.5), None, 0)
    stats.record(scheduler(3, 0.25), None, 1)
    stats.record(scheduler(2, 0.125), None, 0)
    found = {name: stats.values[name] for name in ("running", "waiting", "kv_cache_usage")}
    assert found == {"running": 5, "waiting": 2, "kv_cache_usage": 0.25}
