"""Signatures of webhooks, as Standard Webhooks 1.0.0 describes them.

Owns: the secret's form and the headers. Must not know: what a webhook carries. The specification's
own package is not used: it brings an HTTP client for these ten lines.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

PREFIX = "whsec_"
"""Prefix of a secret. The rest is the key in base64."""
KEY_BYTES = (24, 64)
"""Least and most bytes of a key."""


def signature(secret: str, id: str, seconds: int, body: bytes) -> dict[str, str]:
    """Return the headers that prove who has sent a body, ``seconds`` after the epoch. The id is the
    same in all attempts.
    """
    digest = hmac.digest(key(secret), b"%b.%d.%b" % (id.encode(), seconds, body), hashlib.sha256)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }


def key(secret: str) -> bytes:
    """Return the key of a secret. Raises `ValueError`, whose message does not show it."""
    try:
        decoded = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        decoded = b""
    least, most = KEY_BYTES
    if not (secret.startswith(PREFIX) and least <= len(decoded) <= most):
        raise ValueError(
            f"secret_key has to be {PREFIX} and {least} to {most} bytes in base64. Try:"
            f" echo {PREFIX}$(head -c 32 /dev/urandom | base64)"
        )
    return decoded
