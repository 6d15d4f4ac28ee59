"""Several processes with one file."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

import aiosqlite
import pytest

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.messages import Source
from gateway.storage.sqlite import store as module
from gateway.storage.sqlite.store import SqliteStore
from tests.support.disk import SECRET, Disk, names, texts


async def test_a_room_passes_from_one_process_to_the_next_with_all_events(
    disk: Disk,
) -> None:
    async with disk.open() as old, disk.open() as new:
        before = await old.claim("meeting")
        disk.say(before)
        claim = asyncio.create_task(new.claim("meeting"))
        disk.say(await new.claim("other"))  # is not held up
        disk.say(before, "the last caption")
        assert not claim.done()
        old.release("meeting")
        after = await claim
        assert (after.epoch, after.before) == (before.epoch, None)
        assert texts(after) == ["good morning", "the last caption"]


async def test_close_releases_all_rooms(disk: Disk) -> None:
    async with disk.open() as new:
        old = disk.store()
        await old.open()
        for name in "abc":
            disk.say(await old.claim(name))
        claims = [asyncio.create_task(new.claim(name)) for name in "abc"]
        await old.close()
        for claim in claims:
            assert texts(await claim) == ["good morning"]


async def test_a_room_that_is_not_released_is_busy(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HANDOVER_S", 0)

    async with disk.open() as one, disk.open() as two:
        log = await one.claim("meeting")
        disk.say(log)
        with pytest.raises(ClientFault) as refused:
            await two.claim("meeting")
        assert refused.value.code is ErrorCode.BUSY
        await one.flush()
        disk.time.wall += disk.limits.room_s + 1
        await two.flush()  # it looks for rooms that have ended; this one's process lives
        loaded = await two.load("meeting")
        assert loaded is not None and loaded.entries() == log.entries()


async def test_another_process_can_forget_a_room(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    async with disk.open() as one, disk.open() as two:
        log = await one.claim("meeting")
        other = await one.claim("other")
        disk.say(log, SECRET)
        await one.flush()
        assert await two.forget("meeting")
        disk.say(log, SECRET)
        disk.say(other)
        await one.flush()
        assert one.behind == 0
        assert await names(two) == ["other"]
    assert "forgotten" in caplog.text
    assert not disk.has(SECRET)
    assert disk.sql("SELECT count(*) FROM events") == [(1,)]


TAKE_TURNS = """
import asyncio, sys, time
from pathlib import Path
from gateway.storage.sqlite import file as database
from gateway.storage.sqlite import store as module
from gateway.limits import Limits
from gateway.protocol.messages import Source

module.POLL_S = 0.001

async def main(path, who, turns):
    store = module.SqliteStore(Path(path), Limits())
    await store.open()
    for turn in range(int(turns)):
        for name in ("shared", who):
            log = await store.claim(name)
            seq = log.seq + 1
            event = Source(seq=seq, id=f"{who}-{turn}", rev=1, ord=seq, lang="en", text=who)
            log.append(event, time.monotonic())
        store.release("shared")
        await store.flush()
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


def test_processes_that_share_a_file_neither_lose_nor_overwrite_anything(disk: Disk) -> None:
    turns = 30
    processes = [
        subprocess.Popen([sys.executable, "-c", TAKE_TURNS, str(disk.path), who, str(turns)])
        for who in "abc"
    ]
    assert [process.wait(50) for process in processes] == [0, 0, 0]

    disk.time.wall = time.time()

    async def said(store: SqliteStore, room: str) -> list[str]:
        events = (await store.claim(room)).since(0)
        assert events is not None
        return [event.id for event in events if isinstance(event, Source)]

    async def main() -> None:
        async with disk.open() as store:
            shared = await said(store, "shared")
            assert len(shared) == 3 * turns
            for who in "abc":
                own = [f"{who}-{turn}" for turn in range(turns)]
                assert [id for id in shared if id.startswith(who)] == own
                assert await said(store, who) == own

    asyncio.run(main())
    assert disk.sql("PRAGMA integrity_check") == [("ok",)]


async def test_a_file_that_another_process_creates_meanwhile_is_a_store(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = aiosqlite.Connection.execute_fetchall
    created = False

    async def create_after_the_first(
        self: aiosqlite.Connection, sql: str, parameters: Iterable[Any] = ()
    ) -> Iterable[sqlite3.Row]:
        nonlocal created
        rows = await fetch(self, sql, parameters)
        if not created:
            created = True
            async with disk.open():
                pass
        return rows

    monkeypatch.setattr(aiosqlite.Connection, "execute_fetchall", create_after_the_first)
    async with disk.open() as store:
        disk.say(await store.claim("meeting"))


async def test_a_cancelled_caller_leaves_a_complete_claim(disk: Disk) -> None:
    async with disk.open() as store:
        for turn in range(30):
            caller = asyncio.create_task(store.claim(f"room {turn}"))
            for _ in range(turn % 7):
                await asyncio.sleep(0)
            caller.cancel()
            await asyncio.wait([caller])
        await store.flush()
        for turn in range(30):
            disk.say(await store.claim(f"room {turn}"))
    assert disk.sql("SELECT count(*) FROM rooms") == [(30,)]
    assert disk.sql("SELECT count(*) FROM events") == [(30,)]
