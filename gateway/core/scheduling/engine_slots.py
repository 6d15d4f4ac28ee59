"""The slots of several engines, of which each translates some language pairs only."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

Lane = tuple[str, ...]
"""Names of the engines to which jobs of a language pair can go. Jobs of one lane wait for the same
slots. It is empty while no engine can translate the pair."""


@runtime_checkable
class Slots(Protocol):
    """The engines behind a scheduler, as far as it matters which of them takes a job."""

    def lane(self, source: str, target: str, /) -> Lane:
        """Return the engines that can translate a pair now."""

    def size(self, lane: Lane, /) -> int:
        """Return how many jobs these engines take at once."""

    def free(self, lane: Lane, /) -> int:
        """Return how many more jobs these engines take now.

        Jobs that no engine can translate are always taken, because they fail at once.
        """
