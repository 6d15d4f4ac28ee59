"""The table of the outages: a line for each run.

Owns: the figures of a run, and whether every promise held. Must not know: how anything was counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

KINDS = ("resets", "refusals", "half-closes", "delays", "flushes", "restarts", "mixed")
"""Kinds of runs, one after the other; ``mixed`` has all faults."""


class Row(msgspec.Struct, kw_only=True):
    """The figures of one run."""

    run: int
    seed: int
    kind: str
    faults: dict[str, int]
    kills: int
    said: int
    events: int
    resumed: int
    not_ready: int
    """Samples in which a gateway that ran was not ready."""
    lost: int
    twice: int
    differ: int
    ended_twice: int
    unended: int
    anew: int
    """Histories of a room beyond its first."""
    endless: int
    """Keys of Redis that once had no end."""
    unexpected: dict[str, int]
    examples: list[str]

    @property
    def clean(self) -> bool:
        """True if every promise held."""
        counts = (self.lost, self.twice, self.differ, self.ended_twice, self.unended, self.anew)
        return not any(counts) and not self.endless and not self.unexpected and self.events > 0


COLUMNS = (
    *("run", "seed", "kind", "kills", "said", "events", "resumed", "not_ready", "lost", "twice"),
    *("differ", "ended_twice", "unended", "anew", "endless"),
)


def line(values: Sequence[object]) -> str:
    """Return one line of the table."""
    widths = [max(6, len(column)) for column in COLUMNS]
    widths[2] = max(map(len, KINDS))
    return "  ".join(f"{value!s:>{width}}" for value, width in zip(values, widths, strict=True))
