"""The catalogue of codes: closed, documented, and telling clients what to do."""

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
    wordless,
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


def test_a_fault_of_a_job_is_logged_by_type_code_and_status_alone() -> None:
    assert EngineFault("private").brief == "EngineFault engine_unavailable"
    assert Overloaded("private", 429).brief == "Overloaded busy 429"
    fault = JobFault("private", ErrorCode.TOO_LONG, "private", 400)
    assert fault.brief == "JobFault too_long 400"
    assert isinstance(Rejected("loop", "private"), JobFault)


def chained(*, hidden: bool) -> Exception:
    """An exception with all that Python prints of one."""
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
def test_an_exception_without_words_keeps_its_types_and_lines(hidden: bool) -> None:
    printed = "".join(traceback.format_exception(wordless(chained(hidden=hidden))))
    lines = [line for line in printed.splitlines() if not line.startswith(" ")]
    assert not [line for line in lines if "private" in line]
    assert ("KeyError" in lines and "ValueError" in lines) is not hidden
    assert "OSError" in lines
    assert "in chained" in printed


def test_types_of_libraries_are_named_with_their_module() -> None:
    kind = type("Odd", (Exception,), {"__module__": "library"})
    copy = wordless(kind("private"))
    assert traceback.format_exception_only(copy) == ["library.Odd\n"]


def test_a_rejection_names_its_guard() -> None:
    assert Rejected("loop", "It repeats itself.").guard == "loop"
