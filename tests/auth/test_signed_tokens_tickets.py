"""Tickets: valid once, for a minute."""

from __future__ import annotations

import pytest

from gateway.auth import signed_tokens as module
from gateway.auth.permissions import Permissions, Quota, Role
from gateway.auth.signed_tokens import TICKET_S, Signer, Tickets
from gateway.errors import ClientFault, ErrorCode

NOW = 1_000.0
PERMISSIONS = Permissions(
    name="a", role=Role.VIEW, rooms=("board",), langs=("de",), quota=Quota(sessions=1)
)

signer = Signer(b"a key of the tests")


def refused(tickets: Tickets, token: str, now: float = NOW) -> ClientFault:
    with pytest.raises(ClientFault) as caught:
        tickets.redeem(signer, token, now)
    return caught.value


def test_a_ticket_gives_its_permissions_once() -> None:
    tickets = Tickets()
    token = tickets.issue(signer, PERMISSIONS, b"1", NOW)
    assert tickets.redeem(signer, token, NOW) == PERMISSIONS
    fault = refused(tickets, token, NOW + TICKET_S - 1)
    assert (fault.code, str(fault)) == (ErrorCode.UNAUTHENTICATED, "This ticket has been used.")


def test_a_ticket_is_valid_for_a_minute_and_then_forgotten() -> None:
    tickets = Tickets()
    old, new = (tickets.issue(signer, PERMISSIONS, b"%d" % at, NOW + at) for at in (0, 70))
    tickets.redeem(signer, old, NOW)
    assert "has expired" in str(refused(tickets, old, NOW + TICKET_S))
    tickets.redeem(signer, new, NOW + 70)
    assert len(tickets) == 1
    last = tickets.issue(signer, PERMISSIONS, b"last", NOW + 100)
    tickets.redeem(signer, last, NOW + 70 + TICKET_S)
    assert len(tickets) == 1


def test_tickets_are_refused_while_too_many_used_ones_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_USED", 1)
    tickets = Tickets()
    first, second = (tickets.issue(signer, PERMISSIONS, nonce, NOW) for nonce in (b"1", b"2"))
    tickets.redeem(signer, first, NOW)
    assert refused(tickets, second).code is ErrorCode.BUSY
