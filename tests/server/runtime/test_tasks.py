"""Background tasks: their faults are logged, and they end with their owner."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gateway.server.runtime.tasks import BackgroundTasks

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
    assert not len(tasks)
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
    assert len(tasks) == 1
    await tasks.aclose()
    await asyncio.sleep(0)
    assert not len(tasks) and not caplog.records
    await tasks.aclose()
