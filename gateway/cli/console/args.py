"""Types of command-line arguments, flags and checks that several commands share.

Owns: parsing and range checks. Each type raises `argparse.ArgumentTypeError`, which argparse turns
into a sentence. Must not know: commands.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

N = TypeVar("N", int, float)
URL = "ws://127.0.0.1:8000"  # address of a gateway with its usual settings on this machine


def add_url(parser: argparse.ArgumentParser) -> None:
    """Add the flag for the address of a gateway."""
    parser.add_argument("--url", default=URL, help="address of the gateway; default: %(default)s")


def add_languages(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the flags of commands that send text."""
    add = parser.add_argument
    to = "languages to translate into, e.g. de,fr"
    add("--to", type=tags, default=(), required=required, metavar="LANG[,LANG]", help=to)
    source = "language of the text; default: detected"
    add("--from", dest="source", metavar="LANG", help=source)


def check_outputs(names: Iterable[str | None]) -> None:
    """Raise `OSError` with a sentence if one of the files cannot be written.

    A command checks this first, since it may run for minutes before it writes.
    """
    for path in (Path(name) for name in names if name):
        if not path.parent.is_dir():
            raise FileNotFoundError(f"There is no directory {path.parent} to write {path.name} to.")
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory; name a file in it.")


def tags(text: str) -> tuple[str, ...]:
    """Parse language tags separated by commas; drop repeated ones."""
    tags = tuple(dict.fromkeys(rooms(text)))
    if not tags:
        raise argparse.ArgumentTypeError("it names no language; write e.g. de,fr")
    return tags


def rooms(text: str) -> tuple[str, ...]:
    """Parse room names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def ranged(kind: Callable[[str], N], fits: Callable[[N], bool], range: str) -> Callable[[str], N]:
    """Return a parser of numbers in a range."""
    word = "a whole number" if kind is int else "a number"

    def parse(text: str) -> N:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {word}") from None
        if not fits(value):
            raise argparse.ArgumentTypeError(f"it must be {range}")
        return value

    return parse


positive = ranged(float, lambda value: 0 < value < math.inf, "above 0")
seconds = ranged(float, lambda value: 0 <= value < math.inf, "0 or more")
share = ranged(float, lambda value: 0 <= value <= 1, "between 0 and 1")
count = ranged(int, lambda value: value >= 1, "1 or more")
number = ranged(int, lambda value: value >= 0, "0 or more")
