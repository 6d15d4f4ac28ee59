"""The loss that a late reader suffers, and its counters.

Owns: the stages of shedding, the merging of deltas, and the memory that waiting frames take. Must
not know: queues, sockets, who is late.
"""

from __future__ import annotations

import enum
from sys import getsizeof

import msgspec
from msgspec.structs import replace

from gateway.limits import memory
from gateway.protocol.messages import Delta

ENTRY_BYTES = 256
"""Memory of a waiting frame beside its bytes (``tests/core/delivery/test_outbox.py`` measures
it)."""
DELTA_BYTES = 160
"""Memory of a delta beside its frame, which is kept to merge a later one with it."""


class ShedStage(enum.Enum):
    """The events that a late reader is still sent."""

    ALL = "all"
    STABLE = "stable"  # no drafts
    DURABLE = "durable"  # no deltas


class DeliveryCounters(msgspec.Struct, eq=False):
    """The fate of the frames of many sockets, counted since the start."""

    merged: int = 0
    """Deltas that were merged into a later one, or that an end made void."""
    drafts: int = 0
    """Drafts that were dropped."""
    deltas: int = 0
    """Deltas that were dropped."""
    lags: int = 0
    """``lag`` events."""
    slow: int = 0
    """Sockets closed with 4008."""


def merge(older: Delta, newer: Delta) -> Delta:
    """Return the one delta that has the effect of both, in order."""
    return replace(
        newer,
        add=newer.add if newer.reset else older.add + newer.add,
        draft=older.draft if newer.draft is None else newer.draft,
        reset=older.reset or newer.reset,
        speaker=newer.speaker or older.speaker,
    )


def weight(wire: bytes | None, delta: Delta | None = None) -> int:
    """Return the memory of a waiting frame, in bytes."""
    size = ENTRY_BYTES
    if wire is not None:
        size += getsizeof(wire)
    if delta is not None:
        size += DELTA_BYTES + sum(map(memory, (delta.id, delta.add, delta.draft or "")))
        if delta.speaker is not None:
            size += memory(delta.speaker)
    return size
