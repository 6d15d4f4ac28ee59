"""The usage of each tenant, and its quota.

Owns: the accounts, and what other gateways report of theirs. Must not know: keys, rooms, how a
tenant is told, how reports travel. Utterances in flight are counted from the members themselves at
each new utterance, so that no counter can drift.

Gateways that share their rooms report the usage of their tenants to each other, and a quota holds
for all of them together. Nobody waits for a report: what begins in several gateways between two
reports may exceed a quota. Sockets and utterances in flight then count until they end, and what was
begun too many is owed by all gateways, so that the rate holds in the long run. Reports that stop
coming are forgotten after `LAPSE_S`; a gateway without reports counts for itself.

Bounds: one account for each tenant that has a socket, or had one within `KEEP_S`; the last report
of each gateway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec

from gateway.auth.permissions import Permissions, Quota
from gateway.core.members.member import InFlight, Member
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import TokenBucket

KEEP_S = 60.0
"""Seconds that an account is kept without a socket, so that reconnecting does not renew the quota
of a minute."""

LAPSE_S = 3.0
"""Seconds after which the last report of another gateway counts no more: three reports are missing,
so it has ended or cannot be reached."""

FREE = Quota()
"""No quota beside the gateway's own limits."""


class TenantReport(msgspec.Struct, frozen=True, array_like=True):
    """The usage of one tenant in one gateway, or in several together.

    ``sessions``  open sockets
    ``inflight``  utterances that have not ended
    ``begun``     utterances begun under a quota of a minute since the report before
    ``used``      utterances that the quota of a minute lacks, those of all gateways included
    """

    sessions: int = 0
    inflight: int = 0
    begun: int = 0
    used: float = 0.0


class UsageReport(msgspec.Struct, frozen=True, array_like=True):
    """The usage of all tenants in one gateway, as it tells the others once a second.

    Gateways of two releases may read each other's reports: new fields come last and have a default,
    and a report that cannot be read is ignored.
    """

    gateway: str
    tenants: dict[str, TenantReport]


decode_report = msgspec.msgpack.Decoder(UsageReport).decode

UNUSED = TenantReport()


class Account(msgspec.Struct, eq=False):
    """The usage of all sockets of one tenant together, also ``elsewhere``, in other gateways."""

    elsewhere: Callable[[], TenantReport] = lambda: UNUSED
    members: set[Member] = set()
    idle: float = 0.0
    """Time at which a socket was closed last, in seconds."""
    _away: list[InFlight] = []  # of sockets that are closed
    _bucket: TokenBucket | None = None
    _minute: int = 0
    _begun: int = 0  # since the last report

    @property
    def in_flight(self) -> int:
        """Utterances that have not ended, also of absent members."""
        present = [member.in_flight for member in list(self.members)]
        # A member that came back shares it with its old socket, which may not be closed yet.
        return sum(map(len, {*present, *list(self._away)}))

    def leave(self, member: Member, now: float) -> None:
        """Remove a closed socket, whose utterances may go on for a while. Idempotent."""
        if member in self.members:
            self.members.discard(member)
            self.idle = now
            self._away = [lost for lost in (*self._away, member.in_flight) if lost]

    def begin(self, quota: Quota, now: float) -> None:
        """Count a new utterance. Raises `ClientFault` (``busy``) over the quota."""
        elsewhere = self.elsewhere()
        most = quota.inflight
        if most is not None and self.in_flight + elsewhere.inflight >= most:
            raise ClientFault(
                ErrorCode.BUSY,
                f"{most} utterances of this key's tenant have not ended yet.",
                "Wait for their captions, or cancel one.",
            )
        if quota.minute is not None:
            # Keys of one tenant may have different quotas. The one in use counts, and what was used
            # with another remains used.
            if self._bucket is None or self._minute != quota.minute:
                used = elsewhere.used if self._bucket is None else self._bucket.used(now)
                self._minute = quota.minute
                self._bucket = TokenBucket(quota.minute / 60, quota.minute, now)
                self._bucket.spend(used)
            wait = self._bucket.take(now)
            if wait:
                raise ClientFault(
                    ErrorCode.BUSY,
                    f"This key's tenant may begin {quota.minute} utterances a minute.",
                    retry_ms=math.ceil(wait * 1000),
                )
            # Only what this gateway has admitted is reported: the others charge it to themselves.
            self._begun += 1

    def begun_elsewhere(self, count: int) -> None:
        """Charge utterances that were begun in another gateway."""
        if self._bucket is not None:
            self._bucket.spend(count)

    def report(self, now: float) -> TenantReport:
        """Return the usage in this gateway, and begin a new count of begun utterances."""
        begun, self._begun = self._begun, 0
        used = 0.0 if self._bucket is None else self._bucket.used(now)
        return TenantReport(len(self.members), self.in_flight, begun, used)


class TenantUsage:
    """The accounts of all tenants that have a name or a quota."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self._reports: dict[str, tuple[float, Mapping[str, TenantReport]]] = {}

    def check(
        self, permissions: Permissions, *, instead: Member | None = None, resumes: bool = False
    ) -> None:
        """Check that a tenant may open another socket. Raises `ClientFault` (``busy``).

        :param instead: the member that the new socket replaces
        :param resumes: True if the socket continues a session. That may count in another gateway
            until its old socket is closed, so sockets elsewhere are not counted.
        """
        quota = permissions.quota.sessions
        if quota is None:
            return
        account = self.accounts.get(permissions.tenant)
        sockets = 0 if account is None else len(account.members) - (instead in account.members)
        if not resumes:
            sockets += self.elsewhere(permissions.tenant).sessions
        if sockets >= quota:
            raise ClientFault(
                ErrorCode.BUSY,
                f"This key's tenant may have {quota} sockets open, and has.",
                "Close one that is not needed.",
            )

    def enter(self, member: Member, permissions: Permissions) -> Account | None:
        """Add a new socket; return the account that it uses, if its usage is counted."""
        tenant = permissions.tenant
        # A gateway without keys has one tenant, whose usage nobody asks for.
        if not tenant and permissions.quota == FREE:
            return None
        account = self.accounts.get(tenant)
        if account is None:
            account = self.accounts[tenant] = Account(lambda: self.elsewhere(tenant))
        account.members.add(member)
        return account

    def sweep(self, now: float) -> None:
        """Drop accounts without sockets that are older than `KEEP_S`, and reports of `LAPSE_S`."""
        for tenant, account in list(self.accounts.items()):
            if not account.members and now - account.idle > KEEP_S:
                del self.accounts[tenant]
        for gateway, (at, _) in list(self._reports.items()):
            if now - at > LAPSE_S:
                del self._reports[gateway]

    # --- other gateways -------------------------------------------------------------------------

    def report(self, now: float) -> dict[str, TenantReport]:
        """Return the usage in this gateway since the report before, by tenant."""
        reports = ((tenant, account.report(now)) for tenant, account in self.accounts.items())
        return {tenant: report for tenant, report in reports if report != UNUSED}

    def add_report(self, report: UsageReport, now: float) -> None:
        """Count the usage in another gateway, in place of its report before."""
        self._reports[report.gateway] = (now, report.tenants)
        for tenant, usage in report.tenants.items():
            if (account := self.accounts.get(tenant)) is not None:
                account.begun_elsewhere(usage.begun)

    def elsewhere(self, tenant: str) -> TenantReport:
        """Return the usage of a tenant in all other gateways together."""
        usages = [report[tenant] for _, report in self._reports.values() if tenant in report]
        return TenantReport(
            sum(usage.sessions for usage in usages),
            sum(usage.inflight for usage in usages),
            used=max((usage.used for usage in usages), default=0.0),
        )
