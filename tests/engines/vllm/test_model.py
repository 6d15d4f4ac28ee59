"""Tests of the requests that are made of jobs, with a stub of vLLM's engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.engines import profiles
from gateway.engines.vllm.model import LoadedModel, ProbeRequest
from gateway.job import Job, Priority
from tests.support.models import tiny_llama


class StubLLM:
    """An `AsyncLLM` that keeps the arguments of each request, and answers with nothing."""

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


async def ask(model: Path, *jobs: Job) -> StubLLM:
    """Return a stub that was asked for ``jobs`` by a `LoadedModel`."""
    api: Any = SimpleNamespace(tokens_input=list, sampling_params=lambda **params: params)
    stub = StubLLM()
    loaded = LoadedModel(api, stub, str(model), profiles.load("embedded"), feed=False)
    for job in jobs:
        request = ProbeRequest()
        loaded.start_request(job, request)
        await request.done
    return stub


def job(room: str, target: str = "de", text: str = "good morning") -> Job:
    priority = Priority.PARTIAL
    return Job(id="j", text=text, source="en", target=target, room=room, priority=priority)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("stub") / "llama")


async def test_a_request_has_the_priority_of_its_job(model: Path) -> None:
    assert (await ask(model, job("r"), job(""))).asked == [{"priority": 1}] * 2
