"""A lock that ends with its process."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.storage.sqlite.file_lock import FileLock, held

HOLD = """
import sys
from pathlib import Path
from gateway.storage.sqlite.file_lock import FileLock as Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


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
