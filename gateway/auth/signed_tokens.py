"""Signed tokens that the gateway gives out and later verifies, tickets among them.

Owns: the signature of a payload for one purpose until a time, the lifetime of a ticket, and that it
is accepted only once. Must not know: other payloads, requests, who asked for a ticket.

A token is ``body.signature``, both in base64url without padding, which is allowed in a query and in
the name of a sub-protocol. The body is MessagePack of (kind, expiry, payload). The signature is the
first half of its HMAC-SHA-256 (RFC 2104; section 5 allows the truncation). A token must not contain
secrets: it is not encrypted.

A browser sends a ticket in a URL instead of a key, because URLs are stored in histories and logs. A
ticket found there has been used.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import deque
from typing import TypeVar

import msgspec

from gateway.auth.permissions import Permissions
from gateway.errors import ClientFault, ErrorCode

T = TypeVar("T")

SIGNATURE_BYTES = 16
MAX_TOKEN = 16_384
"""Length of the longest accepted token, in characters. A token lists the rooms of a key, and this
is enough for about three hundred names. It also has to fit into a request head of 32 KiB."""
TICKET = "ticket"
"""Kind of the token that is a ticket."""
TICKET_S = 60.0
"""Seconds for which a ticket is valid."""
MAX_USED = 65_536
"""Number of used tickets that are remembered until they expire. Beyond it tickets are refused with
``busy``: to forget one early would make it valid again."""


class Signer:
    """A signer with one secret key. Processes that share the key accept each other's tokens."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self._former: bytes | None = None

    def replace(self, key: bytes) -> None:
        """Sign with another key from now on. Tokens of the key before stay valid."""
        if key != self.key:
            self._former, self.key = self.key, key

    def sign(self, kind: str, payload: object, until: float) -> str:
        """Return a token that is valid for one purpose (``kind``, such as ``ticket``), until a time
        of the Unix clock. It holds anything that msgspec can encode.
        """
        body = msgspec.msgpack.encode((kind, until, payload))
        return f"{_text(body)}.{_text(_signature(body, self.key))}"

    def read(self, kind: str, token: str, payload_type: type[T], now: float) -> T:
        """Return the payload of a token, at a time of the Unix clock.

        Raises `ClientFault` (``unauthenticated``), also if it was signed for another purpose.
        """
        if len(token) > MAX_TOKEN:
            raise _refused("it is too long")
        try:
            # Surplus padding is ignored, so two signs suit every length.
            body, signature = (urlsafe_b64decode(half + "==") for half in token.split("."))
        except ValueError:  # base64 raises it too
            raise _refused("it is not one of this gateway's") from None
        keys = (self.key,) if self._former is None else (self.key, self._former)
        if not any(hmac.compare_digest(signature, _signature(body, key)) for key in keys):
            # Without a store or the setting `signing_key`, a restart makes a new key.
            raise _refused("it is not one of this gateway's, or from before it was restarted")
        try:
            name, until, raw = msgspec.msgpack.decode(body, type=tuple[str, float, msgspec.Raw])
            payload = msgspec.msgpack.decode(raw, type=payload_type)
        except msgspec.MsgspecError:  # the signature is valid, so another version has written it
            raise _refused("it is from another version of the gateway") from None
        # Without this check a ticket could be used as a resume token.
        if name != kind:
            raise _refused(f"it is a {name} token")
        if until <= now:
            raise _refused("it has expired")
        return payload


def _signature(body: bytes, key: bytes) -> bytes:
    return hmac.digest(key, body, hashlib.sha256)[:SIGNATURE_BYTES]


def _refused(why: str) -> ClientFault:
    message = f"The token is not valid: {why}."
    return ClientFault(ErrorCode.UNAUTHENTICATED, message, "Ask for a new one.")


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


class Ticket(msgspec.Struct, frozen=True, array_like=True):
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
        """Return a new ticket from a time of the Unix clock on. The nonce is random bytes."""
        return signer.sign(TICKET, Ticket(nonce, permissions), now + TICKET_S)

    def redeem(self, signer: Signer, token: str, now: float) -> Permissions:
        """Use a ticket and return its permissions.

        Raises `ClientFault`: ``unauthenticated`` if it is invalid, expired or used, ``busy`` if too
        many tickets were used within a minute.
        """
        ticket = signer.read(TICKET, token, Ticket, now)
        # An expired ticket is refused anyway, so its nonce need not be remembered.
        while self._order and self._order[0][0] <= now:
            self._used.discard(self._order.popleft()[1])
        if ticket.nonce in self._used:
            message = "This ticket has been used."
            raise ClientFault(ErrorCode.UNAUTHENTICATED, message, "Ask for a new one.")
        if len(self._used) >= MAX_USED:
            raise ClientFault(ErrorCode.BUSY, "Too many tickets were used within a minute.")
        self._used.add(ticket.nonce)
        # The ticket was issued before, so it expires before this.
        self._order.append((now + TICKET_S, ticket.nonce))
        return ticket.permissions
