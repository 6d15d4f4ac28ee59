"""Tickets: what a browser shows instead of a key, once, within a minute.

Owns: how long one is good, and that it is good once. Must not know: requests, who asked for it.

An address is written down in many places (histories, logs of proxies), so that a key has no place
in one. A ticket has nothing to offer to who reads it there: it has been used.
"""

from __future__ import annotations

from collections import deque

import msgspec

from gateway.auth.permissions import Permissions
from gateway.auth.signing import Signer
from gateway.errors import ClientFault, ErrorCode

KIND = "ticket"
TICKET_S = 60.0
"""Seconds from being given out to being shown."""
USED = 65_536
"""Used tickets remembered until they expire; while there are as many, none is taken (``busy``)."""


class _Ticket(msgspec.Struct, frozen=True, array_like=True):
    nonce: bytes
    grant: Permissions


class Tickets:
    """Gives out tickets, and takes each of them once."""

    def __init__(self) -> None:
        self._used: set[bytes] = set()
        self._order: deque[tuple[float, bytes]] = deque()

    def __len__(self) -> int:
        return len(self._used)

    def mint(self, signer: Signer, grant: Permissions, nonce: bytes, now: float) -> str:
        """A ticket that is worth ``grant``.

        :param nonce: chance, so that no two are alike
        :param now: seconds of the Unix clock
        """
        return signer.sign(KIND, _Ticket(nonce, grant), now + TICKET_S)

    def home(self, signer: Signer, token: str, now: float) -> str | None:
        """The one room that a ticket is for, used or not; None where it is for none."""
        try:
            return signer.read(KIND, token, _Ticket, now).grant.home
        except ClientFault:
            return None

    def redeem(self, signer: Signer, token: str, now: float) -> Permissions:
        """What a ticket was worth. Raises `ClientFault`: ``unauthenticated``, ``busy``."""
        ticket = signer.read(KIND, token, _Ticket, now)
        while self._order and self._order[0][0] <= now:
            self._used.discard(self._order.popleft()[1])
        if ticket.nonce in self._used:
            raise ClientFault(
                ErrorCode.UNAUTHENTICATED, "This ticket has been used.", "Ask for a new one."
            )
        if len(self._used) >= USED:
            raise ClientFault(ErrorCode.BUSY, "Too many tickets were used within a minute.")
        self._used.add(ticket.nonce)
        self._order.append((now + TICKET_S, ticket.nonce))
        return ticket.grant
