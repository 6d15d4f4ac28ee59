"""The usage of each tenant, and its quota.

Owns: the accounts. Must not know: keys, rooms, how a tenant is told. Utterances in flight are
counted from the members themselves at each new utterance, so that no counter can drift.

Bound: one account for each tenant that has a socket, or had one within `KEEP_S`.
"""

from __future__ import annotations

import math

from gateway.auth.permissions import Permissions, Quota
from gateway.core.members.member import Member
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import TokenBucket

KEEP_S = 60.0
"""Seconds that an account is kept without a socket, so that reconnecting does not renew the quota
of a minute."""

FREE = Quota()
"""No quota beside the gateway's own limits."""


class Account:
    """The usage of all sockets of one tenant together."""

    def __init__(self) -> None:
        self.members: set[Member] = set()
        self.idle = 0.0
        """Time at which a socket was closed last, in seconds."""
        self._away: list[set[str]] = []  # in flight, of sockets that are closed
        self._bucket: TokenBucket | None = None
        self._minute = 0

    @property
    def inflight(self) -> int:
        """Utterances that have not ended, with those of absent members."""
        sets = [member.inflight for member in list(self.members)]
        # A member that came back shares the set of its old socket, which may not be closed yet.
        return sum(map(len, {id(one): one for one in (*sets, *list(self._away))}.values()))

    def leave(self, member: Member, now: float) -> None:
        """Remove a closed socket, whose utterances may go on for a while. Idempotent."""
        if member in self.members:
            self.members.discard(member)
            self.idle = now
            self._away = [lost for lost in (*self._away, member.inflight) if lost]

    def begin(self, quota: Quota, now: float) -> None:
        """Count a new utterance. Raises `ClientFault` (``busy``) over the quota."""
        if quota.inflight is not None and self.inflight >= quota.inflight:
            raise ClientFault(
                ErrorCode.BUSY,
                f"{quota.inflight} utterances of this key's tenant have not ended yet.",
                "Wait for their captions, or cancel one.",
            )
        if quota.minute is not None:
            # Keys of one tenant may have different quotas; the one in use counts.
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
    """The accounts of all tenants that have a name or a quota."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}

    def check(self, permissions: Permissions, *, instead: Member | None = None) -> None:
        """Check that a tenant may open another socket. Raises `ClientFault` (``busy``).

        :param instead: the member that the new socket replaces
        """
        account = self.accounts.get(permissions.tenant)
        if account is None or permissions.quota.sessions is None:
            return
        if len(account.members) - (instead in account.members) >= permissions.quota.sessions:
            raise ClientFault(
                ErrorCode.BUSY,
                f"This key's tenant may have {permissions.quota.sessions} sockets open, and has.",
                "Close one that is not needed.",
            )

    def enter(self, member: Member, permissions: Permissions) -> Account | None:
        """Add a new socket; return the account that it uses, if its usage is counted."""
        if not permissions.tenant and permissions.quota == FREE:
            return None
        account = self.accounts.setdefault(permissions.tenant, Account())
        account.members.add(member)
        return account

    def sweep(self, now: float) -> None:
        """Drop accounts without sockets that are older than `KEEP_S`."""
        for tenant, account in list(self.accounts.items()):
            if not account.members and now - account.idle > KEEP_S:
                del self.accounts[tenant]
