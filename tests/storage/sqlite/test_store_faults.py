"""Faults of the disk, which must not disturb a room."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections import Counter

import pytest

from gateway.engines.scripted import ScriptedEngine
from gateway.io import tasks
from gateway.limits import Limits
from gateway.server.metrics import Metrics
from gateway.server.runtime.fleet import Fleet
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost
from gateway.storage.base import StoreFault
from gateway.storage.sqlite import file
from gateway.storage.sqlite import store as module
from gateway.storage.sqlite.store import SqliteStore
from tests.support.disk import SECRET, Disk, names, texts
from tests.support.live import until


async def test_while_the_file_is_locked_rooms_continue_and_the_log_gives_advice_once(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(file, "BUSY_S", 0.001)
    for name in ("RETRY_S", "POLL_S", "FLUSH_S"):
        monkeypatch.setattr(module, name, 0.001)

    async with disk.open() as store:
        log = await store.claim("meeting")
        with contextlib.closing(sqlite3.connect(disk.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            disk.say(log, SECRET, times=3)
            for _ in range(3):
                with pytest.raises(StoreFault, match="locked"):
                    await store.flush()
            await until(lambda: "locked" in caplog.text)
            claim = asyncio.create_task(store.claim("new"))
            while not claim.done():
                disk.time.wall += 1
                await asyncio.wait({claim}, timeout=0.01)
            disk.say(claim.result())
            assert store.behind == 4
            assert (await names(store)) == ["meeting", "new"]
            with pytest.raises(StoreFault, match="locked"):
                await store.forget("new")
        await until(lambda: "written again" in caplog.text)
        await until(lambda: store.behind == 0)
    assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 1
    assert "Another program has locked the file: end it." in caplog.text
    assert SECRET not in caplog.text
    assert disk.sql("SELECT name FROM rooms") == [("meeting",)]


async def test_a_lock_before_the_file_could_be_read_does_not_shorten_the_next_wait(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_S", 0)
    lock = sqlite3.OperationalError("database is locked")
    lock.sqlite_errorname = "SQLITE_BUSY"
    answers: list[sqlite3.Error | bool] = [lock, False, lock]

    async with disk.open() as store:
        disk.say(await store.claim("meeting"))
    async with disk.open() as store:
        take = store._take

        async def taken(name: str) -> bool:
            disk.time.wall += 0.6 * module.CLAIM_S
            if not answers:
                return await take(name)
            answer = answers.pop(0)
            if isinstance(answer, sqlite3.Error):
                raise answer
            return answer

        monkeypatch.setattr(store, "_take", taken)
        assert texts(await store.claim("meeting")) == ["good morning"]


async def test_a_room_waits_for_a_locked_disk_no_longer_than_its_bound(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_S", 0)
    tries = 0

    async def locked(name: str) -> bool:
        nonlocal tries
        tries += 1
        disk.time.wall += file.BUSY_S
        lock = sqlite3.OperationalError("database is locked")
        lock.sqlite_errorname = "SQLITE_BUSY"
        raise lock

    async with disk.open() as store:
        monkeypatch.setattr(store, "_take", locked)
        await store.claim("meeting")
    assert tries == 1


async def test_events_dropped_before_they_are_written_are_counted_and_logged(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk.limits = Limits(log=10)
    monkeypatch.setattr(file, "BUSY_S", 0)

    async with disk.open() as store:
        log = await store.claim("meeting")
        disk.say(log, times=4)
        await store.flush()
        disk.say(log, times=16)
        assert store.behind == 16
        await store.flush()
        assert (store.behind, store.lost) == (0, 6)
        assert "6 events were not written" in caplog.text
        metrics = Metrics()
        host = RoomHost(ScriptedEngine(), Limits())
        metrics.add_hub(Hub(host, Fleet(host, store)), Counter())
        shown = metrics.expose().decode()
        assert "\ngateway_store_behind 0.0\n" in shown
        assert "\ngateway_store_lost_total 6.0\n" in shown
    async with disk.open() as store:
        assert (await store.claim("meeting")).entries() == log.entries()


async def test_with_a_full_disk_rooms_continue_and_are_written_once_there_is_space(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    async with disk.open() as store:
        log = await store.claim("meeting")
        await store._file.db.execute_fetchall("PRAGMA max_page_count = 10")
        disk.say(log, "x" * 1000, times=100)
        with pytest.raises(StoreFault) as fault:
            await store.flush()
        assert fault.value.hint == "The disk is full: make room on it."
        assert store.behind == 100
        disk.say(await store.claim("new"))
        await store._file.db.execute_fetchall("PRAGMA max_page_count = 1000000")
        await store.flush()
        assert (store.behind, store.lost) == (0, 0)
    async with disk.open() as store:
        assert (await store.claim("meeting")).entries() == log.entries()
        assert len(await store.claim("new")) == 1


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_deleted_or_replaced_is_noticed_and_written_once_it_is_back(
    disk: Disk, caplog: pytest.LogCaptureFixture, replaced: bool
) -> None:
    aside = disk.path.with_name("aside.db")
    async with disk.open() as store:
        log = await store.claim("meeting")
        disk.say(log)
        await store.flush()
        disk.path.rename(aside)
        if replaced:
            disk.path.write_bytes(aside.read_bytes())
        disk.say(log, times=3)
        with pytest.raises(StoreFault, match="names another file now, or none") as fault:
            await store.flush()
        assert fault.value.hint is not None and "Move the very file back" in fault.value.hint
        await until(lambda: "Move the very file back" in caplog.text)
        assert store.behind == 3
        aside.replace(disk.path)
        await until(lambda: store.behind == 0)
    async with disk.open() as store:
        assert (await store.claim("meeting")).entries() == log.entries()


async def test_a_deleted_file_is_noticed_without_anything_to_write(disk: Disk) -> None:
    async with disk.open() as store:
        disk.path.unlink()
        disk.time.wall += module.SWEEP_S
        with pytest.raises(StoreFault, match="names another file now, or none"):
            await store.flush()


async def test_a_hanging_disk_delays_neither_rooms_nor_the_end_for_long(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FLUSH_S", 0.001)
    monkeypatch.setattr(file, "BUSY_S", 1)

    async with disk.open() as store:
        log = await store.claim("meeting")
        with contextlib.closing(sqlite3.connect(disk.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # BUSY_S is longer than the patience of all
            for name in ("CLAIM_S", "CLOSE_S", "COMPLAIN_S"):
                monkeypatch.setattr(module, name, 0.01)
            monkeypatch.setattr(file, "CLOSE_S", 0.01)
            disk.say(log, times=3)
            disk.say(await store.claim("new"))
            await until(lambda: "does not answer" in caplog.text)
            await store.close()
        assert store.lost == 4
        assert "4 events are not written" in caplog.text
        await until(lambda: not any("worker" in one.name for one in threading.enumerate()))
    assert disk.sql("SELECT count(*) FROM events") == [(0,)]


async def test_close_waits_for_a_lock_that_is_released(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(file, "BUSY_S", 0)
    monkeypatch.setattr(module, "POLL_S", 0.001)

    async with disk.open() as store:
        log = await store.claim("meeting")
        with contextlib.closing(sqlite3.connect(disk.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            disk.say(log)
            closing = asyncio.create_task(store.close())
            await until(lambda: "locked" in caplog.text)
        await closing
        assert store.lost == 0
    assert disk.sql("SELECT count(*) FROM events") == [(1,)]


async def test_released_rooms_are_bounded_while_the_disk_fails(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.limits = Limits(rooms=2)

    async with disk.open() as store:
        logs = {name: await store.claim(name) for name in "abcd"}
        for name, log in logs.items():
            disk.say(log, times=5)
            store.release(name)
        assert (store.behind, store.lost) == (10, 10)
    assert "5 events were not written" in caplog.text
    assert disk.sql("SELECT count(*) FROM events") == [(10,)]


async def test_a_fault_of_the_gateway_is_logged_and_writing_goes_on(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FLUSH_S", 0)
    monkeypatch.setattr(tasks, "RESTART_S", 0)
    before = tasks.failures["the writer of the store"]

    class Moody(SqliteStore):
        asked = 0

        async def _work(self) -> None:
            self.asked += 1
            if self.asked == 1:
                raise ValueError("a bug")
            await super()._work()

    store = Moody(disk.path, Limits())
    await store.open()
    await until(lambda: store.asked >= 3)
    assert "the writer of the store failed" in caplog.text and "ValueError" in caplog.text
    assert tasks.failures["the writer of the store"] == before + 1
    await store.close()
