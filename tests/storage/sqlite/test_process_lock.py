"""Owner names and locks of processes that share a file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.storage.sqlite.process_lock import FileLock, ProcessLock, held
from tests.support.disk import Disk, crash

HOLD = """
import sys
from pathlib import Path
from gateway.storage.sqlite.process_lock import FileLock as Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
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


def test_a_lock_is_held_until_it_is_released_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "with #? and a space"
    assert not held(path)
    lock = FileLock(path)
    assert held(path)
    lock.release()
    assert not held(path)
    lock.release()
    assert os.listdir(tmp_path) == []


def test_a_lock_has_only_one_holder(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    with pytest.raises(sqlite3.OperationalError):
        FileLock(tmp_path / "lock")
    lock.release()


def test_a_lock_ends_with_its_process_and_the_file_left_behind_blocks_nobody(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        assert held(path)
        process.kill()
    assert path.exists()
    assert not held(path)
    FileLock(path).release()
