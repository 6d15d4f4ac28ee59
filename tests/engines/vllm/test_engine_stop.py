"""Ends of a vLLM engine, and of its processes. After each the next test starts another engine."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from caption_gateway.testing.subject import EngineSubject
from gateway.engines.base.service import Health
from gateway.engines.vllm.engine import VllmEngine
from gateway.errors import EngineGone
from tests.engines.reading import LONG, job, read
from tests.engines.vllm.real import inside, real, try_on
from tests.support.live import until

GONE = 30.0
"""Seconds that a process may take to end: `parent_watch.GRACE` and time for the interpreter."""


def processes(engine: VllmEngine) -> list[Any]:
    """Return EngineCore and its child processes."""
    import psutil

    (core,) = inside(engine).engine_core.resources.engine_manager.processes
    process = psutil.Process(core.pid)
    return [process, *process.children(recursive=True)]


@real
def test_a_death_is_noticed_while_there_are_no_jobs(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        processes(engine)[0].kill()
        await until(lambda: engine.health is Health.DEAD)
        with pytest.raises(EngineGone):
            await read(engine, job("late"))
        assert engine.unfinished == 0

    try_on(subject, work)


@real
def test_a_death_ends_running_jobs_in_a_fault_and_a_new_engine_can_start(
    subject: EngineSubject,
) -> None:
    async def work(engine: VllmEngine) -> None:
        async with aclosing(engine.translate(job("in flight", LONG))) as chunks:
            await anext(chunks)
            processes(engine)[0].kill()
            with pytest.raises(EngineGone):
                while True:
                    await anext(chunks)
        assert engine.unfinished == 0
        await until(lambda: engine.health is Health.DEAD)

    async def again(engine: VllmEngine) -> None:
        assert await read(engine, job("again"))

    try_on(subject, work)
    try_on(subject, again)


@real
def test_engine_core_finishes_running_requests_when_it_is_told_to_end(
    subject: EngineSubject,
) -> None:
    async def work(engine: VllmEngine) -> None:
        whole = await read(engine, job("undisturbed", LONG))
        async with aclosing(engine.translate(job("running", LONG))) as chunks:
            text = (await anext(chunks)).text
            processes(engine)[0].send_signal(signal.SIGTERM)
            text += "".join([chunk.text async for chunk in chunks])
        assert text == whole
        with pytest.raises(EngineGone):
            await read(engine, job("late"))
        await until(lambda: engine.health is Health.DEAD)

    try_on(subject, work)


@real
def test_closing_leaves_no_process_behind(subject: EngineSubject) -> None:
    import psutil

    async def work(engine: VllmEngine) -> None:
        running = processes(engine)
        await engine.aclose()
        _, alive = await asyncio.to_thread(psutil.wait_procs, running, timeout=GONE)
        assert not alive

    try_on(subject, work)


PARENT = """
import asyncio, sys
from gateway.engines import profiles
from gateway.engines.vllm.engine import VllmEngine
from gateway.engines.vllm.engine import VllmOptions
from tests.engines.reading import LONG, TEXT, job, read
from tests.engines.vllm_factory import SETTINGS

async def main():
    await VllmEngine(sys.argv[1], profiles.load("embedded"), VllmOptions(**SETTINGS)).start()
    print("READY", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@real
def test_engine_processes_ignore_ctrl_c_and_end_when_the_gateway_is_killed(
    model: Path,
) -> None:
    """The processes are spawned and load the plugin, as in production."""
    import psutil

    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "VLLM_PLUGINS"},
    )
    assert parent.stdout is not None
    with parent:
        try:
            log = []
            for line in parent.stdout:
                log.append(line)
                if line == "READY\n":
                    break
            else:
                pytest.fail("".join(log))
            running = psutil.Process(parent.pid).children(recursive=True)
            ours = [process for process in running if "VLLM" in process.name()]
            assert ours
            group = os.getpgid(parent.pid)
            assert group not in [os.getpgid(process.pid) for process in ours]
        finally:
            parent.kill()
        _, alive = psutil.wait_procs(running, timeout=GONE)
        for process in alive:
            process.kill()
        assert not alive
