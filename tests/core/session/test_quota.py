"""The usage of a tenant over all its sockets, and its quota."""

from __future__ import annotations

import msgspec
import pytest

from gateway.auth.permissions import EVERYTHING, Permissions, Quota, Role
from gateway.core.delivery.outbox import Outbox
from gateway.core.members.member import Member
from gateway.core.session.quota import (
    KEEP_S,
    LAPSE_S,
    Account,
    TenantReport,
    TenantUsage,
    UsageReport,
    decode_report,
)
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from tests.support.meeting import NOW, Meeting, assert_error


def member(*inflight: str) -> Member:
    made = Member("m", Role.SPEAK, Outbox(Codec.JSON, Limits()))
    made.in_flight.utterances.update(inflight)
    return made


def permissions(tenant: str = "acme", **quota: int) -> Permissions:
    return Permissions(tenant=tenant, quota=Quota(**quota))


def refused(account: Account, now: float = NOW, **quota: int) -> ClientFault:
    with pytest.raises(ClientFault) as caught:
        account.begin(Quota(**quota), now)
    assert caught.value.code is ErrorCode.BUSY
    return caught.value


def test_a_tenant_without_name_and_quota_is_not_counted() -> None:
    ledger = TenantUsage()
    ledger.check(EVERYTHING)
    assert ledger.enter(member(), EVERYTHING) is None
    assert ledger.accounts == {}
    member().charge(NOW)  # no `ClientFault`


def test_a_tenant_has_so_many_sockets_open_and_a_replaced_one_does_not_count() -> None:
    ledger, one = TenantUsage(), member()
    two = permissions(sessions=2)
    ledger.check(two)
    account = ledger.enter(one, two)
    assert account is not None and ledger.enter(member(), two) is account
    with pytest.raises(ClientFault, match="may have 2 sockets") as full:
        ledger.check(two)
    assert full.value.code is ErrorCode.BUSY
    ledger.check(two, instead=one)
    ledger.check(permissions("other", sessions=1))
    ledger.check(permissions())
    account.leave(one, NOW)
    account.leave(one, NOW + 1)
    ledger.check(two)
    assert account.idle == NOW


def test_utterances_in_flight_are_counted_over_all_sockets_of_a_tenant() -> None:
    ledger = TenantUsage()
    account = ledger.enter(member("a", "b"), permissions())
    assert account is ledger.enter(member("c"), permissions()) is not None
    assert account is not None and account.in_flight == 3
    account.begin(Quota(inflight=4), NOW)
    assert "3 utterances" in str(refused(account, inflight=3))


def test_utterances_of_a_lost_socket_count_and_only_once() -> None:
    ledger, lost, back = TenantUsage(), member("a", "b"), member()
    account = ledger.enter(lost, permissions())
    assert account is not None
    account.leave(lost, NOW)
    assert account.in_flight == 2
    back.in_flight = lost.in_flight  # as `Room.join` does
    ledger.enter(back, permissions())
    assert account.in_flight == 2
    taken = member()  # its old socket is not closed yet
    taken.in_flight = lost.in_flight
    ledger.enter(taken, permissions())
    assert account.in_flight == 2
    account.leave(taken, NOW)
    back.in_flight.clear()
    assert account.in_flight == 0
    account.leave(back, NOW)
    assert account._away == []


def test_the_quota_of_a_minute_can_be_used_at_once_and_then_refills_steadily() -> None:
    account = Account()
    for _ in range(6):
        account.begin(Quota(minute=6), NOW)
    assert refused(account, minute=6).retry_ms == 10_000
    account.begin(Quota(minute=6), NOW + 10)
    assert refused(account, NOW + 12.5, minute=6).retry_ms == 7_500
    account.begin(Quota(minute=7), NOW + 12.5)


def test_what_was_used_with_one_quota_remains_used_with_another_of_the_same_tenant() -> None:
    account = Account()
    for _ in range(6):
        account.begin(Quota(minute=6), NOW)
    account.begin(Quota(minute=7), NOW)
    refused(account, minute=7)
    refused(account, minute=6)
    account.begin(Quota(minute=60), NOW)


def test_sockets_in_other_gateways_count_unless_the_new_one_resumes_a_session() -> None:
    ledger, two = TenantUsage(), permissions("会社", sessions=2)
    ledger.add_report(UsageReport("g2", {"会社": TenantReport(1), "other": TenantReport(9)}), NOW)
    ledger.check(two)
    ledger.add_report(UsageReport("g3", {"会社": TenantReport(1)}), NOW)
    with pytest.raises(ClientFault, match="may have 2 sockets"):
        ledger.check(two)
    ledger.check(two, resumes=True)
    for _ in range(2):
        ledger.enter(member(), two)
    with pytest.raises(ClientFault, match="may have 2 sockets"):
        ledger.check(two, resumes=True)


def test_a_report_replaces_the_one_before_and_lapses_when_no_more_come() -> None:
    ledger, one = TenantUsage(), permissions(sessions=1)
    ledger.add_report(UsageReport("g2", {"acme": TenantReport(5)}), NOW)
    ledger.add_report(UsageReport("g2", {"acme": TenantReport(1)}), NOW + 1)
    assert ledger.elsewhere("acme").sessions == 1
    ledger.sweep(NOW + 1 + LAPSE_S)
    assert ledger.elsewhere("acme").sessions == 1
    ledger.sweep(NOW + 1.5 + LAPSE_S)
    assert ledger.elsewhere("acme") == TenantReport()
    ledger.check(one)


def test_utterances_in_flight_in_other_gateways_count() -> None:
    ledger = TenantUsage()
    account = ledger.enter(member("a"), permissions(inflight=4))
    assert account is not None
    ledger.add_report(UsageReport("g2", {"acme": TenantReport(inflight=2)}), NOW)
    account.begin(Quota(inflight=4), NOW)
    ledger.add_report(UsageReport("g3", {"acme": TenantReport(inflight=1)}), NOW)
    refused(account, inflight=4)


def test_a_minute_is_shared_and_what_was_begun_too_many_is_owed_by_all() -> None:
    minute = permissions(minute=6)
    here, there = TenantUsage(), TenantUsage()
    ours, theirs = here.enter(member(), minute), there.enter(member(), minute)
    assert ours is not None and theirs is not None
    for account in (ours, theirs):  # neither knows of the other yet
        for _ in range(6):
            account.begin(Quota(minute=6), NOW)
    reports = here.report(NOW), there.report(NOW)
    assert reports[0]["acme"] == TenantReport(sessions=1, begun=6, used=6)
    here.add_report(UsageReport("there", reports[1]), NOW)
    there.add_report(UsageReport("here", reports[0]), NOW)
    for account in (ours, theirs):
        assert refused(account, NOW + 60, minute=6).retry_ms == 10_000
        account.begin(Quota(minute=6), NOW + 70)
    assert here.report(NOW + 70)["acme"].begun == 1, "each is reported once"


def test_a_gateway_that_a_tenant_comes_to_later_knows_what_was_used_of_the_minute() -> None:
    ledger = TenantUsage()
    ledger.add_report(UsageReport("g2", {"acme": TenantReport(1, 0, begun=2, used=6)}), NOW)
    account = ledger.enter(member(), permissions(minute=6))
    assert account is not None
    ledger.add_report(UsageReport("g2", {"acme": TenantReport(1, 0, begun=0, used=6)}), NOW)
    refused(account, minute=6)


def test_a_report_leaves_out_tenants_that_use_nothing() -> None:
    ledger, gone = TenantUsage(), member()
    account = ledger.enter(gone, permissions())
    assert account is not None
    assert ledger.report(NOW) == {"acme": TenantReport(sessions=1)}
    account.leave(gone, NOW)
    assert ledger.report(NOW) == {}


def test_a_report_may_have_more_fields_in_a_newer_release() -> None:
    report = UsageReport("g2", {"会社": TenantReport(3, 2, 1, 0.5)})
    assert decode_report(msgspec.msgpack.encode(report)) == report
    newer = msgspec.msgpack.encode(["g2", {"会社": [3, 2, 1, 0.5, "new"]}, "new"])
    assert decode_report(newer) == report


def test_a_new_connection_does_not_renew_the_minute_and_unused_accounts_are_dropped() -> None:
    ledger, one = TenantUsage(), member()
    account = ledger.enter(one, permissions(minute=1))
    assert account is not None
    account.begin(Quota(minute=1), NOW)
    ledger.sweep(NOW + KEEP_S * 9)
    account.leave(one, NOW)
    ledger.sweep(NOW + KEEP_S)
    assert ledger.enter(member(), permissions(minute=1)) is account
    refused(account, minute=1)
    other = TenantUsage()
    other.accounts["acme"] = Account()
    other.sweep(NOW)
    assert other.accounts == {}


def test_a_speaker_beyond_the_quota_is_told_when_to_try_again_and_may_finish() -> None:
    room = Meeting()
    peer = room.enter("de")
    allowed = Permissions(tenant="acme", quota=Quota(minute=1))
    peer.session.permissions = allowed
    peer.session.account = TenantUsage().enter(peer.session.member, allowed)
    peer.say("we met", id="u", final=False)
    error = assert_error(peer.say("hello", ref="r"), ErrorCode.BUSY)
    assert (error.retry_ms, error.ref) == (60_000, "r")
    assert peer.say("we met in March", id="u")[0].__struct_config__.tag == "ack"
