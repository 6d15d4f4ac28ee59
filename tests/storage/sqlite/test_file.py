"""Opening of files that are damaged, foreign, old or new."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gateway.storage import schema
from gateway.storage.base import StoreFault
from gateway.storage.sqlite import file as database
from tests.support.disk import Disk, texts


async def refusal(disk: Disk) -> StoreFault:
    with pytest.raises(StoreFault) as refused:
        async with disk.open():
            pass
    assert str(disk.path) in str(refused.value)
    assert not list(disk.path.parent.glob("*-owner-*"))
    return refused.value


async def test_a_file_that_is_no_database_is_refused(disk: Disk) -> None:
    disk.path.write_bytes(b"minutes of the meeting\n" * 1000)

    assert "Move it away" in str((await refusal(disk)).hint)
    assert disk.path.read_bytes().startswith(b"minutes")


@pytest.mark.parametrize("at", [100, 4096, 20_480])
async def test_a_damaged_file_is_refused(disk: Disk, at: int) -> None:
    async with disk.open() as store:
        disk.say(await store.claim("meeting"), times=500)
    with disk.path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 3000)
    assert "Move it away" in str((await refusal(disk)).hint)


async def test_damage_found_later_only_costs_the_room_its_history(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "CHECK_BYTES", 0)  # as if the file were large

    async with disk.open() as store:
        disk.say(await store.claim("meeting"), times=500)
    with disk.path.open("r+b") as file:
        file.seek(20_480)
        file.write(b"\xff" * 30_000)
    async with disk.open() as store:
        with pytest.raises(StoreFault) as fault:
            await store.load("meeting")
        assert "Move it away" in str(fault.value.hint)
        assert len(await store.claim("meeting")) == 0
        assert "Move it away" in caplog.text


async def test_a_database_of_another_program_is_refused_and_not_changed(disk: Disk) -> None:
    disk.sql("CREATE TABLE invoices (id)")

    assert "another program's" in str(await refusal(disk))
    assert disk.sql("SELECT name FROM sqlite_master") == [("invoices",)]
    assert disk.sql("PRAGMA journal_mode") == [("delete",)]


async def test_a_schema_of_a_newer_gateway_is_refused(disk: Disk) -> None:
    async with disk.open():
        pass
    disk.sql("PRAGMA user_version = 9")
    assert "it has schema 9, and this one knows 3" in str(await refusal(disk))


async def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    assert "No such file or directory" in str(await refusal(Disk(tmp_path / "nowhere")))


async def test_an_older_schema_is_migrated_with_its_content(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with disk.open() as store:
        disk.say(await store.claim("meeting"))
    later = (*schema.MIGRATIONS, ("ALTER TABLE rooms ADD COLUMN colour TEXT",))
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    async with disk.open() as store:
        assert texts(await store.claim("meeting")) == ["good morning"]
    assert disk.sql("SELECT colour FROM rooms") == [(None,)]
    assert disk.sql("PRAGMA user_version") == [(4,)]


async def test_an_old_version_of_sqlite_is_refused(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))

    with pytest.raises(StoreFault, match="3.37"):
        await disk.store().open()
