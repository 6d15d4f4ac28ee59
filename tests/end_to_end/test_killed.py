"""SIGKILL to the gateway and to the process of an engine, at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2 as httpx
from websockets.asyncio.client import connect

from benchmarks.ports import free_port
from benchmarks.soak.child import Child
from gateway.engines.base.service import Health
from gateway.engines.openai.engine import OpenAIEngine
from tests.support.live import running, until
from tests.support.talk import Talk, talk

ROOT = Path(__file__).resolve().parents[2]
Event = dict[str, Any]


# --- the gateway ------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def kept(tmp_path: Path, *flags: str) -> AsyncIterator[Child]:
    """Run a gateway with a store in a process of its own."""
    store = f"sqlite:{tmp_path / 'rooms.db'}"
    child = Child(("--engine", "scripted", "--store", store, *flags), tmp_path / "log")
    await child.start()
    try:
        yield child
    finally:
        await child.kill()


@contextlib.asynccontextmanager
async def come(child: Child, query: str) -> AsyncIterator[Talk]:
    async with connect(f"ws://127.0.0.1:{child.port}/v1/ws?{query}", max_size=None) as ws:
        yield Talk(ws)


async def get(child: Child, path: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{child.port}") as client:
        return await client.get(path)


async def written(child: Child) -> None:
    """Wait until the store has written every event."""
    while "gateway_store_behind 0.0" not in (await get(child, "/metrics")).text:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def back(welcome: Event, seq: int) -> str:
    return f"resume={quote(welcome['resume'])}&epoch={welcome['epoch']}&seq={seq}"


def seqs(events: list[Event]) -> list[int]:
    return [e["seq"] for e in events if "seq" in e and e["type"] not in ("welcome", "tick")]


async def test_after_a_kill_stored_events_remain_and_their_readers_resume_without_a_gap(
    tmp_path: Path,
) -> None:
    async with kept(tmp_path) as child:
        async with come(child, "room=a&to=de") as client:
            welcome = await client.next()
            await client.send({"type": "say", "id": "x", "text": "one"})
            first = (await client.until("final"))[-1]
            await client.send({"type": "say", "id": "y", "text": "two"})
            last = (await client.until("final"))[-1]
            await written(child)
            await child.kill()
        await child.start()
        async with come(child, back(welcome, last["seq"])) as whole:
            hello = await whole.next()
            assert hello["resumed"] == {"ok": True, "replayed": 0}
            assert hello["session"] == welcome["session"]
            assert hello["epoch"] != welcome["epoch"], "numbers may have been given twice"
            await whole.send({"type": "say", "id": "z", "text": "three"})
            events = await whole.until("final")
            assert seqs(events) == [last["seq"] + 1, last["seq"] + 2]
        async with come(child, back(welcome, first["seq"])) as behind:
            hello = await behind.next()
            assert hello["resumed"] == {"ok": True, "replayed": 4}
            events = [*(await behind.until("final")), *(await behind.until("final"))]
            assert seqs(events) == list(range(first["seq"] + 1, last["seq"] + 3))


async def test_a_reader_that_saw_events_lost_in_a_kill_is_told_so(tmp_path: Path) -> None:
    async with kept(tmp_path) as child:
        async with come(child, "room=a&to=de") as client:
            welcome = await client.next()
            await client.send({"type": "say", "id": "x", "text": "one"})
            await client.until("final")
            await written(child)
            await client.send({"type": "say", "id": "y", "text": "two"})
            seen = (await client.until("final"))[-1]
            await child.kill()  # now, and not after it is written: or so it was meant
        await child.start()
        page = (await get(child, "/v1/rooms/a/transcript.json?lang=de")).json()
        made = [
            line["id"] for line in page["utterances"] if line["captions"].get("de", {}).get("text")
        ]
        assert made[0] == "x"
        async with come(child, back(welcome, seen["seq"])) as client:
            hello = await client.next()
            resumed = hello["resumed"]
            assert resumed["ok"] is ("y" in made), "never a silent gap"
            if not resumed["ok"]:
                assert resumed["transcript"] == "/v1/rooms/a/transcript.json"
                assert resumed["from"] <= hello["seq"] + 1
        async with come(child, back(welcome, seen["seq"] + 1000)) as client:
            assert not (await client.next())["resumed"]["ok"], "so much was never written"


async def test_after_a_kill_final_text_is_translated_and_growing_text_is_dropped(
    tmp_path: Path,
) -> None:
    async with kept(tmp_path, "--scripted-pace", "30") as child:
        async with come(child, "room=a&to=de") as client:
            welcome = await client.next()
            await client.send({"type": "say", "id": "x", "text": "one two three"})
            source = (await client.until("source"))[-1]
            await client.until("delta")
            grown = {"type": "say", "id": "y", "text": "four five", "final": False}
            await client.send(grown)
            await client.until("ack")
            await written(child)
            await child.kill()
        await child.start()
        async with come(child, back(welcome, source["seq"])) as client:
            hello = await client.next()
            assert hello["resumed"]["ok"] and hello["epoch"] != welcome["epoch"]
            assert (await client.until("delta"))[-1]["id"] == "x"
            await client.send({"type": "get", "id": "y"})
            assert (await client.until("error"))[-1]["code"] == "not_found"
            await client.send(grown | {"rev": 2})
            assert (await client.until("ack"))[-1] == {
                "type": "ack", "id": "y", "rev": 2, "ord": source["ord"] + 1
            }  # fmt: skip


# --- the engine -------------------------------------------------------------------------------

MODEL = """
import sys, threading
from tests.engines.openai_factory import shout
from tests.engines.openai_server import Script, Server
from dataclasses import replace

def slowly(body):
    return replace(shout(body), pace=float(sys.argv[2]))

with Server(default=slowly, port=int(sys.argv[1])):
    print("ready", flush=True)
    threading.Event().wait()
"""


@contextlib.contextmanager
def model(port: int, pace: float) -> Iterator[subprocess.Popen[str]]:
    """Run a model server in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", MODEL, str(port), str(pace)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def test_captions_fail_when_the_engine_process_is_killed_and_the_room_goes_on() -> None:
    port = free_port()
    engine = OpenAIEngine(f"http://127.0.0.1:{port}/v1")
    with model(port, pace=0.2) as process:
        async with running(engine) as live, talk(live, "?room=a&from=en&to=de,fr") as client:
            await client.send({"type": "say", "id": "x", "text": "one two three four five six"})
            await client.until("delta")
            process.send_signal(signal.SIGKILL)
            process.wait()
            ends = [(await client.until("failed"))[-1] for _ in range(2)]
            assert {end["lang"] for end in ends} == {"de", "fr"}
            assert all(end["retry"] for end in ends)
            assert {end["code"] for end in ends} == {"engine_unavailable"}
            with model(port, pace=0.001):
                await until(lambda: engine.health is Health.READY)
                await client.send({"type": "say", "id": "y", "text": "seven"})
                finals = [(await client.until("final"))[-1] for _ in range(2)]
                assert {(end["id"], end["text"]) for end in finals} == {("y", "SEVEN")}
