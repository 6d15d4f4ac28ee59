"""Tests of the GPUs that the processes of an engine see, with a stand-in for vLLM's start."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.engines.vllm import devices
from gateway.errors import EngineFault

VARIABLE = "TEST_VISIBLE_DEVICES"


class Client(SimpleNamespace):
    """The module of vLLM that starts processes: keeps the environment that each would have."""

    def __init__(self) -> None:
        self.environments: list[str | None] = []
        self.ready = threading.Event()  # the processes have loaded the model
        self.waiting = threading.Semaphore(0)  # released when a start waits for that
        self.fault: Exception | None = None
        devices.confine(self, VARIABLE)
        devices.confine(self, VARIABLE)  # as every engine does

    @contextmanager
    def launch_core_engines(self, name: str, *, log: bool) -> Iterator[str]:
        if self.fault is not None:
            raise self.fault
        self.environments.append(os.environ.get(VARIABLE))
        yield name
        self.waiting.release()
        self.ready.wait(30)


async def start(client: Client, *gpus: int) -> str:
    """Start an engine in a thread, as the vLLM engine does."""

    def load() -> str:
        with client.launch_core_engines("engine", log=True) as started:
            pass
        return str(started)

    async with devices.alone_on(gpus):
        return await asyncio.to_thread(load)


async def test_each_engine_sees_its_own_gpus_although_they_start_side_by_side() -> None:
    client = Client()
    starts = [asyncio.create_task(start(client, *gpus)) for gpus in ((0,), (2, 3))]
    for _ in starts:  # neither has ended yet
        await asyncio.to_thread(client.waiting.acquire)
    assert sorted(map(str, client.environments)) == ["0", "2,3"]
    assert VARIABLE not in os.environ
    client.ready.set()
    assert await asyncio.gather(*starts) == ["engine", "engine"]


@pytest.mark.parametrize("seen", [None, "4,5"])
async def test_the_environment_is_as_before_after_a_start(
    seen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seen:
        monkeypatch.setenv(VARIABLE, seen)
    client = Client()
    client.ready.set()
    await start(client)
    await start(client, 1)
    assert client.environments == [seen, "5" if seen else "1"]
    client.fault = ValueError("no process")
    with pytest.raises(ValueError, match="no process"):
        await start(client, 0)
    assert os.environ.get(VARIABLE) == seen


def test_a_gpu_is_one_of_those_that_the_process_sees() -> None:
    def visible(gpus: tuple[int, ...], **environ: Any) -> str:
        return devices.visible(gpus, environ, VARIABLE)

    assert visible((0, 2)) == "0,2"
    assert visible((1,), **{VARIABLE: "GPU-a,GPU-b"}) == "GPU-b"
    with pytest.raises(EngineFault, match=f"There is no GPU 2: {VARIABLE} is 4,5"):
        visible((0, 2), **{VARIABLE: "4,5"})
