"""The gateway inside ``vllm serve``: with a fake client, and with vLLM on the CPU."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import urllib.request
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from websockets.asyncio.client import connect

from benchmarks.ports import free_port
from gateway.engines.base.engine import Engine
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import CloseCode
from gateway.server.vllm_plugin import plugin as module
from gateway.server.vllm_plugin.plugin import Plugin, plugin_settings, shared_key
from gateway.settings.catalogue import SettingsError
from tests.server.cluster.several import samples
from tests.support.live import until
from tests.support.models import tiny_llama
from tests.support.talk import Talk

ROOT = Path(__file__).resolve().parents[3]


def args(**fields: Any) -> Namespace:
    return Namespace(**{"port": 8000, "shutdown_timeout": 11} | fields)


class Client:
    """A fake of the parts of `AsyncLLM` that the plugin uses."""

    def __init__(self) -> None:
        parallel = SimpleNamespace(_api_process_rank=0, _api_process_count=1)
        self.vllm_config = SimpleNamespace(parallel_config=parallel)
        self.ended: list[float | None] = []

    def shutdown(self, timeout: float | None = None) -> None:
        self.ended.append(timeout)


@contextlib.asynccontextmanager
async def beside_vllm(
    monkeypatch: pytest.MonkeyPatch, engine: Engine | None = None
) -> AsyncIterator[tuple[Client, Plugin, int]]:
    """Run the gateway in this process on a scripted engine."""
    made = engine or ScriptedEngine(pace=0.05)
    monkeypatch.setattr(module, "around", lambda *_: made)
    port = free_port()
    monkeypatch.setenv("GATEWAY_PORT", str(port))
    client, plugin = Client(), Plugin()
    await plugin.init_state(client, None, args())
    assert plugin.gateway is not None
    try:
        yield client, plugin, port
    finally:
        await plugin.gateway.drain()


async def test_the_gateway_serves_beside_vllm_and_drains_before_the_engine_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with beside_vllm(monkeypatch) as (client, plugin, port):
        assert plugin.gateway is not None and plugin.gateway.server is not None
        await plugin.gateway.server.opened.wait()
        async with connect(f"ws://127.0.0.1:{port}/v1/ws?from=en&to=de") as ws:
            talk = Talk(ws)
            await talk.send("one two three four five")
            await talk.until("delta")
            ending = asyncio.create_task(asyncio.to_thread(client.shutdown, timeout=8))
            assert (await talk.until("final"))[-1]["text"].endswith("five")
            assert not client.ended
            assert (await talk.closed())[0] == CloseCode.GOAWAY
            await ending
        assert client.ended == [8]
        client.shutdown(timeout=1)  # vLLM does it twice
        assert client.ended == [8, 1]


async def test_vllm_ends_with_a_gateway_whose_engine_cannot_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(ScriptedEngine):
        async def start(self) -> None:
            raise ValueError("a bug")

    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *given: killed.append(given))
    async with beside_vllm(monkeypatch, Broken()):
        await until(lambda: killed == [(os.getpid(), signal.SIGTERM)])


async def test_without_an_engine_there_is_nothing_to_serve() -> None:
    plugin = Plugin()
    plugin.attach_router(None)
    await plugin.init_state(None, None, args())
    assert plugin.gateway is None


def test_the_plugin_reads_its_settings_from_variables_and_vllms_arguments() -> None:
    settings = plugin_settings(args(port=9000), {})
    assert (settings.port, settings.drain_s) == (9001, 10.0)
    assert plugin_settings(args(shutdown_timeout=0), {"GATEWAY_PORT": "7000"}).port == 7000
    assert plugin_settings(args(shutdown_timeout=0), {}).drain_s == 0
    for name, value in (("WORKERS", "2"), ("LAN", "1"), ("CERTFILE", "x"), ("HOST", "0.0.0.0")):
        with pytest.raises(SettingsError):
            plugin_settings(args(), {f"GATEWAY_{name}": value})


def test_processes_that_use_one_directory_share_a_signing_key(tmp_path: Path) -> None:
    first = shared_key(tmp_path)
    assert len(first) == 64 and shared_key(tmp_path) == first
    assert [one.name for one in tmp_path.iterdir()] == ["key"]


@contextlib.contextmanager
def serving(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """Run ``vllm serve`` with two API servers; yield it, the gateway's port and its log."""
    for name, version, entries in (
        # Whether or not this tree is installed; and a build of another name has no "vllm".
        ("plugin_of_the_tests", "0", "caption_gateway = gateway.server.vllm_plugin.plugin:Plugin"),
        ("vllm", "0.32.0+cpu", ""),
    ):
        info = tmp_path / "path" / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[vllm.endpoint_plugins]\n{entries}\n")
    model, log = tiny_llama(tmp_path / "model", head=32), tmp_path / "log"
    port, own = free_port(), free_port()
    environ = {
        "PYTHONPATH": f"{ROOT}:{tmp_path / 'path'}",
        "VLLM_PLUGINS": "caption_gateway,caption_gateway_orphan",
        "VLLM_NO_USAGE_STATS": "1",
        "GATEWAY_PORT": str(own),
        "GATEWAY_PROFILE": "embedded",
        "GATEWAY_GUARDS": "off",
    }
    with log.open("wb") as file:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model)),
                *("--port", str(port), "--api-server-count", "2", "--dtype", "float32"),
                *("--max-num-seqs", "4", "--max-num-batched-tokens", "2048"),
                *("--max-model-len", "512", "--enforce-eager", "--shutdown-timeout", "8"),
                *("--kv-cache-memory-bytes", str(64 * 2**20)),
            ],
            cwd=ROOT,
            env=os.environ | environ,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            yield process, own, log
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.vllm
@pytest.mark.timeout(600)
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed here")
async def test_readers_at_different_api_servers_see_the_same_captions(
    tmp_path: Path,
) -> None:
    def scrape(port: int) -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            return samples(page.read().decode())

    async def ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        while True:
            assert process.poll() is None, f"it ended; see {log}"
            with contextlib.suppress(OSError):
                found = await asyncio.to_thread(scrape, port)
                if found.get('gateway_up{worker="0"}') == found.get('gateway_up{worker="1"}') == 1:
                    return
            await asyncio.sleep(0.2)

    async def seen(port: int, there: asyncio.Event) -> tuple[Any, ...]:
        url = f"ws://127.0.0.1:{port}/v1/ws?room=demo&role=view&to=de&view=final"
        events: list[Any] = []
        async with connect(url, max_queue=None) as ws:
            await ws.recv()
            there.set()
            while len(events) < 6:
                event = json.loads(await ws.recv())
                if event["type"] in ("source", "final", "failed"):
                    events.append((event["seq"], event["type"], event.get("text")))
        return tuple(events)

    async def main() -> None:
        with serving(tmp_path) as (process, port, log):
            await ready(process, port, log)
            there = [asyncio.Event() for _ in range(16)]
            readers = [asyncio.create_task(seen(port, one)) for one in there]
            await asyncio.gather(*(one.wait() for one in there))
            url = f"ws://127.0.0.1:{port}/v1/ws?room=demo&from=en"
            async with connect(url, max_queue=None) as ws:
                for n in range(3):
                    await ws.send(f"hello number {n}")
                assert len(set(await asyncio.gather(*readers))) == 1
                found = await asyncio.to_thread(scrape, port)
                sent = [found[f'gateway_handover_total{{how="sent",worker="{n}"}}'] for n in (0, 1)]
                assert sum(sent) > 0
                process.terminate()
                assert (await Talk(ws).until("goaway"))[-1]["in_ms"] == 7000
                assert (await Talk(ws).closed())[0] == CloseCode.GOAWAY

    await main()
