"""Background tasks: their faults are logged, and they end with their owner."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gateway.io import tasks as module
from gateway.io.tasks import BackgroundTasks, failures, keep_running, running
from tests.support.live import until

log = logging.getLogger("gateway.tests")


TEXT = "words of a meeting"


async def fail() -> None:
    raise ValueError(TEXT)


async def test_a_task_that_dies_is_logged_with_its_traceback_and_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = BackgroundTasks(log, "the task failed")
    await asyncio.wait([tasks.start(fail())])
    await asyncio.sleep(0)
    assert not len(tasks._tasks)
    assert [(r.name, r.levelname, r.getMessage()) for r in caplog.records] == [
        ("gateway.tests", "ERROR", "the task failed")
    ]
    assert "ValueError" in caplog.text and "in fail" in caplog.text
    assert TEXT not in caplog.text


async def test_a_task_that_fails_while_it_is_cancelled_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    entered = asyncio.Event()

    async def fail_at_the_end() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError

    tasks = BackgroundTasks(log, "the task failed")
    tasks.start(fail_at_the_end())
    await entered.wait()
    await tasks.aclose()
    await asyncio.sleep(0)
    assert "the task failed" in caplog.text


async def test_closing_cancels_the_tasks_and_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = BackgroundTasks(log, "the task failed")
    tasks.start(asyncio.Event().wait())  # type: ignore[arg-type]
    assert len(tasks._tasks) == 1
    await tasks.aclose()
    await asyncio.sleep(0)
    assert not len(tasks._tasks) and not caplog.records
    await tasks.aclose()


@pytest.mark.parametrize("fault", [LookupError(TEXT), asyncio.CancelledError(TEXT)])
async def test_work_that_dies_is_run_again_even_if_it_ends_as_cancelled_by_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: BaseException
) -> None:
    monkeypatch.setattr(module, "RESTART_S", 0.0)
    runs: list[int] = []

    async def work() -> None:
        runs.append(1)
        if len(runs) < 3:
            raise fault

    before = failures["some work"]
    await keep_running("some work", work)
    assert len(runs) == 3 and failures["some work"] == before + 2
    assert "some work failed; it starts again" in caplog.text and TEXT not in caplog.text


async def test_work_is_cancelled_although_a_library_turns_that_into_another_error() -> None:
    entered: list[int] = []

    async def work() -> None:
        entered.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise TimeoutError from None

    async with running(keep_running("some work", work, expected=TimeoutError)) as task:
        await until(lambda: entered == [1])
    assert task.cancelled() and entered == [1]
