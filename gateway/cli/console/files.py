"""Input and output files that are named on a command line.

Owns: the checks and their error messages. Must not know: what the files contain.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec


def read_text(path: Path, most: int) -> str:
    """Return the text of a UTF-8 file of at most ``most`` bytes.

    Raises `OSError`, and `ValueError` with a sentence.
    """
    if path.stat().st_size > most:
        raise ValueError(f"{path} is larger than {most} bytes.")
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ValueError(f"{path} is not UTF-8: {exc.reason} at byte {exc.start}.") from exc


def check_outputs(names: Iterable[str | None]) -> None:
    """Raise `OSError` with a sentence if one of the files cannot be written.

    A command checks this first, since it may run for minutes before it writes.
    """
    for path in (Path(name) for name in names if name):
        if not path.parent.is_dir():
            raise FileNotFoundError(f"There is no directory {path.parent} to write {path.name} to.")
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory; name a file in it.")


def write_json(name: str, value: object) -> None:
    """Write a value as indented JSON. Raises `OSError`."""
    Path(name).write_bytes(msgspec.json.format(msgspec.json.encode(value)) + b"\n")
