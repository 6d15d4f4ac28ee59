"""Types of command-line arguments, flags and checks that several commands share.

Owns: parsing and range checks. Each type raises `argparse.ArgumentTypeError`, which argparse turns
into a sentence. Must not know: commands.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeVar, get_args

from gateway.protocol.messages import View
from gateway.settings.catalogue import SettingsError

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


def need(package: str, what: str) -> None:
    """Raise `SettingsError` with the command to install if a package of the extra is missing.

    :param what: flag or command that needs the package, such as ``--html``
    """
    if find_spec(package) is None:
        raise SettingsError(f"{what} needs {package}: pip install 'caption-gateway[tools]'.")


def tags(text: str) -> tuple[str, ...]:
    """Parse language tags separated by commas; drop repeated ones."""
    tags = tuple(dict.fromkeys(rooms(text)))
    if not tags:
        raise argparse.ArgumentTypeError("it names no language; write e.g. de,fr")
    return tags


def rooms(text: str) -> tuple[str, ...]:
    """Parse room names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def views(text: str) -> tuple[View, ...]:
    """Parse views separated by commas, and return them in the order of the protocol."""
    known: tuple[View, ...] = get_args(View)
    found = tuple(view for view in known if view in text.split(","))
    if not found or set(text.split(",")) - set(known):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of {', '.join(known)}")
    return found


def word_range(text: str) -> tuple[int, int]:
    """Parse a range of words such as ``2-40``, or one number for both ends."""
    low, _, high = text.partition("-")
    try:
        found = int(low), int(high or low)
    except ValueError:
        found = 0, 0
    if not 1 <= found[0] <= found[1]:
        raise argparse.ArgumentTypeError("it must be a range such as 2-40")
    return found


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
