"""The utterances of one session that have not ended.

Owns: their ids, and the number of requests that another gateway has not answered. Must not know:
rooms, quotas, sockets.
"""

from __future__ import annotations


class InFlight:
    """The work in flight of one session, whichever of its sockets has begun it.

    :param owner: id of the session
    """

    __slots__ = ("owner", "pending", "utterances")

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.utterances: set[str] = set()
        """Ids of utterances that have not ended."""
        self.pending = 0
        """Requests without an answer that name none of `utterances`. They count like utterances,
        since each of them may begin one."""

    def __repr__(self) -> str:
        return f"<InFlight of {self.owner}: {len(self.utterances)} and {self.pending} pending>"

    def __len__(self) -> int:
        return len(self.utterances) + self.pending

    def clear(self) -> None:
        """End everything. An account that counts this object counts nothing more."""
        self.utterances.clear()
        self.pending = 0
