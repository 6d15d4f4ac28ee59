"""Addresses of clients, with and without proxies, and the limits of one address."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth import client_ip as module
from gateway.auth.client_ip import AddressLimits, TrustedProxies
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits

NOW = 1_000.0
HERE = "203.0.113.7"


# --- address of a client --------------------------------------------------------------------------


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
def test_without_a_proxy_the_address_of_the_connection_counts(
    peer: str | None, counted: str | None
) -> None:
    assert TrustedProxies().client_address(peer, []) == counted


def test_the_forwarded_header_of_an_untrusted_peer_is_ignored() -> None:
    assert TrustedProxies().client_address(HERE, ["198.51.100.1"]) == HERE
    assert TrustedProxies(["10.0.0.0/8"]).client_address(HERE, ["198.51.100.1"]) == HERE
    assert TrustedProxies().client_address("127.0.0.1", ["198.51.100.1"]) is None


@pytest.mark.parametrize(
    ("forwarded", "counted"),
    [
        ([HERE], HERE),
        (["198.51.100.1, 203.0.113.7"], HERE),  # the client wrote the first one itself
        (["198.51.100.1", HERE], HERE),
        (["203.0.113.7, 10.1.1.1"], HERE),  # two proxies
        (["203.0.113.7:4711"], HERE),
        (["[2001:db8::7]:4711"], "2001:db8::/64"),
        (["198.51.100.1, unknown"], "10.0.0.1"),
        (["10.1.1.1"], "10.1.1.1"),
        (["127.0.0.1"], "127.0.0.1"),  # named by a proxy, so it counts
        ([""], "10.0.0.1"),
        ([], "10.0.0.1"),
    ],
)
def test_the_last_forwarded_address_that_is_no_proxy_is_the_client(
    forwarded: list[str], counted: str
) -> None:
    assert TrustedProxies(["10.0.0.0/8"]).client_address("10.0.0.1", forwarded) == counted


def test_a_connection_from_a_local_proxy_counts_only_for_the_client_it_names() -> None:
    proxies = TrustedProxies(["127.0.0.1", "::1"])
    assert proxies.client_address("127.0.0.1", [HERE]) == HERE
    assert proxies.client_address("127.0.0.1", []) is None


def test_a_proxy_that_is_not_a_network_is_refused() -> None:
    with pytest.raises(ValueError, match="proxy"):
        TrustedProxies(["proxy"])


@given(st.text(), st.lists(st.text()))
def test_arbitrary_forwarded_headers_raise_nothing(peer: str, forwarded: list[str]) -> None:
    TrustedProxies(["0.0.0.0/0", "::/0"]).client_address(peer, forwarded)
    assert TrustedProxies(["10.0.0.0/8"]).client_address("10.0.0.1", forwarded) is not None


# --- limits of one address ------------------------------------------------------------------------


def limited(**limits: Any) -> AddressLimits:
    return AddressLimits(Limits(**limits))


def busy(addresses: AddressLimits, now: float = NOW, address: str = HERE) -> tuple[str, int | None]:
    """Return the message of the refusal, and the milliseconds until a retry."""
    with pytest.raises(ClientFault) as caught:
        addresses.connect(address, now)
    assert caught.value.code is ErrorCode.BUSY
    return str(caught.value), caught.value.retry_ms


def test_an_address_has_a_limited_number_of_open_sockets() -> None:
    addresses = limited(address_sockets=2)
    addresses.connect(HERE, NOW)
    addresses.connect(HERE, NOW)
    assert busy(addresses, NOW + 1) == ("This address has 2 sockets already.", 1000)
    addresses.connect("203.0.113.8", NOW)
    addresses.disconnect(HERE)
    addresses.connect(HERE, NOW + 2)


def test_an_address_with_a_zone_is_counted_without_it() -> None:
    assert TrustedProxies().client_address("2001:db8::1%eth0", ()) == "2001:db8::/64"


def test_sockets_of_one_address_are_counted_one_by_one() -> None:
    addresses = limited(address_sockets=3)
    for _ in range(3):
        addresses.connect(HERE, NOW)
    assert len(addresses) == 1
    addresses.disconnect(HERE)
    addresses.disconnect(HERE)
    addresses.connect(HERE, NOW + 1)
    addresses.connect(HERE, NOW + 1)
    assert busy(addresses, NOW + 2)[0] == "This address has 3 sockets already."
    for _ in range(3):
        addresses.disconnect(HERE)
    assert len(addresses) == 1


def test_an_address_opens_a_limited_number_of_sockets_a_second() -> None:
    addresses = limited(address_sockets=3, address_rate=2)
    for _ in range(3):
        addresses.connect(HERE, NOW)
        addresses.disconnect(HERE)
    said, after_ms = busy(addresses)
    assert (said, after_ms) == ("This address has opened more than 2 sockets a second.", 500)
    addresses.connect(HERE, NOW + 0.5)


def test_the_address_none_is_never_limited() -> None:
    addresses = limited(address_sockets=1, address_failures=1)
    for _ in range(3):
        addresses.connect(None, NOW)
        addresses.record_failure(None, NOW)
        addresses.check(None, NOW)
    addresses.disconnect(None)
    assert len(addresses) == 0


def test_after_too_many_invalid_keys_no_key_of_the_address_is_checked_for_a_minute() -> None:
    addresses = limited(address_failures=2)
    addresses.check(HERE, NOW)
    for _ in range(2):
        addresses.check(HERE, NOW)
        addresses.record_failure(HERE, NOW)
    with pytest.raises(ClientFault, match="2 invalid keys within a minute") as caught:
        addresses.check(HERE, NOW + 58.5)
    assert caught.value.code is ErrorCode.BUSY
    assert (caught.value.retry_ms, caught.value.hint) == (1500, "Send a valid one in 2 s.")
    addresses.check("203.0.113.8", NOW)
    addresses.check(HERE, NOW + 60)
    addresses.record_failure(HERE, NOW + 60)
    addresses.check(HERE, NOW + 61)


def test_only_idle_addresses_are_forgotten_the_least_recent_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "IDLE", 2)
    addresses = limited(address_failures=1, address_sockets=10)
    addresses.connect(HERE, NOW)
    addresses.record_failure(HERE, NOW)
    for name in "abcd":
        addresses.record_failure(name, NOW)
    addresses.connect("e", NOW)
    addresses.disconnect("e")
    assert len(addresses) == 3
    addresses.check("c", NOW)
    for name in (HERE, "d"):
        with pytest.raises(ClientFault):
            addresses.check(name, NOW)


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
def test_a_connection_of_a_proxy_is_not_counted_before_it_names_the_client(
    peer: str | None, counted: str | None
) -> None:
    assert TrustedProxies(["10.0.0.0/8"]).peer_address(peer) == counted
