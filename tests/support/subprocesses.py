"""The processes that a test starts by `asyncio.create_subprocess_exec`."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from typing import Any

import pytest

from tests.support.live import until


def started(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """Return a list that every process joins when it has been started."""
    processes: list[Process] = []
    start = asyncio.create_subprocess_exec

    async def starting(*command: Any, **options: Any) -> Process:
        processes.append(await start(*command, **options))
        return processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", starting)
    return processes


async def until_output_waits(process: Process) -> None:
    """Wait until the buffer is full, so that no more of the output is read."""
    output = process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
    await until(lambda: not output.is_reading())
