"""The way in: who is at the door, what it shows, and what that is worth.

Owns: the keys in force, the counting of addresses, and in which order a request is looked at. Must
not know: what is asked for behind the door.

Where neither keys nor an issuer of tokens are configured, nobody is asked, and everybody has the
grant of everything. `gateway.settings.catalogue.refuse_exposure` keeps such a gateway to its own
machine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from starlette.datastructures import Headers, QueryParams
from starlette.types import Scope

from gateway.auth import api_keys, jwt_claims
from gateway.auth.api_keys import KeyFault, Keyring
from gateway.auth.client_ip import AddressLimits, TrustedProxies
from gateway.auth.origin import AllowedHosts, AllowedOrigins
from gateway.auth.permissions import EVERYTHING, Permissions
from gateway.auth.signing import Signer
from gateway.auth.tickets import Tickets
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.protocol.handshake import BEARER_PREFIX, bearer_token, offered_token, offered_tokens
from gateway.server.access.jwks import JwtIssuer, JwtIssuerFault, Unfetched
from gateway.settings.catalogue import Settings, SettingsError, loopback

log = logging.getLogger("gateway.gate")

Part = TypeVar("Part")

WATCH_S = 2.0
"""Seconds between two looks at the file of keys."""

SECRET_BYTES = 32
"""Bytes of a shared secret, at least: one of HS256 has to be as long as its hash (RFC 7518 3.2)."""


class Authenticator:
    """What has to be shown, and to whom pages and addresses have to belong."""

    def __init__(
        self,
        limits: Limits,
        *,
        ring: Keyring | None = None,
        file: Path | None = None,
        issuer: JwtIssuer | None = None,
        pages: AllowedOrigins | None = None,
        names: AllowedHosts | None = None,
        proxies: TrustedProxies | None = None,
        signer: Callable[[], Signer] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """``file`` is where ``ring`` comes from, and looked at again.

        ``signer`` is of the tickets; it is asked for each time, since a store may bring one late.
        """
        own = Signer(secrets.token_bytes(SECRET_BYTES))
        self.ring = ring
        self.pages = pages or AllowedOrigins()
        self.addresses = AddressLimits(limits)
        self.tickets = Tickets()
        self.signer = signer or (lambda: own)
        self.refused: Counter[str] = Counter()
        """Sockets and requests that were not let in, by the code of the error."""
        self.now = clock
        self.wall = wall
        self._file = file
        self._seen: object = None  # what the file was when it was read
        self._last: object = None  # and at the last look
        self._asked = asyncio.Event()
        self._issuer = issuer
        self._names = names or AllowedHosts()
        self._proxies = proxies or TrustedProxies()

    @property
    def asks(self) -> bool:
        """Whether anybody has to show anything."""
        return self.ring is not None or self._issuer is not None

    def caller(self, scope: Scope) -> Caller:
        """Who asks, by what the connection and its headers say."""
        headers = Headers(scope=scope)
        client = scope.get("client")
        forwarded = headers.getlist("x-forwarded-for")
        address = self._proxies.client(client[0] if client else None, forwarded)
        return Caller(self, scope, headers, address)

    def address(self, peer: str | None) -> str | None:
        """What to count a connection under of which nothing has been read; None: not at all."""
        return self._proxies.direct(peer)

    def check(self, headers: Headers) -> None:
        """Whether a page may ask this, under this name. Raises `ClientFault` (``forbidden``)."""
        host = headers.get("host")
        if not self.asks:
            self._names.check(host)
        self.pages.check(headers.get("origin"), host)

    def worth(self, token: str, *, ticket: bool = True) -> Permissions:
        """What a token gives, whatever kind it is of.

        Raises `ClientFault`: ``unauthenticated``, or ``busy`` where that cannot be told now.

        :param ticket: whether it may be one
        """
        if token.startswith(api_keys.PREFIX) and self.ring is not None:
            return self.ring.grant(token, self.wall())
        if token.count(".") == 2 and self._issuer is not None:
            return self._issuer.grant(token)
        if token.count(".") == 1 and ticket:
            return self.confirm(self.tickets.redeem(self.signer(), token, self.wall()))
        raise ClientFault(
            ErrorCode.UNAUTHENTICATED,
            "This is neither a key nor a ticket of this gateway.",
            "A key begins with gwk_; ask whoever runs this gateway for one.",
        )

    def home(self, bearer: str | None, ticket: str | None) -> str | None:
        """The room that a request without a room will be led to by what it shows, if by any.

        Nothing is used up, and nobody is let in by this: a token may not even be good.
        """
        shown = (bearer or ticket) if self.asks else ticket
        if shown is None:
            return None
        if shown.startswith(api_keys.PREFIX) and self.ring is not None:
            try:
                return self.ring.grant(shown, self.wall()).home
            except ClientFault:
                return None
        if shown.count(".") == 2:
            return jwt_claims.home(shown)
        return self.tickets.home(self.signer(), shown, self.wall())

    def confirm(self, grant: Permissions) -> Permissions:
        """What is left of what a token once gave. Raises `ClientFault` (``unauthenticated``)."""
        if self.asks and not grant.key and grant.until is None:
            raise ClientFault(
                ErrorCode.UNAUTHENTICATED,
                "This was given out before keys were asked for.",
                "Ask whoever runs this gateway for a key.",
            )
        return (self.ring or _NO_KEYS).confirm(grant, self.wall())

    def ticket(self, grant: Permissions) -> str:
        """A ticket that is worth ``grant``."""
        nonce = secrets.token_bytes(12)
        return self.tickets.mint(self.signer(), grant, nonce, self.wall())

    async def settle(self) -> None:
        """Wait for the keys of the issuer."""
        if self._issuer is not None:
            await self._issuer.settle()

    def fetch(self) -> None:
        """Fetch the keys of the issuer, and do not wait for them."""
        if self._issuer is not None:
            self._issuer.fetch()

    async def watch(self, changed: Callable[[], None]) -> None:
        """Look at the file of keys for as long as the gateway lives; tell when they are others.

        The first look is at once: it may have changed since it was read.
        """
        if self._file is None:
            return
        while True:
            try:
                if await asyncio.to_thread(self._reread, self._file):
                    log.info("%d keys in %s", len(self.ring or ()), self._file)
                    changed()
            except Exception:
                log.exception("the keys could not be looked at; those known stay in force")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_S):
                    await self._asked.wait()
            if self._asked.is_set():
                self._asked.clear()
                self._seen = None

    def look(self) -> None:
        """Read the file of keys again now, changed or not."""
        self._asked.set()

    async def aclose(self) -> None:
        if self._issuer is not None:
            await self._issuer.aclose()

    def _reread(self, file: Path) -> bool:
        """Read the keys again where the file is another, and was so at the last look too: one that
        is being written can be empty for a moment, and no key would be good. In a thread."""
        stamp = _stamp(file)
        settled, self._last = stamp == self._last, stamp
        if stamp == self._seen or not settled:
            return False
        self._seen = stamp
        try:
            self.ring = Keyring.read(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, KeyFault) as exc:
            log.error("%s%s The keys known before stay in force.", file, _unusable(exc))
            return False
        return True


class Caller:
    """One socket or request at the gate."""

    __slots__ = ("_gate", "_headers", "_inside", "_scope", "address")

    def __init__(
        self, gate: Authenticator, scope: Scope, headers: Headers, address: str | None
    ) -> None:
        self.address = address
        self._gate = gate
        self._scope = scope
        self._headers = headers
        self._inside = False

    def enter(self) -> None:
        """A socket that wants in, and has to `leave`. Raises `ClientFault`."""
        try:
            self._gate.check(self._headers)
            self._gate.addresses.enter(self.address, self._gate.now())
        except ClientFault as fault:
            self._gate.refused[fault.code.value] += 1
            raise
        self._inside = True

    def leave(self) -> None:
        """The socket is closed. Idempotent."""
        if self._inside:
            self._inside = False
            self._gate.addresses.leave(self.address)

    async def grant(
        self, before: Permissions | None = None, token: str | None = None, *, ticket: bool = True
    ) -> Permissions:
        """What this caller may do. Raises `ClientFault`: ``unauthenticated``, ``busy``.

        :param before: what it had when its resume token was signed, if it showed one
        :param token: a key that stood in the body
        :param ticket: whether a ticket is good for what is asked
        """
        gate = self._gate
        shown = self._ticket() if ticket else None
        if gate.asks:
            shown = self._shown() or token
        if shown is None and before is not None and (gate.asks or not before.key):
            return gate.confirm(before)
        if shown is None and not gate.asks:
            return EVERYTHING
        if shown is None:
            gate.refused[ErrorCode.UNAUTHENTICATED.value] += 1
            raise ClientFault(
                ErrorCode.UNAUTHENTICATED,
                "No key was presented.",
                f"Send Authorization: Bearer KEY, or the sub-protocol {BEARER_PREFIX}KEY,"
                " or ?ticket=.",
            )
        try:
            return self.renew(shown, ticket=ticket)
        except Unfetched:
            await gate.settle()
            return self.renew(shown, ticket=ticket)

    @property
    def renewal(self) -> Callable[[str], Permissions] | None:
        """How its rights are renewed; None where nobody is asked for any."""
        return self.renew if self._gate.asks else None

    def renew(self, token: str, *, ticket: bool = True) -> Permissions:
        """What another token gives. Raises `ClientFault`: ``unauthenticated``, ``busy``."""
        gate = self._gate
        gate.addresses.trust(self.address, gate.now())
        try:
            return gate.worth(token, ticket=ticket)
        except Unfetched:
            gate.fetch()
            raise
        except ClientFault as fault:
            gate.refused[fault.code.value] += 1
            if fault.code is ErrorCode.UNAUTHENTICATED:
                gate.addresses.failed(self.address, gate.now())
            raise

    def _shown(self) -> str | None:
        """The first token there is: header, sub-protocol, ticket."""
        header = bearer_token(self._headers.get("authorization", ""))
        return header or offered_token(self._scope.get("subprotocols", ())) or self._ticket()

    def _ticket(self) -> str | None:
        """It is believed where nobody is asked, too: it says where its bearer is meant to go."""
        return QueryParams(self._scope.get("query_string", b"")).get("ticket")


def spoken(offered: Iterable[str], chosen: str | None) -> str | None:
    """The sub-protocol to name in the answer.

    A browser gives up unless one that it offered is named; where that is only its token, the token
    goes back to who sent it.
    """
    return chosen or next(iter(offered_tokens(offered)), None)


def build(settings: Settings, made: Keyring | None = None) -> Authenticator:
    """The gate of a gateway with these settings. Raises `SettingsError`.

    :param made: the keys in force where there is no file of them, or none that can be read
    """
    file = None if settings.keys is None else Path(settings.keys).expanduser()
    try:
        ring = made if file is None else Keyring.read(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, KeyFault) as exc:
        if made is None:
            raise SettingsError(f"{settings.keys}{_unusable(exc)} Check --keys.") from exc
        ring = made  # `Authenticator.watch` says so
    return Authenticator(
        settings.limits,
        ring=ring,
        file=None if file is None or fleeting(file) else file,
        issuer=_issuer(settings),
        pages=_listed("origins", settings.origins, AllowedOrigins),
        names=_listed("hosts", settings.hosts, AllowedHosts),
        proxies=_listed("trusted_proxies", settings.trusted_proxies, TrustedProxies),
    )


def _unusable(fault: Exception) -> str:
    """Return what is wrong with a file, to follow its name."""
    match fault:
        case OSError():
            return f" cannot be read: {fault.strerror or fault}."
        case UnicodeDecodeError():
            return " cannot be read: it is not text in UTF-8."
        case _:
            return f": {fault}"


def fleeting(file: Path) -> bool:
    """Whether it can be read only once, as a pipe: read again it is empty, and no key is good."""
    return file.exists() and not file.is_file()


def _issuer(settings: Settings) -> JwtIssuer | None:
    secret = None if settings.jwt_key is None else settings.jwt_key.encode()
    if secret is None and settings.jwks_url is None and settings.jwks_file is None:
        return None
    if secret is not None and len(secret) < SECRET_BYTES:
        raise SettingsError(f"jwt_key has {len(secret)} bytes; {SECRET_BYTES} is the least.")
    if settings.jwks_url is not None or settings.jwks_file is not None:
        if settings.jwt_audience is None:
            raise SettingsError(
                "Whoever has public keys signs tokens for others too: set jwt_audience, which tells"
                " those for this gateway."
            )
        _check_url(settings.jwks_url)
    try:
        found = None
        if settings.jwks_file is not None:
            found = Path(settings.jwks_file).expanduser().read_text(encoding="utf-8")
        return JwtIssuer(
            secret=secret,
            keys=found,
            url=settings.jwks_url,
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
        )
    except (OSError, UnicodeDecodeError, JwtIssuerFault) as exc:
        raise SettingsError(f"{settings.jwks_file}{_unusable(exc)} Check --jwks-file.") from exc


def _check_url(url: str | None) -> None:
    parts = urlsplit(url or "https://none")
    if parts.scheme != "https" and not loopback(parts.hostname or ""):
        raise SettingsError("jwks_url has to begin with https://: whoever answers makes the keys.")


def _listed(name: str, text: str | None, make: Callable[[list[str]], Part]) -> Part:
    try:
        return make([one.strip() for one in (text or "").split(",") if one.strip()])
    except ValueError as exc:
        raise SettingsError(f"{name} cannot be used: {exc}.") from exc


def _stamp(file: Path) -> object:
    """Changes with the file, and with who may read it."""
    try:
        found = file.stat()
    except OSError:
        return None
    allowed = found.st_mode, found.st_uid, found.st_gid
    return (found.st_mtime_ns, found.st_size, found.st_ino, *allowed)


_NO_KEYS = Keyring()
