"""The permissions of a socket, and their renewal."""

from __future__ import annotations

import pytest

from gateway.auth.permissions import Permissions, Role
from gateway.errors import ClientFault, CloseCode, ErrorCode
from gateway.protocol.messages import Snapshot
from gateway.protocol.notices import Authenticated, Error
from tests.support.meeting import Meeting, Peer, assert_error, names, one


def renewed(permissions: Permissions, *langs: str, before: Permissions | None = None) -> Peer:
    """Return a speaker whose next key gives ``permissions``."""
    return Meeting().enter(
        *langs, permissions=before or Permissions(name="old"), renew=lambda _: permissions
    )


def test_a_language_beyond_the_permissions_is_refused_and_the_others_are_read() -> None:
    peer = Meeting().enter("de", "fr", permissions=Permissions(langs=("de",)), greeted=False)
    assert names(events := peer.events()) == ["welcome", "error"]
    assert one(Error, events).code == ErrorCode.FORBIDDEN
    assert peer.session.member.langs == ("de",)


def test_want_cannot_go_beyond_the_permissions() -> None:
    peer = Meeting().enter("de", permissions=Permissions(langs=("de",)))
    error = assert_error(peer.send("want", langs=["fr"], ref="x"), ErrorCode.FORBIDDEN)
    assert (error.ref, error.hint) == ("x", "It allows: de.")
    assert peer.session.member.langs == ("de",)


def test_recent_events_are_not_sent_in_a_language_beyond_the_permissions() -> None:
    meeting = Meeting()
    meeting.enter("fr").say("good morning", id="a")
    meeting.finish_all()
    peer = meeting.enter("fr", permissions=Permissions(langs=("de",)), greeted=False)
    assert names(peer.events()) == ["welcome", "error"]


def test_a_snapshot_has_only_the_permitted_languages() -> None:
    meeting = Meeting()
    meeting.enter("de", "fr").say("good morning", id="a")
    meeting.finish_all()
    peer = meeting.enter(permissions=Permissions(langs=("de-AT",)))
    lines = one(Snapshot, peer.send("get", id="a")).lines
    assert [line.lang for line in lines] == ["de"]


def test_any_token_is_accepted_if_the_gateway_needs_none() -> None:
    peer = Meeting().enter()
    assert peer.send("auth", token="?", ref="r") == [Authenticated(ref="r")]


def test_the_token_that_was_sent_is_the_one_that_is_checked() -> None:
    tokens: list[str] = []

    def renew(token: str) -> Permissions:
        tokens.append(token)
        return Permissions()

    Meeting().enter(renew=renew).send("auth", token="mine")
    assert tokens == ["mine"]


def test_another_token_gives_its_own_rights_from_now_on() -> None:
    peer = renewed(Permissions(name="new", until=9.0, langs=("de",)))
    assert peer.send("auth", token="t") == [Authenticated(name="new", until=9.0)]
    assert_error(peer.send("want", langs=["fr"]), ErrorCode.FORBIDDEN)


@pytest.mark.parametrize(
    "permissions",
    [
        Permissions(role=Role.VIEW),
        Permissions(rooms=("board",)),
        Permissions(langs=("fr",)),
        Permissions(tenant="other"),
    ],
)
def test_a_token_that_would_not_have_let_the_socket_in_changes_nothing(
    permissions: Permissions,
) -> None:
    peer = renewed(permissions, "de")
    before = peer.session.permissions
    assert_error(peer.send("auth", token="t"), ErrorCode.FORBIDDEN)
    assert peer.session.permissions is before


def test_a_token_that_is_not_valid_changes_nothing() -> None:
    def renew(token: str) -> Permissions:
        raise ClientFault(ErrorCode.UNAUTHENTICATED, "It is not known.")

    peer = Meeting().enter(permissions=Permissions(name="old"), renew=renew)
    error = assert_error(peer.send("auth", token="t", ref="r"), ErrorCode.UNAUTHENTICATED)
    assert (error.ref, error.fatal) == ("r", False)
    assert peer.session.permissions.name == "old"


def test_a_socket_that_is_refused_is_told_why_and_closed() -> None:
    peer = Meeting().enter()
    fault = ClientFault(ErrorCode.UNAUTHENTICATED, "It has expired.")
    peer.session.refuse(fault, CloseCode.UNAUTHENTICATED, 0.0)
    assert peer.session.outbox.closing is CloseCode.UNAUTHENTICATED
    assert peer.session.outbox.reason == "It has expired."
    assert one(Error, peer.events()).fatal
