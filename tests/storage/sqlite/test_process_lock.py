"""Owner names and locks of processes that share a file."""

from __future__ import annotations

import os
from pathlib import Path

from gateway.storage.sqlite.process_lock import ProcessLock
from tests.support.disk import Disk, crash


def test_an_owner_is_alive_from_register_to_release(tmp_path: Path) -> None:
    one, two = ProcessLock(tmp_path / "rooms.db"), ProcessLock(tmp_path / "rooms.db")
    assert one.name != two.name
    assert not two.lives(one.name)
    one.register()
    assert two.lives(one.name) and one.lives(one.name)
    assert not one.lives(two.name)
    one.release()
    assert not two.lives(one.name)
    one.release()
    assert os.listdir(tmp_path) == []


def test_lock_files_of_another_database_are_left_alone(tmp_path: Path) -> None:
    one, other = ProcessLock(tmp_path / "rooms.db"), tmp_path / "minutes.db-owner-1"
    other.touch()
    one.register()
    one.release()
    assert os.listdir(tmp_path) == [other.name]


async def test_lock_files_of_dead_processes_are_removed(disk: Disk) -> None:
    async with disk.open() as store:
        disk.path.with_name(f"rooms.db-owner-{'0' * 16}").touch()
        await crash(store)
    async with disk.open():
        assert len(list(disk.path.parent.glob("*-owner-*"))) == 1
    assert os.listdir(disk.path.parent) == ["rooms.db"]
