"""Tests that run in Node.js: their packages and their results."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def install(folder: Path) -> None:
    """Install the packages of a folder if they are missing; skip the test if that fails."""
    npm = shutil.which("npm")
    if npm is None:
        needed = ", ".join(json.loads((folder / "package.json").read_text())["dependencies"])
        pytest.skip(f"npm is not installed; it fetches {needed}.")
    done = folder / "node_modules" / ".package-lock.json"
    # Only one of several test processes installs them.
    with (folder / "package.json").open() as package:
        fcntl.flock(package, fcntl.LOCK_EX)
        if done.exists() and done.stat().st_mtime >= (folder / "package.json").stat().st_mtime:
            return
        made = subprocess.run([npm, "install"], cwd=folder, capture_output=True, text=True)
        if made.returncode:
            pytest.skip(
                f"npm could not install the packages of {folder.name}: {made.stderr[-500:]}"
            )
        done.touch()


def run(node: str, *tests: Path, patience_s: int, **env: str) -> None:
    """Run test files with a time limit per test, and fail with their output."""
    assert tests, "there is no test file"
    limit = f"--test-timeout={patience_s * 1000}"
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap", limit, *map(str, tests)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=patience_s + 60,
    )
    sys.stdout.write(done.stdout)  # pytest shows it for a test that fails
    assert done.returncode == 0, done.stdout + done.stderr
    # `node --test` is content with files in which it finds nothing.
    assert "\n# fail 0\n" in done.stdout and "\n# tests 0\n" not in done.stdout, done.stdout
