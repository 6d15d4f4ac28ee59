"""Rooms that continue after a restart, and rooms that are deleted."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import httpx2 as httpx

from gateway.core.session.connect_request import ConnectRequest
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.server.runtime.fleet import Fleet
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost
from gateway.storage.sqlite.store import SqliteStore
from tests.support.live import running, until
from tests.support.talk import Talk, talk


def store(tmp_path: Path, *, keep_s: float = 0.0) -> SqliteStore:
    return SqliteStore(tmp_path / "rooms.db", Limits(), keep_s=keep_s)


def on_disk(tmp_path: Path) -> bytes:
    return b"".join(path.read_bytes() for path in tmp_path.iterdir())


async def said(talking: Talk, text: str) -> dict[str, object]:
    """Send a line and return its caption."""
    await talking.send(text)
    return (await talking.until("final"))[-1]


async def test_a_room_continues_after_a_restart_with_all_its_durable_events(
    tmp_path: Path,
) -> None:
    async with running(store=store(tmp_path)) as live, talk(live, "?room=a&to=de") as before:
        welcome = await before.next()
        await before.send({"type": "set", "glossary": {"standup": "Standup"}})
        last = await said(before, "good morning")
    async with (
        running(store=store(tmp_path)) as live,
        talk(live, "?room=a&to=de,fr") as after,
        httpx.AsyncClient(base_url=live.http) as client,
    ):
        again = await after.next()
        assert again["epoch"] == welcome["epoch"]
        recalled = (await after.until("final"))[-1]
        assert (recalled["seq"], recalled["text"]) == (last["seq"], "[de] good morning")
        backfilled = (await after.until("final"))[-1]
        assert (backfilled["lang"], backfilled["text"]) == ("fr", "[fr] good morning")
        assert live.hub.rooms["a"].translation_context.terms("our standup", "de") == (
            ("standup", "Standup"),
        )
        new = await said(after, "next")
        assert isinstance(new["seq"], int) and isinstance(last["seq"], int)
        assert new["seq"] > last["seq"] and new["ord"] == 2
        page = await client.get("/v1/rooms/a/transcript.txt?lang=de")
        assert "[de] good morning" in page.text and "[de] next" in page.text


async def test_a_room_that_is_forgotten_leaves_nothing_in_memory_or_on_disk(tmp_path: Path) -> None:
    kept = store(tmp_path, keep_s=1000.0)
    async with (
        running(store=kept) as live,
        talk(live, "?room=a&to=de") as reader,
        httpx.AsyncClient(base_url=live.http) as client,
    ):
        await said(reader, "a very private sentence")
        await kept.flush()
        assert b"very private" in on_disk(tmp_path)
        answer = await client.delete("/v1/rooms/a")
        assert answer.status_code == 204
        assert (await reader.closed())[0] == 4410
        assert "a" not in live.hub.rooms
        missing = await client.get("/v1/rooms/a/transcript.txt")
        assert missing.status_code == 404
        assert (await client.delete("/v1/rooms/a")).status_code == 404
    assert b"very private" not in on_disk(tmp_path)


async def test_a_room_is_ended_and_forgotten_without_a_store_too() -> None:
    async with (
        running() as live,
        talk(live, "?room=a&to=de") as reader,
        httpx.AsyncClient(base_url=live.http) as client,
    ):
        await said(reader, "hello")
        assert (await client.delete("/v1/rooms/a")).status_code == 204
        assert (await reader.closed())[0] == 4410


async def test_a_transcript_of_an_ended_room_comes_from_the_store(tmp_path: Path) -> None:
    kept = store(tmp_path, keep_s=1000.0)
    async with running(store=kept) as live:
        async with talk(live, "?room=a&to=de") as reader:
            await said(reader, "hello")
        live.hub.fleet.end(live.hub.rooms["a"])
        async with httpx.AsyncClient(base_url=live.http) as client:
            page = await client.get("/v1/rooms/a/transcript.srt?lang=de")
        assert page.status_code == 200 and "[de] hello" in page.text


async def test_a_room_deleted_while_it_is_loaded_does_not_come_back(
    tmp_path: Path,
) -> None:
    for turns in range(20):  # of the loop, until it is forgotten: each may be the worst
        folder = tmp_path / f"{turns}"
        folder.mkdir()
        async with contextlib.AsyncExitStack() as stack:
            for text in ("a very private sentence", None):
                kept = store(folder)
                await kept.open()
                stack.push_async_callback(kept.close)
                hub = Hub(host := RoomHost(ScriptedEngine(), Limits()), Fleet(host, kept))
                if text is not None:
                    await hub.fetch("a")
                    hub.receive(hub.open(ConnectRequest(room="a")), text)
                    await kept.close()
            fetching = asyncio.create_task(hub.fetch("a"))
            for _ in range(turns):
                await asyncio.sleep(0)
            assert await hub.forget("a")
            await fetching
            assert "a" not in hub.rooms or len(hub.rooms["a"].log) == 0
            await hub.fetch("a")
            hub.receive(hub.open(ConnectRequest(room="a")), "after it")
            await kept.flush()
            assert b"after it" in on_disk(folder)


async def test_an_evicted_room_has_not_ended(tmp_path: Path) -> None:
    kept = SqliteStore(tmp_path / "rooms.db", Limits())
    async with running(store=kept, limits=Limits(rooms=1)) as live:
        async with talk(live, "?room=a&to=de") as client:
            await said(client, "hello")
        await until(lambda: not live.hub.sessions)
        async with talk(live, "?room=b") as client:
            await client.next()
            assert list(live.hub.rooms) == ["b"]
        await until(lambda: not live.hub.sessions)
        async with talk(live, "?room=a&to=de") as client:
            assert (await client.until("final"))[-1]["text"] == "[de] hello"
