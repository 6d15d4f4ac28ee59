"""Error and close codes, the exceptions that carry them, and redaction for logs."""

from __future__ import annotations

import traceback

import pytest

from gateway.errors import (
    ClientFault,
    CloseCode,
    EngineFault,
    EngineGone,
    ErrorCode,
    GatewayError,
    JobFault,
    Overloaded,
    Rejected,
    redacted,
)

PROMISED = {
    *("bad_frame", "unknown_type", "too_long", "lang_unsupported", "pair_unsupported"),
    *("too_many_targets", "busy", "rate", "forbidden", "unauthenticated", "not_found"),
    *("engine_unavailable", "timeout", "internal"),
}


def test_every_code_the_protocol_promises_exists() -> None:
    assert {code.value for code in ErrorCode} >= PROMISED


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_error_code_has_a_meaning_and_says_whether_to_retry(code: ErrorCode) -> None:
    assert code.doc
    assert isinstance(code.retry, bool)
    assert ErrorCode(code.value) is code


@pytest.mark.parametrize("code", list(CloseCode))
def test_every_close_code_has_a_meaning(code: CloseCode) -> None:
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


def test_engine_faults_have_codes_and_are_no_client_faults() -> None:
    faults = [EngineFault("a"), EngineGone("b"), Overloaded("c"), Rejected("loop", "d")]
    assert [fault.code.value for fault in faults] == [
        "engine_unavailable",
        "engine_unavailable",
        "busy",
        "rejected",
    ]
    assert all(isinstance(fault, GatewayError) for fault in faults)
    assert not any(isinstance(fault, ClientFault) for fault in faults)


def test_the_summary_of_an_engine_fault_has_only_type_code_and_status() -> None:
    assert EngineFault("private").summary == "EngineFault engine_unavailable"
    assert Overloaded("private", 429).summary == "Overloaded busy 429"
    fault = JobFault("private", ErrorCode.TOO_LONG, "private", 400)
    assert fault.summary == "JobFault too_long 400"
    assert isinstance(Rejected("loop", "private"), JobFault)


def chained(*, hidden: bool) -> Exception:
    """Return an exception with a note, a cause and a context, which Python would print."""
    try:
        try:
            raise KeyError("private")
        except KeyError as first:
            try:
                raise ValueError("private") from first
            except ValueError:
                if hidden:
                    raise OSError("private") from None
                raise OSError("private")  # noqa: B904
    except OSError as last:
        last.add_note("private")
        return last


@pytest.mark.parametrize("hidden", [False, True])
def test_a_redacted_exception_keeps_types_and_traceback_without_messages(hidden: bool) -> None:
    printed = "".join(traceback.format_exception(redacted(chained(hidden=hidden))))
    lines = [line for line in printed.splitlines() if not line.startswith(" ")]
    assert not [line for line in lines if "private" in line]
    assert ("KeyError" in lines and "ValueError" in lines) is not hidden
    assert "OSError" in lines
    assert "in chained" in printed


def test_a_redacted_exception_keeps_the_module_of_its_type() -> None:
    kind = type("Odd", (Exception,), {"__module__": "library"})
    copy = redacted(kind("private"))
    assert traceback.format_exception_only(copy) == ["library.Odd\n"]


def test_a_rejection_names_its_guard() -> None:
    assert Rejected("loop", "It repeats itself.").guard == "loop"
    assert Rejected("loop", "It repeats 'private'.").summary == "Rejected rejected loop"
