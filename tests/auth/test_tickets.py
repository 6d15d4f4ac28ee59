"""A ticket is good once, for a minute, and for what it was given out for."""

from __future__ import annotations

import pytest

from gateway.auth import tickets as module
from gateway.auth.permissions import Permissions, Quota, Role
from gateway.auth.signing import Signer
from gateway.auth.tickets import TICKET_S, Tickets
from gateway.errors import ClientFault, ErrorCode

NOW = 1_000.0
GRANT = Permissions(
    name="a", role=Role.VIEW, rooms=("board",), langs=("de",), quota=Quota(sessions=1)
)

signer = Signer(b"a key of the tests")


def refused(tickets: Tickets, token: str, now: float = NOW) -> ClientFault:
    with pytest.raises(ClientFault) as caught:
        tickets.redeem(signer, token, now)
    return caught.value


def test_a_ticket_is_worth_what_it_was_given_out_for_and_that_once() -> None:
    tickets = Tickets()
    token = tickets.mint(signer, GRANT, b"1", NOW)
    assert tickets.redeem(signer, token, NOW) == GRANT
    fault = refused(tickets, token, NOW + TICKET_S - 1)
    assert (fault.code, str(fault)) == (ErrorCode.UNAUTHENTICATED, "This ticket has been used.")


def test_a_ticket_is_good_for_a_minute_and_is_forgotten_after_it() -> None:
    tickets = Tickets()
    old, new = (tickets.mint(signer, GRANT, b"%d" % at, NOW + at) for at in (0, 70))
    tickets.redeem(signer, old, NOW)
    assert "has expired" in str(refused(tickets, old, NOW + TICKET_S))
    tickets.redeem(signer, new, NOW + 70)
    assert len(tickets) == 1


def test_only_so_many_used_tickets_are_remembered_and_none_is_taken_beyond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "USED", 1)
    tickets = Tickets()
    first, second = (tickets.mint(signer, GRANT, nonce, NOW) for nonce in (b"1", b"2"))
    tickets.redeem(signer, first, NOW)
    assert refused(tickets, second).code is ErrorCode.BUSY


def test_which_room_a_ticket_is_for_can_be_told_without_using_it() -> None:
    tickets = Tickets()
    token = tickets.mint(signer, GRANT, b"1", NOW)
    assert tickets.home(signer, token, NOW) == "board"
    assert tickets.redeem(signer, token, NOW) == GRANT
    assert tickets.home(signer, token, NOW) == "board"  # who comes with it is told there
    assert tickets.home(signer, token, NOW + TICKET_S) is None
    assert tickets.home(Signer(b"another key"), token, NOW) is None
