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
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from websockets.asyncio.client import connect

from benchmarks.host import answers
from benchmarks.ports import free_port
from gateway.engines.base.engine import Engine
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import CloseCode
from gateway.server.vllm_plugin import plugin as module
from gateway.server.vllm_plugin.plugin import Plugin, plugin_settings
from gateway.settings.catalogue import SettingsError
from tests.support.live import until
from tests.support.models import tiny_llama
from tests.support.redis import RedisServer
from tests.support.talk import Talk

ROOT = Path(__file__).resolve().parents[3]

CROWD = 16
"""Sockets of one test. One of two processes accepts all of them once in 32,768 runs."""


def args(**fields: Any) -> Namespace:
    return Namespace(**{"port": 8000, "shutdown_timeout": 11} | fields)


class Client:
    """A fake of the parts of `AsyncLLM` that the plugin uses."""

    def __init__(self, servers: int = 1) -> None:
        parallel = SimpleNamespace(_api_process_count=servers)
        self.vllm_config = SimpleNamespace(parallel_config=parallel)
        self.ended: list[float | None] = []

    def shutdown(self, timeout: float | None = None) -> None:
        self.ended.append(timeout)


@contextlib.asynccontextmanager
async def beside_vllm(
    monkeypatch: pytest.MonkeyPatch,
    engine: Engine | None = None,
    *,
    servers: int = 1,
    port: int | None = None,
) -> AsyncIterator[tuple[Client, Plugin, int]]:
    """Run the gateway of one API server in this process on a scripted engine."""
    made = engine or ScriptedEngine(pace=0.05)
    monkeypatch.setattr(module, "around", lambda *_: made)
    port = port or free_port()
    monkeypatch.setenv("GATEWAY_PORT", str(port))
    client, plugin = Client(servers), Plugin()
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


async def test_several_api_servers_without_redis_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SettingsError, match="set GATEWAY_REDIS, or .* --api-server-count 1"):
        async with beside_vllm(monkeypatch, servers=2):
            pass


async def test_several_api_servers_with_redis_share_a_port_and_a_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with RedisServer(tmp_path) as redis:
        monkeypatch.setenv("GATEWAY_REDIS", redis.url)
        async with (
            beside_vllm(monkeypatch, servers=2) as (_, one, port),
            beside_vllm(monkeypatch, servers=2, port=port) as (_, two, _),
            contextlib.AsyncExitStack() as stack,
        ):
            assert one.gateway is not None and two.gateway is not None
            servers = [one.gateway.server, two.gateway.server]
            for server in servers:
                assert server is not None
                await server.opened.wait()
            url = f"ws://127.0.0.1:{port}/v1/ws?room=r&from=en&to=de"
            talks = []
            for _ in range(CROWD):
                talks.append(Talk(await stack.enter_async_context(connect(url))))
                await talks[-1].next()
            counts = [len(server._hub.sessions) for server in servers if server is not None]
            assert sum(counts) == CROWD and min(counts) > 0, "both have sockets of the room"
            await talks[0].send("good morning")
            ends = [(await talk.until("final"))[-1] for talk in talks]
            assert len({(end["id"], end["seq"], end["text"]) for end in ends}) == 1


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
    for name, value in (("LAN", "1"), ("CERTFILE", "x"), ("HOST", "0.0.0.0")):
        with pytest.raises(SettingsError):
            plugin_settings(args(), {f"GATEWAY_{name}": value})


@contextlib.contextmanager
def serving(tmp_path: Path, redis: str) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
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
        "GATEWAY_REDIS": redis,
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
    async def ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        said = f"serving on 127.0.0.1:{port}"
        while (await asyncio.to_thread(log.read_text, errors="replace")).count(said) < 2:
            assert process.poll() is None, f"it ended; see {log}"
            await asyncio.sleep(0.2)
        await until(lambda: answers(f"http://127.0.0.1:{port}/readyz"))

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
        with RedisServer(tmp_path) as redis, serving(tmp_path, redis.url) as (process, port, log):
            await ready(process, port, log)
            there = [asyncio.Event() for _ in range(CROWD)]
            readers = [asyncio.create_task(seen(port, one)) for one in there]
            await asyncio.gather(*(one.wait() for one in there))
            url = f"ws://127.0.0.1:{port}/v1/ws?room=demo&from=en"
            async with connect(url, max_queue=None) as ws:
                for n in range(3):
                    await ws.send(f"hello number {n}")
                assert len(set(await asyncio.gather(*readers))) == 1
                process.terminate()
                assert (await Talk(ws).until("goaway"))[-1]["in_ms"] == 7000
                assert (await Talk(ws).closed())[0] == CloseCode.GOAWAY

    await main()
