"""Owner names and locks of processes that share a file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.storage.sqlite.process_lock import ProcessLock
from tests.support.disk import Disk, crash

HOLD = """
import sys
from pathlib import Path
from gateway.storage.sqlite.process_lock import ProcessLock
lock = ProcessLock(Path(sys.argv[1]))
lock.register()
print(lock.name, flush=True)
sys.stdin.read()
"""


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


def test_a_lock_is_released_once_and_leaves_no_file(tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path / "with #? and a space")
    assert not lock.lives(lock.name)
    lock.register()
    assert lock.lives(lock.name)
    for _ in range(2):
        lock.release()
        assert not lock.lives(lock.name)
    assert os.listdir(tmp_path) == []


def test_a_lock_has_only_one_holder(tmp_path: Path) -> None:
    one, two = ProcessLock(tmp_path / "rooms.db"), ProcessLock(tmp_path / "rooms.db")
    two.name = one.name
    one.register()
    with pytest.raises(sqlite3.OperationalError):
        two.register()
    two.release()
    one.release()


def test_a_lock_ends_with_its_process_and_the_file_left_behind_blocks_nobody(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rooms.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().decode().strip()
        other = ProcessLock(path)
        assert other.lives(name)
        process.kill()
    assert os.listdir(tmp_path) == [f"rooms.db-owner-{name}"]
    assert not other.lives(name)
    other.register()
    assert os.listdir(tmp_path) == [f"rooms.db-owner-{other.name}"]
    other.release()
