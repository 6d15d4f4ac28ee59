"""Which processes live, as others of the same file see it."""

from __future__ import annotations

import os
from pathlib import Path

from gateway.storage.sqlite.process_lock import ProcessLock
from tests.support.disk import Disk, crash


def test_an_owner_lives_from_when_it_is_registered_until_it_is_released(tmp_path: Path) -> None:
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


def test_owners_of_another_file_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    one, other = ProcessLock(tmp_path / "rooms.db"), tmp_path / "minutes.db-owner-1"
    other.touch()
    one.register()
    one.release()
    assert os.listdir(tmp_path) == [other.name]


async def test_what_a_dead_process_left_is_cleared_away(disk: Disk) -> None:
    async with disk.open() as store:
        disk.path.with_name(f"rooms.db-owner-{'0' * 16}").touch()
        await crash(store)
    async with disk.open():
        assert len(list(disk.path.parent.glob("*-owner-*"))) == 1
    assert os.listdir(disk.path.parent) == ["rooms.db"]
