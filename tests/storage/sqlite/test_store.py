"""Rooms in a real file: the setting, and the state after a restart."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from gateway.limits import Limits
from gateway.protocol.messages import Settings as Changed
from gateway.settings.catalogue import Settings, SettingsError
from gateway.storage.base import StoreFault
from gateway.storage.sqlite import store as module
from gateway.storage.sqlite.store import SqliteStore, build
from tests.support.disk import Disk, texts

# --- settings -------------------------------------------------------------------------------------


def test_by_default_there_is_no_store() -> None:
    assert Settings().store is None
    assert build(Settings()) is None


def test_the_setting_names_the_kind_and_the_path_of_the_store(tmp_path: Path) -> None:
    store = build(Settings(store=f"sqlite:{tmp_path}/a/../rooms.db"))
    assert isinstance(store, SqliteStore)
    assert store.path == tmp_path / "rooms.db"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["rooms.db", "postgres://host/db", "sqlite:", "sqlite::memory:", ""]
)
def test_an_unknown_kind_of_store_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="sqlite:PATH"):
        build(Settings(store=name))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (".", "cannot be used: unable to open database file."),
        ("a/b.db", "cannot be opened: No such"),
    ],
)
async def test_the_error_for_a_store_that_cannot_be_opened_gives_advice(
    tmp_path: Path, name: str, says: str
) -> None:
    store = build(Settings(store=f"sqlite:{tmp_path / name}"))
    assert store is not None
    with pytest.raises(StoreFault, match=says) as told:
        await store.open()
    assert "a file that this user may read and write" in str(told.value.hint)
    # aiosqlite does not wait for its thread if it cannot connect, and the thread needs the loop.
    for thread in threading.enumerate():
        if "_connection_worker_thread" in thread.name:
            await asyncio.to_thread(thread.join)


# --- a restart ------------------------------------------------------------------------------------


async def test_processes_with_the_same_file_share_a_signing_key(disk: Disk, tmp_path: Path) -> None:
    async with disk.open() as first, disk.open() as second:
        keys = {await first.key(), await second.key(), await first.key()}
    async with disk.open() as later:
        keys.add(await later.key())
    (tmp_path / "other").mkdir()
    async with Disk(tmp_path / "other").open() as other:
        strange = await other.key()
    (key,) = keys
    assert len(key) == len(strange) == 32 and key != strange


async def test_a_room_continues_after_a_restart(disk: Disk) -> None:
    async with disk.open() as store:
        before = await store.claim("meeting")
        disk.time.wall += 60
        disk.say(before, times=3)
    disk.time.wall += 30
    disk.time.restart()
    async with disk.open() as store:
        after = await store.claim("meeting")
        assert after is not before
        assert (after.epoch, after.seq) == (before.epoch, 3)
        assert after.before is None
        assert after.entries() == before.entries()
        disk.say(after, "good night")
        assert after.entries()[-1].at == 90
        assert store.behind == 1
    async with disk.open() as store:
        assert (await store.claim("meeting")).entries() == after.entries()


async def test_every_caller_gets_the_same_history_while_the_room_is_open(disk: Disk) -> None:
    async with disk.open() as store:
        one, two = await asyncio.gather(store.claim("meeting"), store.claim("meeting"))
        assert one is two
        assert await store.claim("meeting") is one
        disk.say(one)
        loaded = await store.load("meeting")
        assert loaded is not None and loaded is one


async def test_a_released_room_can_be_claimed_again_with_its_whole_history(disk: Disk) -> None:
    async with disk.open() as store:
        one = await store.claim("meeting")
        disk.say(one)
        store.release("meeting")
        two = await store.claim("meeting")
        assert (two.epoch, texts(two)) == (one.epoch, ["good morning"])


async def test_a_restored_log_and_the_file_have_the_bounds_of_this_process(
    disk: Disk,
) -> None:
    async with disk.open() as store:
        disk.say(await store.claim("meeting"), times=20)
    disk.limits = Limits(log=5)
    async with disk.open() as store:
        log = await store.claim("meeting")
        assert [entry.event.seq for entry in log.entries()] == [16, 17, 18, 19, 20]
        assert log.since(14) is None
        disk.say(log)
    assert disk.sql("SELECT min(seq), max(seq) FROM events") == [(17, 21)]


async def test_settings_outlive_their_events(disk: Disk) -> None:
    disk.limits = Limits(log=2)

    async with disk.open() as store:
        log = await store.claim("meeting")
        for change in (
            Changed(seq=1, version=1, context="a court", speaker="Ana", session="s1"),
            Changed(seq=2, version=2, glossary={"a": "b"}, style="formal"),
            Changed(seq=3, version=3, glossary={}, from_="de"),
        ):
            log.append(change, disk.time.clock())
            await store.flush()
        disk.say(log, times=5)
    async with disk.open() as store:
        found = (await store.claim("meeting")).settings
        assert found == Changed(seq=3, version=3, context="a court", glossary={}, style="formal")


async def test_a_wall_clock_set_back_does_not_make_times_in_the_room_go_back(
    disk: Disk,
) -> None:
    async with disk.open() as store:
        log = await store.claim("meeting")
        disk.time.wall += 500
        disk.say(log)
    disk.time.wall -= 300
    disk.time.restart()
    async with disk.open() as store:
        log = await store.claim("meeting")
        disk.say(log)
        assert [entry.at for entry in log.entries()] == [500, 500]


async def test_only_the_owner_can_read_the_file(disk: Disk) -> None:
    async with disk.open() as store:
        disk.say(await store.claim("meeting"))
        await store.flush()
        for path in (disk.path, disk.path.with_name("rooms.db-wal")):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(disk.path.parent) == ["rooms.db"]


async def test_a_long_backlog_is_written_in_several_transactions(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 7)

    async with disk.open() as store:
        logs = {name: await store.claim(name) for name in "abcde"}
        for name, log in logs.items():
            disk.say(log, times=10)
            if name in "bd":
                store.release(name)
        await store.flush()
        assert store.behind == 0
    assert disk.sql("SELECT count(*) FROM events") == [(50,)]


async def test_a_closed_store_raises_an_explanation_and_can_be_closed_again(disk: Disk) -> None:
    async with disk.open() as store:
        await store.close()
        with pytest.raises(StoreFault, match="closed"):
            await store.load("meeting")
