"""Who is at the other end, as far as an address tells, and how much one address may do.

Owns: how an address is made out behind proxies, and what is counted of each. Must not know:
sockets, requests, keys.

An address is many people where they share a way out (a conference, a company), and one person is
many addresses where a provider gives out whole networks: IPv6 addresses are counted by their /64.
So the limits are wide, and only bound what one machine can do by itself.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits, TokenBucket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

IDLE = 16_384
"""Addresses remembered that have no socket open. The one heard of longest ago is forgotten."""

MINUTE_S = 60.0


class TrustedProxies:
    """The proxies whose word on who is behind them is taken. None by default.

    Raises `ValueError` for what is no address or network, such as ``10.0.0.0/8``.
    """

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = tuple(map(ipaddress.ip_network, networks))

    def client(self, peer: str | None, forwarded: Sequence[str]) -> str | None:
        """What to count a connection under; None for one that is not counted.

        Not counted are this machine itself and UNIX sockets, unless a proxy there told for whom it
        asks. Of the addresses that were told, the last that is no proxy holds: whatever stands
        before it, the client may have written itself.

        :param peer: the address of the connection; None for a UNIX socket
        :param forwarded: the values of ``X-Forwarded-For``, in order
        """
        here = None if peer is None else _address(peer)
        if here is None:
            return None
        told = False
        if self._trusted(here):
            hops = [hop.strip() for value in forwarded for hop in value.split(",")]
            while hops and self._trusted(here):
                hop = _address(hops.pop())
                if hop is None:
                    break
                here, told = hop, True
        if here.is_loopback and not told:
            return None
        if isinstance(here, ipaddress.IPv6Address):
            return str(ipaddress.ip_network((here, 64), strict=False))
        return str(here)

    def direct(self, peer: str | None) -> str | None:
        """The same before anything was read, when a proxy has not yet told for whom it asks: None
        for every proxy."""
        here = None if peer is None else _address(peer)
        return None if here is None or self._trusted(here) else self.client(peer, ())

    def _trusted(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


class _AddressRecord:
    __slots__ = ("bucket", "failures", "since", "sockets")

    def __init__(self, bucket: TokenBucket, now: float) -> None:
        self.bucket = bucket
        self.sockets = self.failures = 0
        self.since = now


class AddressLimits:
    """What each address has open and has tried. Nothing is asked of None."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[str, _AddressRecord] = {}
        self._idle: OrderedDict[str, _AddressRecord] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open) + len(self._idle)

    def enter(self, address: str | None, now: float) -> None:
        """One more socket, that has to `leave`. Raises `ClientFault` (``busy``)."""
        if address is None:
            return
        record = self._record(address, now)
        if wait := record.bucket.take(now):
            what = f"opened more than {self._limits.address_rate:g} sockets a second"
            raise _busy(what, "Open fewer at once.", wait)
        if record.sockets >= self._limits.address_sockets:
            raise _busy(f"{record.sockets} sockets already", "Close one that is not needed.")
        record.sockets += 1
        self._open[address] = record
        self._idle.pop(address, None)

    def leave(self, address: str | None) -> None:
        """One socket less."""
        if address is None:
            return
        record = self._open[address]
        record.sockets -= 1
        if not record.sockets:
            self._idle[address] = self._open.pop(address)
            self._trim()

    def failed(self, address: str | None, now: float) -> None:
        """Somebody there showed a key that is not valid."""
        if address is not None:
            self._record(address, now).failures += 1

    def trust(self, address: str | None, now: float) -> None:
        """Whether a key from there is looked at. Raises `ClientFault` (``busy``)."""
        if address is None:
            return
        record = self._open.get(address) or self._idle.get(address)
        if record is None:
            return
        if now - record.since >= MINUTE_S:
            record.since, record.failures = now, 0
        if record.failures >= self._limits.address_failures:
            what = f"shown {record.failures} keys within a minute that are not valid"
            wait = record.since + MINUTE_S - now
            raise _busy(what, f"Show a valid one in {math.ceil(wait)} s.", wait)

    def _record(self, address: str, now: float) -> _AddressRecord:
        record = self._open.get(address)
        if record is None:
            record = self._idle.get(address)
            if record is None:
                rate, burst = self._limits.address_rate, self._limits.address_sockets
                record = _AddressRecord(TokenBucket(rate, burst, now), now)
            self._idle[address] = record
            self._idle.move_to_end(address)
            self._trim()
        return record

    def _trim(self) -> None:
        while len(self._idle) > IDLE:
            self._idle.popitem(last=False)


def _address(text: str) -> Address | None:
    """An address, with or without a port; one of IPv4 that is written as IPv6 is of IPv4."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _busy(what: str, hint: str, wait: float | None = None) -> ClientFault:
    """A refusal that passes by itself after ``wait`` seconds, if that is known."""
    retry_ms = None if wait is None else math.ceil(wait * 1000)
    return ClientFault(ErrorCode.BUSY, f"This address has {what}.", hint, retry_ms)
