"""The catalogue of codes: closed, documented, and telling clients what to do."""

from __future__ import annotations

import pytest

from gateway.errors import (
    ClientFault,
    CloseCode,
    EngineFault,
    EngineGone,
    ErrorCode,
    GatewayError,
    Overloaded,
    Rejected,
)

PROMISED = {
    *("bad_frame", "unknown_type", "too_long", "lang_unsupported", "pair_unsupported"),
    *("too_many_targets", "busy", "rate", "forbidden", "unauthenticated", "not_found"),
    *("engine_unavailable", "timeout", "internal"),
}


def test_every_code_the_protocol_promises_exists() -> None:
    assert {code.value for code in ErrorCode} >= PROMISED


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_error_code_says_what_it_means_and_whether_to_try_again(code: ErrorCode) -> None:
    assert code.doc
    assert isinstance(code.retry, bool)
    assert ErrorCode(code.value) is code


@pytest.mark.parametrize("code", list(CloseCode))
def test_every_close_code_says_what_it_means(code: CloseCode) -> None:
    assert code.doc
    assert CloseCode(int(code)) is code


def test_clients_reconnect_after_4000_to_4399_and_going_away_only() -> None:
    again = {code for code in CloseCode if code.reconnect}
    assert again == {
        CloseCode.GOING_AWAY,
        CloseCode.SERVER_ERROR,
        CloseCode.GOAWAY,
        CloseCode.TOO_SLOW,
        CloseCode.TOO_MANY,
    }


def test_a_fault_carries_its_code_a_sentence_and_a_hint() -> None:
    fault = ClientFault(ErrorCode.NOT_FOUND, "There is no such thing.", "Look elsewhere.")
    assert (fault.code, str(fault), fault.hint) == (
        ErrorCode.NOT_FOUND,
        "There is no such thing.",
        "Look elsewhere.",
    )


def test_engine_faults_are_named_and_never_the_clients() -> None:
    faults = [EngineFault("a"), EngineGone("b"), Overloaded("c"), Rejected("loop", "d")]
    assert [fault.code.value for fault in faults] == [
        "engine_unavailable",
        "engine_unavailable",
        "busy",
        "rejected",
    ]
    assert all(isinstance(fault, GatewayError) for fault in faults)
    assert not any(isinstance(fault, ClientFault) for fault in faults)


def test_a_rejection_names_its_guard() -> None:
    assert Rejected("loop", "It repeats itself.").guard == "loop"
