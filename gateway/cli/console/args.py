"""Types of command-line arguments that several commands share.

Owns: parsing and range checks. Each raises `argparse.ArgumentTypeError`, which argparse turns into
a sentence. Must not know: commands.
"""

from __future__ import annotations

import argparse
from typing import get_args

from gateway.protocol.messages import View

URL = "ws://127.0.0.1:8000"
"""Address of a gateway with its usual settings on this machine."""


def tags(text: str) -> tuple[str, ...]:
    """Parse language tags separated by commas; drop repeated ones."""
    tags = tuple(dict.fromkeys(tag.strip() for tag in text.split(",") if tag.strip()))
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


def positive(text: str) -> float:
    """Parse a number above 0."""
    value = _real(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("it must be above 0")
    return value


def seconds(text: str) -> float:
    """Parse a number of 0 or more."""
    value = _real(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("it must be 0 or more")
    return value


def share(text: str) -> float:
    """Parse a share, from 0 to 1."""
    value = _real(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("it must be between 0 and 1")
    return value


def count(text: str) -> int:
    """Parse a whole number of 1 or more."""
    return _whole(text, 1)


def number(text: str) -> int:
    """Parse a whole number of 0 or more."""
    return _whole(text, 0)


def word_range(text: str) -> tuple[int, int]:
    """Parse a range of words such as ``2-40``, or one number for both ends."""
    low, _, high = text.partition("-")
    try:
        found = int(low), int(high or low)
    except ValueError:
        raise argparse.ArgumentTypeError("it must be a range such as 2-40") from None
    if not 1 <= found[0] <= found[1]:
        raise argparse.ArgumentTypeError("it must be a range such as 2-40")
    return found


def _whole(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"it must be {least} or more")
    return value


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
