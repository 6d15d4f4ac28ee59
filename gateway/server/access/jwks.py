"""JSON Web Tokens of somebody else: whether a signature is good, and where its key comes from.

Owns: PyJWT, the algorithms, the set of public keys and when it is fetched. Must not know: sockets,
what claims mean (`gateway.auth.jwt_claims`).

An algorithm is never the token's choice. HS256 is looked at with the shared secret and nothing
else, RS256 and ES256 with a public key of that very type: else a public key, which everybody has,
could be used as a secret to sign with (RFC 8725 section 3.1).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import httpx2
import jwt

from gateway.auth.jwt_claims import granted
from gateway.auth.permissions import Permissions
from gateway.errors import ClientFault, ErrorCode

log = logging.getLogger("gateway.issuer")

KINDS = {"RSA": "RS256", "EC": "ES256"}
"""The one algorithm of each type of public key. Sets may hold secrets too; they are not used."""

LEEWAY_S = 10.0
"""Seconds that the clocks of issuer and gateway may differ."""
FRESH_S = 3_600.0
"""Seconds after which the public keys are fetched again."""
AGAIN_S = 30.0
"""Seconds between two fetches, at least: anybody can send a token of an unknown key."""
FETCH_S = 5.0
"""Seconds of one fetch."""
SET_BYTES = 262_144
"""Bytes of a set of public keys."""


class JwtIssuerFault(ValueError):
    """The keys of the issuer cannot be used. The message is a sentence."""


class Unfetched(ClientFault):
    """The token names a public key that may come with the next fetch."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.BUSY, "The keys of the token's issuer are being fetched.", "Try again soon."
        )


class JwtIssuer:
    """Who else's tokens are believed.

    :param secret: of HS256, 32 bytes or more
    :param keys: a JSON Web Key Set (RFC 7517), as text
    :param url: where one is fetched
    """

    def __init__(
        self,
        *,
        secret: bytes | None = None,
        keys: str | None = None,
        url: str | None = None,
        issuer: str | None = None,
        audience: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._secret = secret
        self._public = {} if keys is None else read(keys)
        self._url = url
        self._issuer = issuer
        self._audience = audience
        self._now = clock
        self._fetched: float | None = None
        self._tried: float | None = None
        self._fetching: asyncio.Task[None] | None = None

    def grant(self, token: str) -> Permissions:
        """What a token gives. Raises `Unfetched`, and `ClientFault` (``unauthenticated``)."""
        try:
            header = jwt.get_unverified_header(token)
            key, algorithm = self._key(str(header.get("alg")), header.get("kid"))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_S,
                options={"require": ["exp"], "enforce_minimum_key_length": True},
            )
        except jwt.PyJWTError as exc:
            raise _refused(str(exc)) from exc
        grant = granted(claims)
        if self._url is not None and self._due(FRESH_S):
            self.fetch()  # meanwhile those at hand hold
        return grant

    async def settle(self) -> None:
        """Wait until the keys that were missing have come, or have not."""
        task = self.fetch()
        if task is not None:
            await asyncio.shield(task)  # it is others' fetch too

    def fetch(self) -> asyncio.Task[None] | None:
        """Begin to fetch the public keys, unless that is under way or was a moment ago."""
        if self._fetching is None and self._due(AGAIN_S):
            self._tried = self._now()
            self._fetching = asyncio.create_task(self._fetch(), name="jwks")
            self._fetching.add_done_callback(self._done)
        return self._fetching

    async def aclose(self) -> None:
        """Give up a fetch."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    def _key(self, algorithm: str, kid: object) -> tuple[Any, str]:
        if algorithm == "HS256" and self._secret is not None:
            return self._secret, algorithm
        if algorithm in KINDS.values() and (self._public or self._url):
            if kid is None and len(self._public) == 1:
                (kid,) = self._public
            known = self._public.get(kid) if isinstance(kid, str) else None
            if known is not None and known[1] == algorithm:
                return known
            if known is None and self._url is not None and self._hopeful():
                raise Unfetched
            raise _refused("it is signed with a key that is not known here")
        raise _refused(f"it is signed with {algorithm[:16]!r}, which is not used here")

    def _hopeful(self) -> bool:
        """Whether a fetch may bring what is missing: none was a moment ago, or it failed."""
        return self._due(AGAIN_S) or self._fetched is None or self._fetching is not None

    def _due(self, after: float) -> bool:
        return self._tried is None or self._now() - self._tried >= after

    async def _fetch(self) -> None:
        assert self._url is not None
        try:
            async with (
                asyncio.timeout(FETCH_S),
                httpx2.AsyncClient(timeout=FETCH_S) as client,
                client.stream("GET", self._url) as answer,
            ):
                answer.raise_for_status()
                text = bytearray()
                async for part in answer.aiter_bytes():
                    text += part
                    if len(text) > SET_BYTES:
                        raise JwtIssuerFault(f"There are more than {SET_BYTES} bytes of keys.")
            self._public = read(text.decode())
        except (httpx2.HTTPError, OSError, TimeoutError, ValueError) as exc:
            log.warning("the keys of the tokens' issuer could not be fetched: %r", exc)
        else:
            self._fetched = self._now()
            log.info("%d keys of the tokens' issuer", len(self._public))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._fetching = None
        if not task.cancelled() and (bug := task.exception()) is not None:
            log.error("fetching the keys of the tokens' issuer failed", exc_info=bug)


def read(text: str) -> dict[str, tuple[Any, str]]:
    """Public keys and their algorithms by ``kid``. Raises `JwtIssuerFault`."""
    try:
        found = json.loads(text)["keys"]
        public = {}
        for number, one in enumerate(found):
            kind = KINDS.get(one["kty"])
            if kind is None or one.get("use", "sig") != "sig" or one.get("alg", kind) != kind:
                continue
            if kind == "ES256" and one.get("crv") != "P-256":
                continue
            key = jwt.PyJWK(one, algorithm=kind)
            public[str(one.get("kid", number))] = (key.key, kind)
    except (ValueError, LookupError, TypeError, AttributeError, jwt.PyJWTError) as exc:
        raise JwtIssuerFault(f"This is no JSON Web Key Set: {exc!r}.") from exc
    if not public:
        raise JwtIssuerFault("There is no key for RS256 or ES256 in the JSON Web Key Set.")
    return public


def _refused(why: str) -> ClientFault:
    return ClientFault(
        ErrorCode.UNAUTHENTICATED, f"The token is not valid: {why}.", "Ask its issuer for another."
    )
