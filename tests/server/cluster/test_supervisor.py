"""Workers that fail, and what becomes of their rooms."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from websockets.asyncio.client import connect

from benchmarks.ports import free_port
from gateway.auth import api_keys
from gateway.server.cluster import supervisor as module
from gateway.server.cluster.socket_folder import socket_folder
from gateway.server.cluster.supervisor import WorkerSupervisor
from gateway.server.cluster.worker import WorkerConfig
from gateway.settings.catalogue import Settings
from tests.engines.openai_factory import shout
from tests.engines.openai_server import Server
from tests.server.cluster.several import ROOMS, samples
from tests.support.live import until
from tests.support.talk import Talk


@contextlib.asynccontextmanager
async def supervised() -> AsyncIterator[tuple[WorkerSupervisor, int]]:
    """Run two workers whose supervisor is in this process; yield it and their port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        folder = socket_folder()
        settings = Settings(
            engine="scripted", port=port, workers=2, signing_key="x" * 32, log_level="warning"
        )
        made = WorkerSupervisor(settings, folder, None)
        running = asyncio.create_task(made.run())
        try:
            await until(lambda: made._announced or running.done())
            yield made, port
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            assert await running == 0
            for left in folder.iterdir():
                left.unlink()
            folder.rmdir()


def changed(part: str, name: str, value: float) -> str:
    """Return the program of a worker with another value of a constant of the package."""
    change = f" from gateway.server.cluster import {part}; {part}.{name} = {value};"
    return module.WORKER_CODE.replace(" from gateway", change + " from gateway", 1)


def get(port: int, path: str) -> tuple[int, str]:
    """Return the status and the body of a response."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


async def test_a_room_whose_worker_does_not_come_back_in_time_is_refused_and_no_other_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RESTART_S", (60.0, 60.0))
    monkeypatch.setattr(module, "WORKER_CODE", changed("routing", "HOLD_S", 0.1))
    async with supervised() as (made, port):
        made._processes[1].kill()
        await until(lambda: 1 not in made._processes)
        path = f"/v1/rooms/{ROOMS[1]}/transcript.txt"
        assert (await asyncio.to_thread(get, port, path))[0] == 503
        shown = samples((await asyncio.to_thread(get, port, "/metrics"))[1])
        assert (shown['gateway_up{worker="0"}'], shown['gateway_up{worker="1"}']) == (1, 0)
        assert shown['gateway_handover_total{how="refused",worker="0"}'] == 1
        assert shown['gateway_handover_held{worker="0"}'] == 0
        async with connect(f"ws://127.0.0.1:{port}/v1/ws?room={ROOMS[0]}&to=de") as ws:
            await Talk(ws).send("this one is here")
            await Talk(ws).until("final")


async def test_a_worker_that_fails_again_and_again_is_retired_and_the_others_have_its_rooms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RESTART_S", (0.01, 0.01))
    monkeypatch.setattr(module, "FAILURES", 3)
    async with supervised() as (made, port):
        while 1 in made._members:
            process = made._processes.get(1)
            if process is not None and process.returncode is None:
                process.kill()
            await asyncio.sleep(0)
        async with connect(f"ws://127.0.0.1:{port}/v1/ws?room={ROOMS[1]}&to=de") as ws:
            client = Talk(ws)
            assert (await client.next())["room"] == ROOMS[1]
            await client.send("it is taken over")
            await client.until("final")
        shown = samples((await asyncio.to_thread(get, port, "/metrics"))[1])
        assert shown['gateway_up{worker="0"}'] == 1
        assert shown['gateway_up{worker="1"}'] == 0, "a retired worker is still listed"


async def test_the_last_worker_that_is_retired_ends_the_gateway_with_status_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "FAILURES", 1)
    settings = Settings(
        engine="scripted", port=0, workers=1, signing_key="x" * 32, log_level="warning"
    )
    made = WorkerSupervisor(settings, tmp_path, None)
    running = asyncio.create_task(made.run())
    await until(lambda: made._announced)
    made._processes[0].kill()
    assert await running == 1


async def test_a_worker_that_stops_reporting_is_killed_and_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Workers report ten times as often, so that only the stopped one is late on a busy machine.
    monkeypatch.setattr(module, "WORKER_CODE", changed("worker", "REPORT_S", 0.1))
    monkeypatch.setattr(module, "LATE_S", 2.0)
    monkeypatch.setattr(module, "HANG_S", 4.0)
    async with supervised() as (made, port):
        first = made._processes[1]
        first.send_signal(signal.SIGSTOP)
        await until(lambda: made._processes.get(1) not in (None, first) and 1 in made._ready)
        async with connect(f"ws://127.0.0.1:{port}/v1/ws?room={ROOMS[1]}&to=de") as ws:
            await Talk(ws).send("it is there again")
            await Talk(ws).until("final")
        shown = samples((await asyncio.to_thread(get, port, "/metrics"))[1])
        assert shown['gateway_worker_starts_total{worker="0"}'] == 1
        assert shown['gateway_worker_starts_total{worker="1"}'] == 2
    said = [record.getMessage() for record in caplog.records]
    assert "worker 1 has not reported for 2 s" in said
    assert "worker 1 hangs and is killed" in said
    assert not any("worker 0" in line for line in said)


async def test_a_sighup_during_the_start_reaches_the_workers_when_they_are_ready(
    tmp_path: Path,
) -> None:
    shown, entry = api_keys.create_key(
        api_keys.ApiKey(id="0" * 8, name="a", hash="0" * 64), "0" * 64
    )
    file = tmp_path / "keys.toml"
    file.write_text(entry)
    settings = Settings(engine="scripted", port=0, workers=1, signing_key="x" * 32, keys=str(file))
    made = WorkerSupervisor(settings, tmp_path, None)
    running = asyncio.create_task(made.run())
    await until(lambda: bool(made._processes))
    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: bool(made._reload_when_ready))
    await until(lambda: made._announced or running.done())
    assert made._announced and not made._reload_when_ready
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0


async def test_a_worker_that_is_slow_to_start_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "SLOW_S", 0.1)
    settings = Settings(engine="scripted", port=0, workers=1, signing_key="x" * 32)
    made = WorkerSupervisor(settings, tmp_path, None)
    running = asyncio.create_task(made.run())
    await until(lambda: bool(made._processes))
    made._processes[0].send_signal(signal.SIGSTOP)
    await until(lambda: len(caplog.records) > 1)
    made._processes[0].send_signal(signal.SIGCONT)
    await until(lambda: made._announced)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0
    assert "worker 0 is not ready after 0 s" in caplog.records[0].getMessage()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
async def test_a_worker_that_somebody_ends_before_all_are_ready_is_started_again(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, sign: signal.Signals
) -> None:
    settings = Settings(engine="scripted", port=0, workers=2, signing_key="x" * 32)
    made = WorkerSupervisor(settings, tmp_path, None)
    running = asyncio.create_task(made.run())
    await until(lambda: bool(made._processes))
    made._processes[0].send_signal(sign)
    await until(lambda: made._announced or running.done())
    assert made._announced and made._starts[0] == 2
    assert f"worker 0 ended with status {-sign}" in caplog.text
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0


async def test_the_remaining_workers_are_announced_if_one_is_retired_before_it_is_ready(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "FAILURES", 1)
    settings = Settings(engine="scripted", port=0, workers=2, signing_key="x" * 32)
    made = WorkerSupervisor(settings, tmp_path, None)
    running = asyncio.create_task(made.run())
    await until(lambda: 1 in made._processes)
    made._processes[1].kill()
    await until(lambda: made._announced)
    assert "1 worker: scripted is ready." in capfd.readouterr().err
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0


@pytest.mark.parametrize(("status", "whole"), [(3, 3), (0, 1)])
async def test_a_worker_that_ends_by_itself_during_the_start_ends_the_gateway(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    status: int,
    whole: int,
) -> None:
    monkeypatch.setattr(
        module, "WORKER_CODE", f"import sys; sys.stdin.readline(); sys.exit({status})"
    )
    settings = Settings(engine="scripted", port=0, workers=2, signing_key="x" * 32)
    assert await WorkerSupervisor(settings, tmp_path, None).run() == whole
    assert f"ended with status {status}" in caplog.text
    assert "not all workers could be started" in caplog.text


def test_a_worker_whose_supervisor_is_gone_at_its_start_does_not_listen(tmp_path: Path) -> None:
    settings = Settings(engine="scripted", port=0, workers=1, signing_key="x" * 32)
    brief = WorkerConfig(settings=settings, member=0, members=(0,), folder=str(tmp_path))
    made = subprocess.run(
        [sys.executable, "-c", module.WORKER_CODE, *sys.path],
        input=msgspec.json.encode(brief) + b"\n",
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert made.stdout == b"", "it was never ready"
    assert b"the process that started this worker is gone" in made.stderr
    assert b"Traceback" not in made.stderr


async def test_a_worker_whose_engine_does_not_start_is_not_retired(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "FAILURES", 2)
    monkeypatch.setattr(module, "RESTART_S", (0.01, 0.01))
    port = free_port()
    with Server(owner="vllm", default=shout, port=port) as first:
        settings = Settings(
            engine="openai", openai_url=first.url, port=0, workers=1, signing_key="x" * 32
        )
        made = WorkerSupervisor(settings, tmp_path, None)
        running = asyncio.create_task(made.run())
        await until(lambda: made._announced)
    made._processes[0].kill()
    await until(lambda: caplog.text.count("No model server answers") > module.FAILURES)
    with Server(owner="vllm", default=shout, port=port):
        await until(lambda: 0 in made._ready)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0


async def test_a_worker_whose_process_cannot_be_created_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with supervised() as (made, _):
        other = made._processes[0]
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", "/nowhere/python")
            made._processes[1].kill()
            await until(lambda: "worker 1 cannot be started" in caplog.text)
        await until(lambda: 1 in made._ready)
        assert made._processes[0] is other


async def test_workers_import_nothing_from_their_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gateway").mkdir()
    (tmp_path / "gateway" / "__init__.py").write_text("raise ImportError('somebody else')")
    (tmp_path / "logging.py").write_text("raise ImportError('somebody else')")
    monkeypatch.setattr(sys, "path", [one or os.getcwd() for one in sys.path])
    monkeypatch.chdir(tmp_path)
    async with supervised() as (made, _):
        assert made._announced


async def test_a_worker_that_had_to_be_killed_makes_the_exit_status_nonzero(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "LAST_S", 0.1)
    monkeypatch.setattr(module, "KILL_S", 0.1)
    settings = Settings(engine="scripted", port=0, workers=1, signing_key="x" * 32, drain_s=0.1)
    made = WorkerSupervisor(settings, tmp_path, None)
    running = asyncio.create_task(made.run())
    await until(lambda: made._announced)
    made._processes[0].send_signal(signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == signal.SIGKILL
    assert "worker 0 ended with status -9" in caplog.text


async def test_the_end_of_the_watch_on_the_file_of_keys_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async def watch(changed: object) -> None:
        raise ValueError("a bug")

    settings = Settings(engine="scripted", port=0, workers=1, signing_key="x" * 32)
    made = WorkerSupervisor(settings, tmp_path, None)
    monkeypatch.setattr(made._authenticator, "watch_keys", watch)
    running = asyncio.create_task(made.run())
    await until(lambda: made._announced)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0
    assert "the file of keys is no longer watched" in caplog.text
