"""Authentication of sockets and requests: keys, JSON Web Tokens, tickets, origins, addresses.

Owns: the keys in force, the counting of client addresses, the order of the checks. Must not know:
what an authenticated request is for.

If neither keys nor an issuer of JSON Web Tokens are configured, no token is required and every
caller has all permissions. `gateway.settings.catalogue.check` allows such a gateway to listen on
its own machine only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from starlette.datastructures import Headers, QueryParams
from starlette.types import Scope

from gateway.auth import api_keys
from gateway.auth.api_keys import KeyFault, Keyring
from gateway.auth.client_ip import AddressLimits, TrustedProxies
from gateway.auth.origin import AllowedHosts, AllowedOrigins
from gateway.auth.permissions import EVERYTHING, Permissions
from gateway.auth.signed_tokens import Signer, Tickets
from gateway.errors import ClientFault, ErrorCode
from gateway.io import http
from gateway.limits import Limits
from gateway.protocol.handshake import BEARER_PREFIX, bearer_token, offered_token
from gateway.server.access.jwt_verification import JwtIssuer, JwtIssuerFault, KeysNotFetched
from gateway.settings.catalogue import Settings, SettingsError, loopback

log = logging.getLogger("gateway.gate")

Rule = TypeVar("Rule")

WATCH_S = 2.0
"""Seconds between two checks of the key file for changes."""
SECRET_BYTES = 32
"""Least bytes of a shared secret. A key of HS256 must be as long as its hash (RFC 7518, 3.2)."""


class Authenticator:
    """The authentication of one gateway.

    :param keyring: keys in force; None: none are required
    :param keys_file: file that ``keyring`` was read from, watched for changes by `watch_keys`
    :param issuer: issuer of JSON Web Tokens that are accepted
    :param origins: origins of web pages that are accepted besides the gateway's own
    :param hosts: names of the gateway in the header ``Host``, checked if no token is required
    :param proxies: reverse proxies whose ``X-Forwarded-For`` is believed
    :param signer: signs tickets and resume tokens. Default: a random key, which
        `gateway.server.app.create_app` replaces with the key of the store, if there is a store.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        keyring: Keyring | None = None,
        keys_file: Path | None = None,
        issuer: JwtIssuer | None = None,
        origins: AllowedOrigins | None = None,
        hosts: AllowedHosts | None = None,
        proxies: TrustedProxies | None = None,
        signer: Signer | None = None,
    ) -> None:
        self.keyring = keyring
        self.origins = origins or AllowedOrigins()
        self.addresses = AddressLimits(limits)
        self.tickets = Tickets()
        self.signer = signer or Signer(secrets.token_bytes(SECRET_BYTES))
        self.signer_is_random = signer is None
        """True if `signer` was not configured and is lost with the process."""
        self.refused: Counter[str] = Counter()  # refused sockets and requests, by error code
        self.now = time.monotonic
        self.wall_clock = time.time
        self._keys_file = keys_file
        self._read_stamp: object = None  # stamp of the file when it was read
        self._last_stamp: object = None  # stamp of the file at the last check
        self._reload_now = asyncio.Event()
        self._issuer = issuer
        self._hosts = hosts or AllowedHosts()
        self.proxies = proxies or TrustedProxies()

    @property
    def required(self) -> bool:
        """True if callers must present a token."""
        return self.keyring is not None or self._issuer is not None

    def caller(self, scope: Scope) -> Caller:
        """Return the caller of an ASGI connection, by its address and headers."""
        headers = Headers(scope=scope)
        client = scope.get("client")
        forwarded = headers.getlist("x-forwarded-for")
        address = self.proxies.client_address(client[0] if client else None, forwarded)
        return Caller(self, scope, headers, address)

    def check_origin(self, headers: Headers) -> None:
        """Check the headers ``Origin`` and ``Host``. Raises `ClientFault` (``forbidden``)."""
        host = headers.get("host")
        if not self.required:
            # A token proves more than a name. Without one the name is the only defence against
            # a page whose own name was pointed at this machine (DNS rebinding).
            self._hosts.check(host)
        self.origins.check(headers.get("origin"), host)

    def verify(self, token: str, *, ticket: bool = True) -> Permissions:
        """Return the permissions of a token of any kind, or of any but a ticket.

        Raises `ClientFault`: ``unauthenticated``, or ``busy`` if the issuer's keys are not there.
        """
        if token.startswith(api_keys.PREFIX) and self.keyring is not None:
            return self.keyring.authenticate(token, self.wall_clock())
        # A JSON Web Token has three parts, a ticket has two.
        if token.count(".") == 2 and self._issuer is not None:
            return self._issuer.permissions(token)
        if token.count(".") == 1 and ticket:
            return self.confirm(self.tickets.redeem(self.signer, token, self.wall_clock()))
        raise ClientFault(
            ErrorCode.UNAUTHENTICATED,
            "This is neither a key nor a ticket of this gateway.",
            "A key begins with gwk_; ask whoever runs this gateway for one.",
        )

    def confirm(self, permissions: Permissions) -> Permissions:
        """Return the part of earlier permissions that still holds.

        Raises `ClientFault` (``unauthenticated``) if their key is gone or their time is over.
        """
        # Permissions without a key and an end were granted while no token was required.
        if self.required and not permissions.key and permissions.until is None:
            raise ClientFault(
                ErrorCode.UNAUTHENTICATED,
                "This was given out before keys were asked for.",
                "Ask whoever runs this gateway for a key.",
            )
        return (self.keyring or _NO_KEYS).confirm(permissions, self.wall_clock())

    def mint_ticket(self, permissions: Permissions) -> str:
        """Return a ticket with these permissions."""
        nonce = secrets.token_bytes(12)
        return self.tickets.issue(self.signer, permissions, nonce, self.wall_clock())

    async def watch_keys(self, changed: Callable[[], None]) -> None:
        """Watch the key file, if there is one, and call ``changed`` after each change."""
        if self._keys_file is None:
            return
        while True:
            # The first check does not wait: the file may have changed since it was read.
            if await asyncio.to_thread(self._reread, self._keys_file):
                log.info("%d keys in %s", len(self.keyring or ()), self._keys_file)
                changed()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_S):
                    await self._reload_now.wait()
            if self._reload_now.is_set():
                self._reload_now.clear()
                self._read_stamp = None

    def reload_keys(self) -> None:
        """Have `watch_keys` read the key file now, even if it is unchanged."""
        self._reload_now.set()

    async def aclose(self) -> None:
        """Cancel a fetch of the issuer's keys."""
        if self._issuer is not None:
            await self._issuer.aclose()

    def _reread(self, file: Path) -> bool:
        """Read the key file if it has changed, and return whether it was read. Runs in a thread."""
        stamp = _stamp(file)
        # The file must look the same at two checks in a row: a file that is being written can be
        # empty for a moment, and no key would be valid.
        settled, self._last_stamp = stamp == self._last_stamp, stamp
        if stamp == self._read_stamp or not settled:
            return False
        try:
            self.keyring = Keyring(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, KeyFault) as exc:
            log.error("%s%s The keys known before stay in force.", file, _unusable(exc))
            return False
        finally:
            # Of a bad file too: it is reported once, and not at every check.
            self._read_stamp = stamp
        return True


class Caller:
    """One socket or request, and the credentials that it presents."""

    __slots__ = ("_admitted", "_authenticator", "_headers", "_scope", "address")

    def __init__(
        self, authenticator: Authenticator, scope: Scope, headers: Headers, address: str | None
    ) -> None:
        self.address = address
        self._authenticator = authenticator
        self._scope = scope
        self._headers = headers
        self._admitted = False

    def admit(self) -> None:
        """Check the origin of a socket and count it under its address, until `release`.

        Raises `ClientFault`: ``forbidden``, ``busy``.
        """
        authenticator = self._authenticator
        try:
            authenticator.check_origin(self._headers)
            authenticator.addresses.connect(self.address, authenticator.now())
        except ClientFault as fault:
            authenticator.refused[fault.code.value] += 1
            raise
        self._admitted = True

    def release(self) -> None:
        """Stop counting the socket. Idempotent."""
        if self._admitted:
            self._admitted = False
            self._authenticator.addresses.disconnect(self.address)

    async def authorize(
        self,
        permissions: Permissions | None = None,
        body_token: str | None = None,
        *,
        ticket: bool = True,
    ) -> Permissions:
        """Return the permissions of the caller, who may have presented a resume token with
        ``permissions``, or a key in the body. Raises `ClientFault`: ``unauthenticated``, ``busy``.
        """
        authenticator = self._authenticator
        # A ticket is believed even if no token is required: it names the caller's room and role.
        # A token in a header counts before one in the body and before a resume token.
        token = self._ticket() if ticket else None
        if authenticator.required:
            token = self._token() or body_token
        if token is None:
            # Where keys are required no more, permissions of a key could not be confirmed.
            if permissions is not None and (authenticator.required or not permissions.key):
                return authenticator.confirm(permissions)
            if not authenticator.required:
                return EVERYTHING
            authenticator.refused[ErrorCode.UNAUTHENTICATED.value] += 1
            raise ClientFault(
                ErrorCode.UNAUTHENTICATED,
                "No key was presented.",
                f"Send Authorization: Bearer KEY, or the sub-protocol {BEARER_PREFIX}KEY,"
                " or ?ticket=.",
            )
        try:
            return self.verify(token, ticket=ticket)
        except KeysNotFetched as unknown:
            # A new key of the issuer: the client should not have to try again.
            await unknown.issuer.wait_for_keys()
            return self.verify(token, ticket=ticket)

    @property
    def renewal(self) -> Callable[[str], Permissions] | None:
        """Function that renews an open socket's permissions; None if no token is required."""
        return self.verify if self._authenticator.required else None

    def verify(self, token: str, *, ticket: bool = True) -> Permissions:
        """Return the permissions of a token, and count a wrong one against the caller's address.

        Raises `ClientFault`: ``unauthenticated``, ``busy``.
        """
        authenticator = self._authenticator
        # Raises if the address has presented too many wrong tokens.
        authenticator.addresses.check(self.address, authenticator.now())
        try:
            return authenticator.verify(token, ticket=ticket)
        except KeysNotFetched as unknown:
            unknown.issuer.fetch()
            raise
        except ClientFault as fault:
            authenticator.refused[fault.code.value] += 1
            # Only a wrong token counts against the address.
            if fault.code is ErrorCode.UNAUTHENTICATED:
                authenticator.addresses.record_failure(self.address, authenticator.now())
            raise

    def _token(self) -> str | None:
        """Return the first token of: header, sub-protocol, ticket."""
        header = bearer_token(self._headers.get("authorization", ""))
        return header or offered_token(self._scope.get("subprotocols", ())) or self._ticket()

    def _ticket(self) -> str | None:
        return QueryParams(self._scope.get("query_string", b"")).get("ticket")


def build(settings: Settings, fallback: Keyring | None = None) -> Authenticator:
    """Return the authenticator that the settings describe, with the keys of ``fallback`` if there
    is no file of keys. Raises `SettingsError`.
    """
    file = None if settings.keys is None else Path(settings.keys).expanduser()
    try:
        keyring = fallback if file is None else Keyring(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, KeyFault) as exc:
        raise SettingsError(f"{settings.keys}{_unusable(exc)} Check --keys.") from exc
    # A pipe can be read only once: the next read would find no keys.
    pipe = file is not None and file.exists() and not file.is_file()
    return Authenticator(
        settings.limits,
        keyring=keyring,
        keys_file=None if pipe else file,
        issuer=_issuer(settings),
        origins=_rule("origins", settings.origins, AllowedOrigins),
        hosts=_rule("hosts", settings.hosts, AllowedHosts),
        proxies=_rule("trusted_proxies", settings.trusted_proxies, TrustedProxies),
        signer=None if settings.signing_key is None else Signer(settings.signing_key.encode()),
    )


def _unusable(fault: Exception) -> str:
    """Return the fault of a file, to follow its name."""
    match fault:
        case OSError():
            return f" cannot be read: {fault.strerror or fault}."
        case UnicodeDecodeError():
            return " cannot be read: it is not text in UTF-8."
        case _:
            return f": {fault}"


def _issuer(settings: Settings) -> JwtIssuer | None:
    secret = None if settings.jwt_key is None else settings.jwt_key.encode()
    public = settings.jwks_url is not None or settings.jwks_file is not None
    if secret is None and not public:
        return None
    if secret is not None and len(secret) < SECRET_BYTES:
        raise SettingsError(f"jwt_key has {len(secret)} bytes; {SECRET_BYTES} is the least.")
    if public:
        # The owner of a public key signs tokens for other services too. Without an audience such a
        # token would be accepted here.
        if settings.jwt_audience is None:
            raise SettingsError(
                "An issuer with public keys signs tokens for other services too: set jwt_audience,"
                " which marks those for this gateway."
            )
        try:
            url = http.address(settings.jwks_url or "https://none")
        except ValueError as exc:
            raise SettingsError(f"jwks_url cannot be used: {exc}.") from exc
        if url.scheme != "https" and not loopback(url.host):
            why = "anyone who can answer for it could issue tokens"
            raise SettingsError(f"jwks_url must begin with https://: {why}.")
    try:
        key_set = None
        if settings.jwks_file is not None:
            key_set = Path(settings.jwks_file).expanduser().read_text(encoding="utf-8")
        return JwtIssuer(
            secret=secret,
            key_set=key_set,
            url=settings.jwks_url,
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
        )
    except (OSError, UnicodeDecodeError, JwtIssuerFault) as exc:
        raise SettingsError(f"{settings.jwks_file}{_unusable(exc)} Check --jwks-file.") from exc


def _rule(name: str, text: str | None, make: Callable[[list[str]], Rule]) -> Rule:
    """Return the rule that a setting with a comma-separated list describes."""
    try:
        return make([entry.strip() for entry in (text or "").split(",") if entry.strip()])
    except ValueError as exc:
        raise SettingsError(f"{name} cannot be used: {exc}.") from exc


def _stamp(file: Path) -> object:
    """Return a value that changes with a file's content and with the permission to read it."""
    try:
        stat = file.stat()
    except OSError:
        return None
    # A change of the permissions may make the file readable.
    allowed = stat.st_mode, stat.st_uid, stat.st_gid
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino, *allowed)


_NO_KEYS = Keyring()
