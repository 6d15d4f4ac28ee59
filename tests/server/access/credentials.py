"""Keys and tokens for tests of authentication."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2 as httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from gateway.auth.api_keys import ApiKey, Keyring, create_key
from gateway.auth.permissions import Role
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from tests.support.live import Live, running
from tests.support.talk import Talk

# --- keys -----------------------------------------------------------------------------------------


def key(number: int, **fields: Any) -> tuple[str, str]:
    """Return a key and its entry in the key file."""
    name = fields.pop("name", f"key {number}")
    return create_key(
        ApiKey(id=f"{number:08x}", name=name, hash="0" * 64, **fields), f"{number:064x}"
    )


SPEAKER, SPEAKS = key(1)
VIEWER, VIEWS = key(2, role=Role.VIEW, rooms=("demo",), langs=("de",))
MODERATOR, MODERATES = key(3, role=Role.MODERATE)
BOARD, BOARDS = key(4, rooms=("board", "team-*"))
FILE = "\n".join((SPEAKS, VIEWS, MODERATES, BOARDS))


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def requiring_keys(limits: Limits | None = None, **options: Any) -> Authenticator:
    """Return an authenticator that requires one of the keys above."""
    return Authenticator(limits or Limits(), keyring=Keyring(FILE), **options)


@contextlib.asynccontextmanager
async def running_with_keys(**options: Any) -> AsyncIterator[tuple[Live, httpx.AsyncClient]]:
    async with (
        running(authenticator=requiring_keys(**options)) as live,
        httpx.AsyncClient(base_url=live.http) as client,
    ):
        yield live, client


async def refused(client: Talk) -> tuple[str, int | None]:
    """Return the error and the close code of a socket that is refused."""
    error = await client.next()
    assert (error["type"], error["fatal"]) == ("error", True), error
    assert error["msg"]
    return error["code"], (await client.closed())[0]


ASK = {"text": "good morning", "source_lang": "en", "target_lang": "de"}
UNKNOWN = ("unauthenticated", CloseCode.UNAUTHENTICATED)
BEYOND = ("forbidden", CloseCode.FORBIDDEN)
FULL = ("busy", CloseCode.TOO_MANY)

# --- tokens of an identity provider ---------------------------------------------------------------


SECRET = b"a secret of the tests, long enough"
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
WEAK = rsa.generate_private_key(65537, 1024)


def claims(**more: Any) -> dict[str, Any]:
    return {"role": "view", "rooms": ["demo"], "exp": time.time() + 86_400, **more}


def signed(key: Any = SECRET, algorithm: str = "HS256", **more: Any) -> str:
    kid = more.pop("kid", None)
    return jwt.encode(claims(**more), key, algorithm, headers={"kid": kid} if kid else None)


def jwk(key: Any, kid: str, **more: Any) -> dict[str, Any]:
    kind = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": kid, **more}


def jwks(*keys: dict[str, Any]) -> str:
    return json.dumps({"keys": keys})


BOTH = jwks(jwk(RSA, "r"), jwk(EC, "e"))
