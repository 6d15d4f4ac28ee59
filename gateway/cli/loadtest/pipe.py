"""Messages between the process that reports and the client processes.

Owns: the messages and their encoding on a pipe: four bytes of length, then MessagePack. Must not
know: what is done with them.
"""

from __future__ import annotations

import asyncio

import msgspec

from gateway.cli.loadtest.model.plan import Plan
from gateway.cli.loadtest.model.tally import LoadTally
from gateway.cli.report.stats import Histogram


class ClientConfig(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """The configuration of a client process. Keys never stand on a command line."""

    plan: Plan
    process: int
    key: str | None
    lines: list[str]


class BeginRun(msgspec.Struct, tag=True, frozen=True):
    """The moment 0 of the run, by the monotonic clock that all processes share."""

    at: float


class StopRun(msgspec.Struct, tag=True, frozen=True):
    """The request to end now and to send the counters."""


class SocketsReady(msgspec.Struct, tag=True, frozen=True):
    """The notice that all sockets are open."""


class SocketFailed(msgspec.Struct, tag=True, frozen=True):
    """The reason why a socket could not be opened, as a sentence."""

    msg: str


class ProgressSample(msgspec.Struct, tag=True, frozen=True):
    """Counters and latencies so far, for the progress bar."""

    counts: dict[str, int]
    errors: int
    first: Histogram
    final: Histogram


class RunDone(msgspec.Struct, tag=True, frozen=True):
    """The results of a process. ``whole``: the run was neither stopped nor cut off."""

    tally: LoadTally
    whole: bool


Message = ClientConfig | BeginRun | StopRun | SocketsReady | SocketFailed | ProgressSample | RunDone
_decode = msgspec.msgpack.Decoder(Message).decode


def pack(message: Message) -> bytes:
    """Encode a message for a pipe."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4) + body


async def receive(reader: asyncio.StreamReader) -> Message | None:
    """Return the next message, or None if the other side has gone."""
    try:
        size = int.from_bytes(await reader.readexactly(4))
        message: Message = _decode(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return message
