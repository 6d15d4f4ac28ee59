"""Retention of rooms in the file, and erasing them completely."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3

import pytest

from gateway.limits import Limits
from gateway.protocol.messages import Retracted
from gateway.storage.base import StoreFault
from gateway.storage.sqlite import file
from gateway.storage.sqlite import store as module
from gateway.storage.sqlite.store import SWEEP_S
from tests.support.disk import SECRET, Disk, crash, names, texts
from tests.support.live import until


async def test_a_private_room_is_never_written(disk: Disk) -> None:
    async with disk.open() as store:
        log = await store.claim("~1f2e3d")
        disk.say(log, SECRET)
        await store.flush()
        assert (store.behind, await names(store)) == (0, [])
        store.end("~1f2e3d")
        await store.flush()
        assert (store.behind, await names(store)) == (0, [])
    assert not disk.has(SECRET) and not disk.has("1f2e3d")


async def test_an_ended_room_is_deleted_down_to_its_bytes(disk: Disk) -> None:
    async with disk.open() as store:
        disk.say(await store.claim("zork"), SECRET, times=50)
        disk.say(await store.claim("other"), times=50)
        await store.flush()
        assert disk.has(SECRET)
        store.end("zork")
        assert await names(store) == ["other"]
        assert await store.load("zork") is None
        await store.flush()
        assert not disk.has(SECRET) and not disk.has("zork")
        assert len(await store.claim("zork")) == 0


async def test_a_room_that_ends_before_it_is_written_leaves_no_trace(disk: Disk) -> None:
    async with disk.open() as store:
        disk.say(await store.claim("meeting"), SECRET)
        store.end("meeting")
        disk.say(await store.claim("meeting"), "afresh")
    assert not disk.has(SECRET)
    async with disk.open() as store:
        assert texts(await store.claim("meeting")) == ["afresh"]


async def test_forgotten_text_is_erased_from_every_page_of_the_file(disk: Disk) -> None:
    """Rows of many lengths make pages split, merge, overflow and be reused."""
    disk.limits = Limits(log=60)

    async with disk.open() as store:
        for turn in range(6):
            for room in range(12):
                log = await store.claim(f"room{room}of{turn % 3}")
                for length in range(1, 80, 3):
                    mark = f"mark{room}of{turn % 3}end"
                    disk.say(log, mark + "y" * (length * (room + 1)) + mark)
                await store.flush()
            for room in range(0, 12, 2):
                assert await store.forget(f"room{room}of{turn % 3}")
                assert not disk.has(f"mark{room}of{turn % 3}end")
                assert not disk.has(f"room{room}of{turn % 3}")
        assert disk.has("mark1of0end")


async def test_forget_removes_all_histories_and_tells_whether_there_were_any(
    disk: Disk,
) -> None:
    disk.keep_s = 3600

    async with disk.open() as store:
        for _ in range(2):
            disk.say(await store.claim("meeting"), SECRET)
            store.end("meeting")
        disk.say(await store.claim("meeting"), SECRET)
        await store.flush()
        assert disk.sql("SELECT count(*) FROM rooms") == [(3,)]
        assert await store.forget("meeting")
        assert not await store.forget("meeting")
        assert not disk.has(SECRET)
        assert await names(store) == []
    assert disk.sql("SELECT count(*) FROM rooms") == [(0,)]


async def test_a_forgotten_room_is_no_longer_written(disk: Disk) -> None:
    async with disk.open() as store:
        log = await store.claim("meeting")
        disk.say(log, SECRET)
        assert await store.forget("meeting")
        disk.say(log, SECRET)
        await store.flush()
        assert store.behind == 0
    assert not disk.has(SECRET)


async def test_text_of_withdrawn_utterances_is_erased_from_the_file(disk: Disk) -> None:
    async with disk.open() as store:
        log = await store.claim("meeting")
        disk.say(log, SECRET)
        disk.say(log, "stays")
        await store.flush()
        assert disk.has(SECRET)
        disk.say(log, SECRET)
        for ord in (1, 3):
            log.erase(ord)
            log.append(Retracted(seq=log.seq + 1, id=f"u{ord}", ord=ord), disk.time.clock())
        await store.flush()
        assert not disk.has(SECRET)
    async with disk.open() as store:
        restored = await store.claim("meeting")
        assert restored.entries() == log.entries()
        assert texts(restored) == ["", "stays", ""]


async def test_an_ended_room_is_kept_for_reading_but_not_continued(
    disk: Disk,
) -> None:
    disk.keep_s = 3600

    async with disk.open() as store:
        old = await store.claim("meeting")
        disk.say(old)
        store.end("meeting")
        loaded = await store.load("meeting")
        assert loaded is not None and loaded is old
        await store.flush()
        loaded = await store.load("meeting")
        assert loaded is not None and loaded.entries() == old.entries()
        new = await store.claim("meeting")
        assert new.epoch != old.epoch and len(new) == 0
        store.end("meeting")
        assert await names(store) == ["meeting"]
        disk.time.wall += 3601
        assert await store.load("meeting") is not None  # not written yet, so not ended
        await store.flush()
        disk.time.wall += 3601
        assert await store.load("meeting") is None
        await store.flush()
    assert disk.sql("SELECT count(*) FROM rooms") == [(0,)]


@pytest.mark.parametrize("clean", [True, False])
async def test_after_a_restart_a_room_ends_a_fixed_time_after_it_was_last_seen(
    disk: Disk, clean: bool
) -> None:
    async with disk.open() as store:
        disk.say(await store.claim("meeting"), SECRET)
        await store.flush()
        disk.time.wall += disk.limits.room_s + 1
        await store.flush()  # a pause in a meeting is no end of it
        await (store.close() if clean else crash(store))
    disk.time.wall += disk.limits.room_s - 1
    async with disk.open() as store:
        assert await names(store) == ["meeting"]
        disk.time.wall += 2
        assert len(await store.claim("meeting")) == 0
        await store.flush()
    async with disk.open() as store:
        assert await names(store) == ["meeting"]  # the new one
    assert not disk.has(SECRET)
    disk.time.wall += disk.limits.room_s + 1
    async with disk.open() as store:
        assert await names(store) == []


async def test_text_is_erased_later_if_another_program_reads_the_file(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FORGET_S", 0)
    monkeypatch.setattr(file, "BUSY_S", 0)

    async with disk.open() as store:
        disk.say(await store.claim("meeting"), SECRET)
        await store.flush()
        with contextlib.closing(sqlite3.connect(disk.path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM rooms").fetchall()
            with pytest.raises(StoreFault, match="reading"):
                await store.forget("meeting")
            await store.flush()
        disk.time.wall += SWEEP_S
        await store.flush()
        assert not disk.has(SECRET)


async def test_forget_waits_for_other_readers_of_the_file(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_S", 0)
    monkeypatch.setattr(module, "POLL_S", 0)

    async with disk.open() as store:
        disk.say(await store.claim("meeting"), SECRET)
        await store.flush()
        with contextlib.closing(sqlite3.connect(disk.path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM rooms").fetchall()
            forgetting = asyncio.create_task(store.forget("meeting"))
            await until(lambda: disk.sql("SELECT count(*) FROM rooms") == [(0,)])
            assert not forgetting.done()
        assert await forgetting
        assert not disk.has(SECRET)


async def test_the_log_contains_no_text_that_is_written(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with disk.open() as store:
            disk.say(await store.claim("meeting"), SECRET)
    assert SECRET not in caplog.text
