"""Addresses of clients behind proxies, and limits of one address.

Owns: finding the address of a client, and the counters of each address. Must not know: sockets,
requests, keys.

Many people may share one address, so the limits only bound what a single machine can do. A single
client may have a whole IPv6 network, so IPv6 addresses are counted by their /64 prefix.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits, TokenBucket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

IDLE = 16_384
"""Number of addresses without an open socket that are remembered. Beyond it the one that was used
least recently is forgotten, so that an attacker with many addresses cannot fill the memory."""

MINUTE_S = 60.0


class TrustedProxies:
    """Proxies whose ``X-Forwarded-For`` is trusted. None by default."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """Create a list. Raises `ValueError` for other text than ``10.0.0.0/8`` or an address."""
        self._networks = tuple(map(ipaddress.ip_network, networks))

    def client_address(self, peer: str | None, forwarded: Sequence[str]) -> str | None:
        """Return the address (IPv6: the /64 network) to count a connection under.

        None means that the connection is not counted. This holds for connections from this machine
        and over UNIX sockets, unless a trusted proxy there named the client.

        :param peer: address of the connection; None for a UNIX socket
        :param forwarded: values of ``X-Forwarded-For``, in order
        """
        here = parsed(peer)
        if here is None:
            return None
        hops = [hop for value in forwarded for hop in value.split(",")]
        named = False
        # The last address that is no proxy is the client. The client itself may have written
        # everything before it.
        while hops and self._trusted(here) and (hop := parsed(hops.pop())) is not None:
            here, named = hop, True
        if here.is_loopback and not named:
            return None
        if isinstance(here, ipaddress.IPv6Address):
            return str(ipaddress.ip_network((here, 64), strict=False))
        return str(here)

    def peer_address(self, peer: str | None) -> str | None:
        """Return the address to count a connection under before any header has been read."""
        # A proxy has not named the client yet, so it is not counted.
        here = parsed(peer)
        return None if here is None or self._trusted(here) else self.client_address(peer, ())

    def _trusted(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


@dataclass(slots=True)
class _AddressRecord:
    """Counters of one address."""

    bucket: TokenBucket
    since: float  # start of the minute in which `failures` are counted
    failures: int = 0
    sockets: int = 0


class AddressLimits:
    """Open sockets and failed attempts of each address, with limits. None is never limited."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[str, _AddressRecord] = {}
        self._idle: OrderedDict[str, _AddressRecord] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open) + len(self._idle)

    def connect(self, address: str | None, now: float) -> None:
        """Count a new socket, at a time of a monotonic clock. Call `disconnect` when it is closed.

        Raises `ClientFault` (``busy``) if the address has too many sockets or opens them too fast.
        """
        if address is None:
            return
        record = self._record(address, now)
        # The rate comes first, so that refused attempts count towards it.
        if wait := record.bucket.take(now):
            what = f"opened more than {self._limits.address_rate:g} sockets a second"
            raise _busy(what, "Open fewer at once.", wait)
        if record.sockets >= self._limits.address_sockets:
            raise _busy(f"{record.sockets} sockets already", "Close one that is not needed.")
        record.sockets += 1
        # Only idle addresses can be forgotten.
        self._open[address] = record
        self._idle.pop(address, None)

    def disconnect(self, address: str | None) -> None:
        """Count a closed socket."""
        if address is None:
            return
        record = self._open[address]
        record.sockets -= 1
        # Idle addresses are still remembered, or closing a socket would reset its limits.
        if not record.sockets:
            self._remember(address, self._open.pop(address))

    def record_failure(self, address: str | None, now: float) -> None:
        """Count an invalid key."""
        if address is not None:
            self._record(address, now).failures += 1

    def check(self, address: str | None, now: float) -> None:
        """Raise `ClientFault` (``busy``) if the address has sent too many invalid keys."""
        if address is None:
            return
        record = self._open.get(address) or self._idle.get(address)
        if record is None:
            return  # a check alone does not make an address remembered
        if now - record.since >= MINUTE_S:
            record.since, record.failures = now, 0
        if record.failures >= self._limits.address_failures:
            what = f"sent {record.failures} invalid keys within a minute"
            wait = record.since + MINUTE_S - now
            raise _busy(what, f"Send a valid one in {math.ceil(wait)} s.", wait)

    def _record(self, address: str, now: float) -> _AddressRecord:
        """Return the counters of an address, which becomes the most recent of the idle ones."""
        record = self._open.get(address)
        if record is None:
            record = self._idle.pop(address, None)
            if record is None:
                rate, burst = self._limits.address_rate, self._limits.address_sockets
                record = _AddressRecord(TokenBucket(rate, burst, now), now)
            self._remember(address, record)
        return record

    def _remember(self, address: str, record: _AddressRecord) -> None:
        self._idle[address] = record
        if len(self._idle) > IDLE:
            self._idle.popitem(last=False)


def parsed(text: str | None) -> Address | None:
    """Parse an address with or without a port, None if it is none. Mapped IPv6 becomes IPv4."""
    text = (text or "").strip()
    # With several colons and no brackets it is an IPv6 address without a port.
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _busy(what: str, hint: str, wait: float | None = None) -> ClientFault:
    """Return a refusal. ``wait`` is the number of seconds until it ends, if that is known."""
    retry_ms = None if wait is None else math.ceil(wait * 1000)
    return ClientFault(ErrorCode.BUSY, f"This address has {what}.", hint, retry_ms)
