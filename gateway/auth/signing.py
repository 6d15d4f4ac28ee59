"""Statements that the gateway hands out and believes when they come back.

Owns: how a statement is signed, and that nobody can change it, use it for another purpose or after
its time. Must not know: what is stated. It is signed, not hidden: there are no secrets in it.

A token is ``body.signature``, both base64url without padding, so that it fits into a query and into
the name of a sub-protocol. The body is MessagePack of (kind, expiry, statement), the signature the
first half of its HMAC-SHA-256 (RFC 2104, truncated as section 5 allows).
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TypeVar

import msgspec

from gateway.errors import ClientFault, ErrorCode

T = TypeVar("T")

SIGNATURE_BYTES = 16
MOST = 16_384
"""Characters of the longest token that is looked at. What a key opens is stated in it: some three
hundred rooms by name. With the rest of a request it has to fit into 32 KiB."""


class Signer:
    """Signs with ``key``: processes that share it believe each other's tokens."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, kind: str, statement: object, until: float) -> str:
        """A token that is good for its ``kind`` alone, and before ``until`` (Unix seconds)."""
        body = msgspec.msgpack.encode((kind, until, statement))
        return f"{_text(body)}.{_text(self._signature(body))}"

    def read(self, kind: str, token: str, shape: type[T], now: float) -> T:
        """What a token states. Raises `ClientFault` (``unauthenticated``)."""
        if len(token) > MOST:
            raise _refused("it is too long")
        try:
            body, signature = (urlsafe_b64decode(half + "==") for half in token.split("."))
        except ValueError:  # of base64 too
            raise _refused("it is not one of this gateway's") from None
        if not hmac.compare_digest(signature, self._signature(body)):
            raise _refused("it is not one of this gateway's, or from before it was restarted")
        try:
            name, until, raw = msgspec.msgpack.decode(body, type=tuple[str, float, msgspec.Raw])
            statement = msgspec.msgpack.decode(raw, type=shape)
        except msgspec.MsgspecError:  # signed by another version
            raise _refused("it is of another version of the gateway") from None
        if name != kind:
            raise _refused(f"it is a {name} token")
        if until <= now:
            raise _refused("it has expired")
        return statement

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, hashlib.sha256)[:SIGNATURE_BYTES]


def _refused(why: str) -> ClientFault:
    return ClientFault(
        ErrorCode.UNAUTHENTICATED, f"The token is not valid: {why}.", "Ask for a new one."
    )


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
