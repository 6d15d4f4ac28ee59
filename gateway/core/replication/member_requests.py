"""The requests of one member that go to the authority of its room.

Owns: their numbers, and which of them wait for an answer. Must not know: how they travel, what they
ask for.

Bound: `WAITING` requests.
"""

from __future__ import annotations

from gateway.core.members.member import InFlight
from gateway.core.room.abstract_room import Request
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.messages import Say

WAITING = 64
"""Requests that may wait for an answer: more than a socket sends in the time that a change of the
authority takes."""

Languages = tuple[str, ...] | None
"""Languages that the member may read; None for all."""


class MemberRequests:
    """The requests of one member, and the utterances that they have led to.

    ``sent`` is the number of the last one that was sent to an authority.
    """

    __slots__ = ("_in_flight", "_last", "_utterances", "_waiting", "sent")

    def __init__(self, in_flight: InFlight) -> None:
        self.sent = 0
        self._in_flight = in_flight
        self._last = 0
        self._waiting: dict[int, tuple[Request, Languages]] = {}
        self._utterances: tuple[str, ...] = ()  # in flight, as the authority has told

    def add(self, message: Request, langs: Languages) -> None:
        """Add a request. Raises `ClientFault` (``busy``)."""
        # Nobody takes them while the room has no authority.
        if len(self._waiting) >= WAITING:
            raise ClientFault(
                ErrorCode.BUSY, "The room is changing its process; say it again in a moment."
            )
        self._last += 1
        self._waiting[self._last] = (message, langs)
        self._count()

    def unsent(self) -> list[tuple[int, Request, Languages]]:
        """Return the requests that were not sent yet, with their numbers. They count as sent."""
        left = [(n, *request) for n, request in self._waiting.items() if n > self.sent]
        self.sent = self._last
        return left

    def answered(self, number: int, utterances: tuple[str, ...]) -> None:
        """Note that all requests up to a number were carried out, and which utterances of the
        member have not ended.
        """
        self._waiting = {n: request for n, request in self._waiting.items() if n > number}
        self._utterances = utterances
        self._count()

    def may_be_lost(self, *, same: bool) -> bool:
        """Tell whether an authority that greets may not know the requests: it need not be the one
        that was asked.
        """
        unanswered = any(number <= self.sent for number in self._waiting)
        return unanswered or bool(self._utterances and not same)

    def clear(self) -> None:
        """Forget all requests and utterances."""
        self._waiting.clear()
        self._utterances = ()
        self._count()

    def _count(self) -> None:
        """Count utterances and requests without an answer as the work in flight."""
        said = [m.id if isinstance(m, Say) else None for m, _ in self._waiting.values()]
        self._in_flight.utterances = {*self._utterances, *(id for id in said if id is not None)}
        self._in_flight.pending = said.count(None)
