"""What the process that prints and those that put on the load tell each other.

Owns: the messages and how they lie on a pipe: four bytes of length, then MessagePack. Must not
know: what is done about them.
"""

from __future__ import annotations

import asyncio

import msgspec

from gateway.bench.load.plan import Plan
from gateway.bench.load.tally import Tally
from gateway.bench.stats import Histogram


class Start(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """To a client process: who it is, and what it shows. Keys never stand on a command line."""

    plan: Plan
    process: int
    key: str | None
    lines: list[str]


class Begin(msgspec.Struct, tag=True, frozen=True):
    """To all at once: the moment 0 of the run, by the clock that all processes share."""

    at: float


class Stop(msgspec.Struct, tag=True, frozen=True):
    """End now, and tell what was counted."""


class Ready(msgspec.Struct, tag=True, frozen=True):
    """All sockets are open."""


class Failed(msgspec.Struct, tag=True, frozen=True):
    """A socket could not be opened; why, as a sentence."""

    msg: str


class Sample(msgspec.Struct, tag=True, frozen=True):
    """How it goes, for the progress bar: counts and times so far."""

    counts: dict[str, int]
    errors: int
    first: Histogram
    final: Histogram


class Done(msgspec.Struct, tag=True, frozen=True):
    """All that was counted. ``whole``: neither stopped nor cut off."""

    tally: Tally
    whole: bool


Message = Start | Begin | Stop | Ready | Failed | Sample | Done
_decode = msgspec.msgpack.Decoder(Message).decode


def pack(message: Message) -> bytes:
    """A message as it lies on a pipe."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4) + body


async def take(reader: asyncio.StreamReader) -> Message | None:
    """The next message; None when the other side has gone."""
    try:
        size = int.from_bytes(await reader.readexactly(4))
        message: Message = _decode(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return message
