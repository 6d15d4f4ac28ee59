"""JSON Web Tokens of an external issuer: signatures, and the set of public keys.

Owns: PyJWT, the algorithms, the set of public keys and when it is fetched. Must not know: sockets,
what claims mean (`gateway.auth.permissions`).

The token does not choose its algorithm: HS256 is verified with the shared secret only, RS256 and
ES256 only with a public key of that type, so that no public key serves as a secret to sign with
(RFC 8725, section 3.1).
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

from gateway.auth.permissions import Permissions, permissions_of
from gateway.errors import ClientFault, ErrorCode, redacted
from gateway.io import http

log = logging.getLogger("gateway.issuer")

KINDS = {"RSA": "RS256", "EC": "ES256"}
"""Algorithm of each type of public key. A set may hold secrets too, which are not used."""
LEEWAY_S = 10.0
"""Seconds by which the clocks of issuer and gateway may differ."""
FRESH_S = 3_600.0
"""Seconds after which the public keys are fetched again."""
AGAIN_S = 30.0
"""Least seconds between two fetches: anyone can send a token that names an unknown key."""
FETCH_S = 5.0
"""Seconds that one fetch may take."""
SET_BYTES = 262_144
"""Most bytes of a set of public keys."""


class JwtIssuerFault(ValueError):
    """A fault of a key set, which cannot be used. The message is a sentence."""


class KeysNotFetched(ClientFault):
    """A refusal of a token whose public key is not known yet and may come with a fetch."""

    def __init__(self, issuer: JwtIssuer) -> None:
        self.issuer = issuer
        super().__init__(
            ErrorCode.BUSY, "The keys of the token's issuer are being fetched.", "Try again soon."
        )


class JwtIssuer:
    """An issuer whose JSON Web Tokens (RFC 7519) are accepted.

    :param secret: shared secret of HS256, 32 bytes or more
    :param key_set: JSON Web Key Set (RFC 7517), as text
    :param url: address from which a key set is fetched
    :param issuer: value that the claim ``iss`` must have; None: any
    :param audience: value that the claim ``aud`` must have; None: tokens without the claim
    :param clock: monotonic clock, in seconds
    """

    def __init__(
        self,
        *,
        secret: bytes | None = None,
        key_set: str | None = None,
        url: str | None = None,
        issuer: str | None = None,
        audience: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._secret = secret
        self._public = {} if key_set is None else read_key_set(key_set)
        self._url = url
        self._issuer = issuer
        self._audience = audience
        self._now = clock
        if url is not None:
            http.certificates()
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._fetching: asyncio.Task[None] | None = None

    def permissions(self, token: str) -> Permissions:
        """Return the permissions of a token.

        Raises `KeysNotFetched`, and `ClientFault` (``unauthenticated``).
        """
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
                # A token without an end could not be revoked.
                options={"require": ["exp"], "enforce_minimum_key_length": True},
            )
        except ClientFault:
            raise
        except jwt.PyJWTError as exc:
            raise _refused(str(exc)) from exc
        except Exception as exc:
            # The library is given what strangers write. Nothing but a verified token is accepted.
            log.warning("a token could not be verified: %s", type(exc).__name__)
            raise _refused("it cannot be verified") from exc
        permissions = permissions_of(claims)
        if self._url is not None and self._due(FRESH_S):
            self.fetch()  # the known keys stay in force until it is done
        return permissions

    async def wait_for_keys(self) -> None:
        """Fetch the public keys and wait for that. Does not raise if the fetch fails."""
        task = self.fetch()
        if task is not None:
            await asyncio.wait({task})  # other callers wait for the same fetch

    def fetch(self) -> asyncio.Task[None] | None:
        """Return the task that fetches the public keys; None if one was begun within `AGAIN_S`."""
        # Stored before the fetch: failures are not repeated at the rate of bad tokens either.
        if self._fetching is None and self._due(AGAIN_S):
            self._tried_at = self._now()
            self._fetching = asyncio.create_task(self._fetch(), name="jwks")
        return self._fetching

    async def aclose(self) -> None:
        """Cancel a fetch that is under way."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    def _key(self, algorithm: str, kid: object) -> tuple[Any, str]:
        if algorithm == "HS256" and self._secret is not None:
            return self._secret, algorithm
        if algorithm in KINDS.values() and (self._public or self._url):
            # A token may leave out the key's id if the set has one key (RFC 7515, 4.1.4).
            if kid is None and len(self._public) == 1:
                (kid,) = self._public
            known = self._public.get(kid) if isinstance(kid, str) else None
            if known is not None and known[1] == algorithm:
                return known
            # An unknown key may be new at the issuer. A known one of another type is no reason.
            if known is None and self._url is not None and self._fetch_may_help():
                raise KeysNotFetched(self)
            raise _refused("it is signed with a key that is not known here")
        raise _refused(f"it is signed with {algorithm[:16]!r}, which is not used here")

    def _fetch_may_help(self) -> bool:
        """Tell whether a fetch may bring a missing key: no fetch has just succeeded."""
        return self._due(AGAIN_S) or self._fetched_at is None or self._fetching is not None

    def _due(self, after: float) -> bool:
        return self._tried_at is None or self._now() - self._tried_at >= after

    async def _fetch(self) -> None:
        assert self._url is not None
        try:
            async with (
                asyncio.timeout(FETCH_S),
                http.client(timeout=FETCH_S) as client,
                client.stream("GET", self._url) as answer,
            ):
                if answer.status_code != 200:
                    raise JwtIssuerFault(f"The answer was {answer.status_code}.")
                text = bytearray()
                async for chunk in answer.aiter_raw():
                    text += chunk
                    # The length in the header may be missing or wrong.
                    if len(text) > SET_BYTES:
                        raise JwtIssuerFault(f"There are more than {SET_BYTES} bytes of keys.")
            # The keys of a large set take longer than a frame may wait.
            self._public = await asyncio.to_thread(read_key_set, text.decode())
        # The known keys stay in force: an issuer that is down must not lock everyone out.
        except JwtIssuerFault as exc:
            log.warning("the public keys of the token issuer cannot be used: %s", exc)
        except (httpx2.HTTPError, OSError, TimeoutError, ValueError) as exc:
            # The words of a library may quote the URL.
            why = type(exc).__name__
            log.warning("the public keys of the token issuer could not be fetched: %s", why)
        except Exception as exc:
            why = "the fetch of the token issuer's public keys failed"
            log.error(why, exc_info=redacted(exc))
        else:
            self._fetched_at = self._now()
            log.info("%d public keys of the token issuer", len(self._public))
        finally:
            self._fetching = None


def read_key_set(text: str) -> dict[str, tuple[Any, str]]:
    """Return the public keys of a JSON Web Key Set and their algorithms, by ``kid``.

    Keys that do not fit are skipped. Raises `JwtIssuerFault` if none is left.
    """
    try:
        entries = json.loads(text)["keys"]
        if not isinstance(entries, list):
            raise TypeError
    except (ValueError, LookupError, TypeError, RecursionError) as exc:
        raise JwtIssuerFault(f"This is no JSON Web Key Set ({type(exc).__name__}).") from exc
    public = {}
    private = malformed = 0
    for number, entry in enumerate(entries):
        try:
            kind = KINDS.get(entry["kty"])
            # ES256 is defined for this curve only (RFC 7518, section 3.4).
            curve = kind != "ES256" or entry.get("crv") == "P-256"
            fits = entry.get("use", "sig") == "sig" and entry.get("alg", kind) == kind and curve
            if kind is None or not fits:
                continue
            if "d" in entry:  # everybody who has read a private key can sign tokens with it
                private += 1
                continue
            public[str(entry.get("kid", number))] = (jwt.PyJWK(entry, algorithm=kind).key, kind)
        except (ValueError, LookupError, TypeError, AttributeError, jwt.PyJWTError):
            malformed += 1
    if private or malformed:
        log.warning(
            "keys of the token issuer are skipped: %d private ones, which nobody may publish,"
            " and %d malformed ones",
            private,
            malformed,
        )
    if not public:
        raise JwtIssuerFault("There is no public key for RS256 or ES256 in the JSON Web Key Set.")
    return public


def _refused(why: str) -> ClientFault:
    return ClientFault(
        ErrorCode.UNAUTHENTICATED, f"The token is not valid: {why}.", "Ask its issuer for another."
    )
