"""Types of arguments, and files, that several of the tools share.

Owns: parsing and checks beside those of `gateway.cli.flags`. Must not know: commands.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TextIO, get_args

import msgspec

from gateway.protocol.messages import View


def views(text: str) -> tuple[View, ...]:
    """Parse views separated by commas, and return them in the order of the protocol."""
    known: tuple[View, ...] = get_args(View)
    chosen = tuple(view for view in known if view in text.split(","))
    if not chosen or set(text.split(",")) - set(known):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of {', '.join(known)}")
    return chosen


def word_range(text: str) -> tuple[int, int]:
    """Parse a range of words such as ``2-40``, or one number for both ends."""
    low, _, high = text.partition("-")
    try:
        ends = int(low), int(high or low)
    except ValueError:
        ends = 0, 0
    if not 1 <= ends[0] <= ends[1]:
        raise argparse.ArgumentTypeError("it must be a range such as 2-40")
    return ends


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


def write_json(name: str, value: object) -> None:
    """Write a value as indented JSON. Raises `OSError`."""
    Path(name).write_bytes(msgspec.json.format(msgspec.json.encode(value)) + b"\n")


def columns(out: TextIO) -> int | None:
    """Return the columns of a terminal, or None if the output is a file or a pipe."""
    return shutil.get_terminal_size().columns if out.isatty() else None
