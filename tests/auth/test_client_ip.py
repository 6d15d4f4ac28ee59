"""An address is what the connection, or a proxy that is trusted, says; and what it may do ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth import client_ip as module
from gateway.auth.client_ip import AddressLimits, TrustedProxies
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits

NOW = 1_000.0
HERE = "203.0.113.7"


# --- who it is ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        (HERE, HERE),
        ("::ffff:203.0.113.7", HERE),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("127.0.0.1", None),
        ("::1", None),
        ("::ffff:127.0.0.1", None),
        (None, None),
        ("", None),
        ("testclient", None),
    ],
)
def test_without_a_proxy_the_connection_tells_who_it_is(
    peer: str | None, counted: str | None
) -> None:
    assert TrustedProxies().client(peer, []) == counted


def test_a_header_of_somebody_who_is_no_proxy_says_nothing() -> None:
    assert TrustedProxies().client(HERE, ["198.51.100.1"]) == HERE
    assert TrustedProxies(["10.0.0.0/8"]).client(HERE, ["198.51.100.1"]) == HERE
    assert TrustedProxies().client("127.0.0.1", ["198.51.100.1"]) is None


@pytest.mark.parametrize(
    ("forwarded", "counted"),
    [
        ([HERE], HERE),
        (["198.51.100.1, 203.0.113.7"], HERE),  # the first is what the client wrote itself
        (["198.51.100.1", HERE], HERE),
        (["203.0.113.7, 10.1.1.1"], HERE),  # two proxies
        (["203.0.113.7:4711"], HERE),
        (["[2001:db8::7]:4711"], "2001:db8::/64"),
        (["198.51.100.1, unknown"], "10.0.0.1"),
        (["10.1.1.1"], "10.1.1.1"),
        (["127.0.0.1"], "127.0.0.1"),  # told, so that it is no excuse
        ([""], "10.0.0.1"),
        ([], "10.0.0.1"),
    ],
)
def test_of_what_a_proxy_tells_the_last_address_that_is_no_proxy_holds(
    forwarded: list[str], counted: str
) -> None:
    assert TrustedProxies(["10.0.0.0/8"]).client("10.0.0.1", forwarded) == counted


def test_a_proxy_on_this_machine_is_counted_only_where_it_tells_for_whom_it_asks() -> None:
    proxies = TrustedProxies(["127.0.0.1", "::1"])
    assert proxies.client("127.0.0.1", [HERE]) == HERE
    assert proxies.client("127.0.0.1", []) is None


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(ValueError, match="proxy"):
        TrustedProxies(["proxy"])


@given(st.text(), st.lists(st.text()))
def test_no_header_breaks_it(peer: str, forwarded: list[str]) -> None:
    TrustedProxies(["0.0.0.0/0", "::/0"]).client(peer, forwarded)
    assert TrustedProxies(["10.0.0.0/8"]).client("10.0.0.1", forwarded) is not None


# --- what it may do -------------------------------------------------------------------------------


def limited(**limits: float) -> AddressLimits:
    return AddressLimits(Limits(**limits))  # type: ignore[arg-type]


def busy(addresses: AddressLimits, now: float = NOW, address: str = HERE) -> tuple[str, int | None]:
    """What is said, and in how many milliseconds to come again."""
    with pytest.raises(ClientFault) as caught:
        addresses.enter(address, now)
    assert caught.value.code is ErrorCode.BUSY
    return str(caught.value), caught.value.retry_ms


def test_one_address_has_so_many_sockets_and_no_more_until_one_leaves() -> None:
    addresses = limited(address_sockets=2)
    addresses.enter(HERE, NOW)
    addresses.enter(HERE, NOW)
    assert busy(addresses, NOW + 1) == ("This address has 2 sockets already.", 1000)
    addresses.enter("203.0.113.8", NOW)
    addresses.leave(HERE)
    addresses.enter(HERE, NOW + 2)


def test_one_address_opens_so_many_sockets_a_second() -> None:
    addresses = limited(address_sockets=3, address_rate=2)
    for _ in range(3):
        addresses.enter(HERE, NOW)
        addresses.leave(HERE)
    said, after_ms = busy(addresses)
    assert (said, after_ms) == ("This address has opened more than 2 sockets a second.", 500)
    addresses.enter(HERE, NOW + 0.5)


def test_this_machine_is_not_counted() -> None:
    addresses = limited(address_sockets=1, address_failures=1)
    for _ in range(3):
        addresses.enter(None, NOW)
        addresses.failed(None, NOW)
        addresses.trust(None, NOW)
    addresses.leave(None)
    assert len(addresses) == 0


def test_after_so_many_keys_that_are_not_valid_none_is_looked_at_for_the_rest_of_a_minute() -> None:
    addresses = limited(address_failures=2)
    addresses.trust(HERE, NOW)
    for _ in range(2):
        addresses.trust(HERE, NOW)
        addresses.failed(HERE, NOW)
    with pytest.raises(ClientFault, match="2 keys within a minute") as caught:
        addresses.trust(HERE, NOW + 58.5)
    assert caught.value.code is ErrorCode.BUSY
    assert (caught.value.retry_ms, caught.value.hint) == (1500, "Show a valid one in 2 s.")
    addresses.trust("203.0.113.8", NOW)
    addresses.trust(HERE, NOW + 60)


def test_an_address_with_a_socket_open_is_not_forgotten_and_of_others_the_oldest_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "IDLE", 2)
    addresses = limited(address_failures=1, address_sockets=10)
    addresses.enter(HERE, NOW)
    addresses.failed(HERE, NOW)
    for name in "abcd":
        addresses.failed(name, NOW)
    addresses.enter("e", NOW)
    addresses.leave("e")
    assert len(addresses) == 3
    addresses.trust("c", NOW)
    for name in (HERE, "d"):
        with pytest.raises(ClientFault):
            addresses.trust(name, NOW)


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("9.9.9.9", "9.9.9.9"),
        ("2001:db8::1", "2001:db8::/64"),
        ("127.0.0.1", None),
        ("10.1.2.3", None),
        (None, None),
    ],
)
def test_a_connection_of_a_proxy_is_nobodys_until_it_has_told_for_whom_it_asks(
    peer: str | None, counted: str | None
) -> None:
    assert TrustedProxies(["10.0.0.0/8"]).direct(peer) == counted
