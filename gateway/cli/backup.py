"""The command ``gateway backup``: a copy of the store, also while a gateway uses it.

Owns: the copy, its mode, and that it is complete or absent. Must not know: the tables.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sqlite3
from pathlib import Path

from gateway.cli.flags import add_settings, check_outputs, loaded
from gateway.settings.catalogue import SettingsError
from gateway.storage.base import StoreFault
from gateway.storage.sqlite import store
from gateway.storage.sqlite.file import APPLICATION, BUSY_S, advice


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("file", metavar="FILE", help="the copy; a file that exists is not replaced")
    add_settings(parser)


def run(args: argparse.Namespace) -> int:
    """Copy the store of the settings, and return the exit status. Raises as `back_up`."""
    opened = store.build(loaded(args).settings)
    if opened is None:
        raise SettingsError("There is no store to back up. Name it with --store or --config.")
    check_outputs((args.file,))
    target = Path(args.file)
    back_up(opened.path, target)
    print(f"{opened.path} was copied to {target}.")
    return 0


def back_up(source: Path, target: Path) -> None:
    """Copy a store by SQLite's online backup into a new file that only its owner can read.

    The copy has every transaction up to now. A copy of the file alone would lack those in the
    write-ahead log, which may be all of them.

    Raises `StoreFault`, and `OSError` if the target exists or cannot be written.
    """
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with (
            contextlib.closing(_open(source, "ro")) as old,
            contextlib.closing(_open(target, "rw")) as new,
        ):
            if old.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
                raise StoreFault(f"{source} is no store of a gateway.")
            old.backup(new)
            # Without a write-ahead log the copy is one file.
            new.execute("PRAGMA journal_mode = DELETE")
            if new.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise StoreFault(f"{source} is damaged: its copy does not pass SQLite's check.")
    except BaseException as exc:
        target.unlink()
        if isinstance(exc, sqlite3.Error):
            raise StoreFault(f"{source} cannot be copied: {exc}.", advice(exc)) from exc
        raise


def _open(file: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode={mode}", uri=True, timeout=BUSY_S)
