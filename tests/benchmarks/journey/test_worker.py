"""Workers behind queues: what a batch is, and what becomes of a model that fails."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
from typing import Any

import pytest

from benchmarks.journey import models, worker
from benchmarks.journey.device import Cpus, Sampler, cpu, family
from benchmarks.journey.plan import Made, Plan, Task
from benchmarks.journey.process import command


class Names(queue.Queue[str]):
    """A queue that remembers how long it was asked to wait; empty, it ends the worker."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.waits: list[float] = []
        for name in names:
            self.put(name)

    def get(self, block: bool = True, timeout: float | None = None) -> str:
        if timeout is not None:
            self.waits.append(timeout)
        try:
            return super().get(block=False)
        except queue.Empty:
            if timeout is None:
                raise SystemExit from None
            raise


def test_a_worker_without_batches_does_not_wait_for_further_tasks() -> None:
    names = Names("one", "two")
    assert worker.collect(names, 1, 0.05) == ["one"]
    assert names.waits == []


def test_a_batch_has_the_tasks_that_come_within_its_wait_up_to_its_size() -> None:
    names = Names("one", "two", "three")
    assert worker.collect(names, 2, 1.0) == ["one", "two"]
    assert worker.collect(names, 2, 1.0) == ["three"]
    assert all(0 < wait <= 1.0 for wait in names.waits)


class Model:
    """Fails at the text ``bad``."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def translate(self, texts: list[str]) -> list[Made]:
        self.batches.append(texts)
        if "bad" in texts:
            raise RuntimeError("it is bad")
        return [Made(text.upper(), 1) for text in texts]


def worked(monkeypatch: pytest.MonkeyPatch, letter: str, *texts: str) -> tuple[Any, Any, list[Any]]:
    """Return the work of a worker on these texts: its model, the tasks, the events."""
    model = Model()
    monkeypatch.setattr(models, "load", lambda plan: model)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    tasks = {str(n): Task(text) for n, text in enumerate(texts)}
    events: queue.Queue[str] = queue.Queue()
    plan = Plan(architecture=letter, backend="embedded", model="")
    with pytest.raises(SystemExit):
        worker.work(plan, Names(*tasks), tasks, events)  # type: ignore[arg-type]
    return model, tasks, list(events.queue)


def test_a_worker_reports_when_it_is_ready_and_each_finished_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, tasks, events = worked(monkeypatch, "a", "one", "two")
    assert model.batches == [["one"], ["two"]]
    assert events == [worker.READY, "0", "1"]
    assert [task.made for task in tasks.values()] == ["ONE", "TWO"]
    assert all(0 < task.begun <= task.ended for task in tasks.values())


def test_all_of_a_batch_end_when_the_last_of_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tasks, _ = worked(monkeypatch, "c", "one", "two", "three")
    assert model.batches == [["one", "two", "three"]]
    assert len({(task.begun, task.ended) for task in tasks.values()}) == 1


def test_a_worker_reports_a_failed_task_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    _, tasks, events = worked(monkeypatch, "a", "bad", "two")
    assert tasks["0"].error == "RuntimeError: it is bad"
    assert (tasks["1"].error, tasks["1"].made) == (None, "TWO")
    assert events == [worker.READY, "0", "1"]


async def test_a_request_is_refused_if_the_queue_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "TASKS", 1)

    workers = worker.Workers(Plan(architecture="a", backend="embedded", model=""))
    tasks: dict[str, Task] = {}
    monkeypatch.setattr(workers, "_tasks", tasks)
    first = asyncio.create_task(workers.translate("one"))
    await asyncio.sleep(0)  # up to where it waits for its worker
    with pytest.raises(worker.Full):
        await workers.translate("two")
    assert list(tasks) == ["1"]  # nothing is left of the second
    first.cancel()
    await workers.aclose()


def test_a_process_and_its_children_are_one_family() -> None:
    assert os.getpid() in family(os.getppid())
    assert cpu(os.getpid()) is not None
    assert cpu(2**22 + 1) is None


def test_the_use_of_cpus_is_a_share_of_all_of_them() -> None:
    cpus = Cpus(os.getpid(), 2)
    cpus.share()
    sum(range(300_000))
    assert 0 <= cpus.share() <= 1
    sampler = Sampler(cpus.share)
    sampler.start()
    sampler.stop()
    assert sampler.between(0.0, 0.0) == []


def test_the_gateway_is_given_the_model_and_the_engine_of_the_others() -> None:
    plan = Plan(
        architecture="f",
        backend="vllm",
        model="/models/one",
        profile="/tmp/dummy.toml",
        load_format="dummy",
        max_model_len=512,
        extra={"enforce_eager": True},
    )
    found = command(plan, 8123, ("--max-num-seqs", "32"))
    for flag, value in (
        ("--engine", "vllm"),
        ("--model", "/models/one"),
        ("--profile", "/tmp/dummy.toml"),
        ("--max-num-batched-tokens", "8192"),
        ("--max-model-len", "512"),
    ):
        assert found[found.index(flag) + 1] == value
    assert {"load_format=dummy", "dtype=auto", "enforce_eager=true"} <= set(found)
    assert "--no-guards" in found
    assert found[-2:] == ["--max-num-seqs", "32"]
