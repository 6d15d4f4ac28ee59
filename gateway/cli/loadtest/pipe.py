"""What the process that prints and those that put on the load tell each other.

Owns: the messages and how they lie on a pipe: four bytes of length, then MessagePack. Must not
know: what is done about them.
"""

from __future__ import annotations

import asyncio

import msgspec

from gateway.cli.loadtest.model.plan import Plan
from gateway.cli.loadtest.model.tally import LoadTally
from gateway.cli.report.stats import Histogram


class ClientConfig(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """To a client process: who it is, and what it shows. Keys never stand on a command line."""

    plan: Plan
    process: int
    key: str | None
    lines: list[str]


class BeginRun(msgspec.Struct, tag=True, frozen=True):
    """To all at once: the moment 0 of the run, by the clock that all processes share."""

    at: float


class StopRun(msgspec.Struct, tag=True, frozen=True):
    """End now, and tell what was counted."""


class SocketsReady(msgspec.Struct, tag=True, frozen=True):
    """All sockets are open."""


class SocketFailed(msgspec.Struct, tag=True, frozen=True):
    """A socket could not be opened; why, as a sentence."""

    msg: str


class ProgressSample(msgspec.Struct, tag=True, frozen=True):
    """How it goes, for the progress bar: counts and times so far."""

    counts: dict[str, int]
    errors: int
    first: Histogram
    final: Histogram


class RunDone(msgspec.Struct, tag=True, frozen=True):
    """All that was counted. ``whole``: neither stopped nor cut off."""

    tally: LoadTally
    whole: bool


Message = ClientConfig | BeginRun | StopRun | SocketsReady | SocketFailed | ProgressSample | RunDone
_decode = msgspec.msgpack.Decoder(Message).decode


def pack(message: Message) -> bytes:
    """A message as it lies on a pipe."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4) + body


async def receive(reader: asyncio.StreamReader) -> Message | None:
    """The next message; None when the other side has gone."""
    try:
        size = int.from_bytes(await reader.readexactly(4))
        message: Message = _decode(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return message
