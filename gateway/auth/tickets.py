"""Tickets: tokens that a browser sends in a URL instead of a key, valid once and for a minute.

Owns: the lifetime of a ticket, and that it is accepted only once. Must not know: requests, who
asked for a ticket.

URLs are stored in many places (browser histories, logs of proxies), so a key must not be part of
one. A ticket found there is worthless, because it has been used.
"""

from __future__ import annotations

from collections import deque

import msgspec

from gateway.auth.permissions import Permissions
from gateway.auth.signing import Signer
from gateway.errors import ClientFault, ErrorCode

KIND = "ticket"
TICKET_S = 60.0
"""Seconds for which a ticket is valid."""
MAX_USED = 65_536
"""Number of used tickets that are remembered until they expire. Beyond it tickets are refused with
``busy``: to forget one early would make it valid again."""


class _Ticket(msgspec.Struct, frozen=True, array_like=True):
    """Payload of a ticket."""

    nonce: bytes
    permissions: Permissions


class Tickets:
    """Issuer of tickets, which accepts each of them once."""

    def __init__(self) -> None:
        self._used: set[bytes] = set()
        self._order: deque[tuple[float, bytes]] = deque()

    def __len__(self) -> int:
        return len(self._used)

    def issue(self, signer: Signer, permissions: Permissions, nonce: bytes, now: float) -> str:
        """Return a new ticket that gives ``permissions``.

        :param nonce: random bytes that make the ticket unique
        :param now: seconds of the Unix clock
        """
        return signer.sign(KIND, _Ticket(nonce, permissions), now + TICKET_S)

    def redeem(self, signer: Signer, token: str, now: float) -> Permissions:
        """Use a ticket and return its permissions.

        Raises `ClientFault`: ``unauthenticated`` if it is invalid, expired or used, ``busy`` if too
        many tickets were used within a minute.
        """
        ticket = signer.read(KIND, token, _Ticket, now)
        # An expired ticket is refused anyway, so its nonce need not be remembered.
        while self._order and self._order[0][0] <= now:
            self._used.discard(self._order.popleft()[1])
        if ticket.nonce in self._used:
            raise ClientFault(
                ErrorCode.UNAUTHENTICATED, "This ticket has been used.", "Ask for a new one."
            )
        if len(self._used) >= MAX_USED:
            raise ClientFault(ErrorCode.BUSY, "Too many tickets were used within a minute.")
        self._used.add(ticket.nonce)
        # The ticket was issued before, so it expires before this.
        self._order.append((now + TICKET_S, ticket.nonce))
        return ticket.permissions
