"""What each tenant uses, and the refusal of more than its quota.

Owns: the accounts. Must not know: keys, rooms, how a tenant is told. What is in flight is counted
from the members themselves when somebody begins something, so that no count can drift.

Bound: one account for each tenant that has a socket, or had one within `KEEP_S`.
"""

from __future__ import annotations

import math

from gateway.auth.permissions import Permissions, Quota
from gateway.core.member import Member
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import TokenBucket

KEEP_S = 60.0
"""Seconds that an account is kept without a socket: reconnecting does not renew what a minute
allows."""

FREE = Quota()
"""Nothing but the gateway's own limits."""


class Account:
    """What all sockets of one tenant use together."""

    def __init__(self) -> None:
        self.members: set[Member] = set()
        self.idle = 0.0
        """When a socket was closed last."""
        self._away: list[set[str]] = []  # what is in flight of those whose sockets are closed
        self._bucket: TokenBucket | None = None
        self._minute = 0

    @property
    def inflight(self) -> int:
        """Utterances that have not ended, of those too who may come back to them."""
        sets = [member.inflight for member in list(self.members)]
        # Who came back has the very set of its socket before, which may not be closed yet.
        return sum(map(len, {id(one): one for one in (*sets, *list(self._away))}.values()))

    def leave(self, member: Member, now: float) -> None:
        """A socket is closed; what is in flight of it may go on for a while. Idempotent."""
        if member in self.members:
            self.members.discard(member)
            self.idle = now
            self._away = [lost for lost in (*self._away, member.inflight) if lost]

    def begin(self, quota: Quota, now: float) -> None:
        """Something new is said. Raises `ClientFault` (``busy``)."""
        if quota.inflight is not None and self.inflight >= quota.inflight:
            raise ClientFault(
                ErrorCode.BUSY,
                f"{quota.inflight} utterances of this key's tenant have not ended yet.",
                "Wait for their captions, or cancel one.",
            )
        if quota.minute is not None:
            if self._bucket is None or self._minute != quota.minute:
                self._minute = quota.minute
                self._bucket = TokenBucket(quota.minute / 60, quota.minute, now)
            wait = self._bucket.take(now)
            if wait:
                raise ClientFault(
                    ErrorCode.BUSY,
                    f"This key's tenant may begin {quota.minute} utterances a minute.",
                    retry_ms=math.ceil(wait * 1000),
                )


class TenantUsage:
    """The accounts of those tenants that have a name or a quota."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}

    def check(self, grant: Permissions, *, instead: Member | None = None) -> None:
        """Before a socket is let in, ``instead`` of one that it replaces.

        Raises `ClientFault` (``busy``).
        """
        account = self.accounts.get(grant.tenant)
        if account is None or grant.quota.sessions is None:
            return
        if len(account.members) - (instead in account.members) >= grant.quota.sessions:
            raise ClientFault(
                ErrorCode.BUSY,
                f"This key's tenant may have {grant.quota.sessions} sockets open, and has.",
                "Close one that is not needed.",
            )

    def enter(self, member: Member, grant: Permissions) -> Account | None:
        """A socket was let in; the account that it uses."""
        if not grant.tenant and grant.quota == FREE:
            return None
        account = self.accounts.setdefault(grant.tenant, Account())
        account.members.add(member)
        return account

    def sweep(self, now: float) -> None:
        """Close the accounts that nobody uses any more."""
        for tenant, account in list(self.accounts.items()):
            if not account.members and now - account.idle > KEEP_S:
                del self.accounts[tenant]
