"""The closed catalogue of error codes and close codes, and the exception tree.

Owns: every code a client can ever see, what it means and what the client should do.
Must not know: messages, sockets, engines. Raising and catching is everybody's, naming is here.

    GatewayError                 base; carries an ErrorCode
    ├── ClientFault              the caller asked for something that cannot be done
    └── EngineFault              the model side failed; the caller did nothing wrong
        ├── EngineGone           the engine died or was closed under the job
        ├── Overloaded           the engine refused the job because it is full
        └── JobFault             this one job cannot be done; the engine is well
            └── Rejected         the output was not a translation (see guards.py)
"""

from __future__ import annotations

import enum


class ErrorCode(enum.StrEnum):
    """Machine-readable reason in ``error`` and ``failed``. Clients switch on it."""

    doc: str
    retry: bool

    def __new__(cls, value: str, doc: str = "", retry: bool = False) -> ErrorCode:
        self = str.__new__(cls, value)
        self._value_ = value
        self.doc = doc
        self.retry = retry
        return self

    BAD_FRAME = "bad_frame", "the frame could not be read; `msg` says what and where", False
    UNKNOWN_TYPE = "unknown_type", "no message of this `type`; `hint` lists those that exist", False
    EMPTY_TEXT = "empty_text", "`text` has nothing to translate in it", False
    TOO_LONG = "too_long", "`text` is longer than `limits.text` characters", False
    LANG_UNSUPPORTED = (
        "lang_unsupported",
        "not a language this engine has, or none that is certain; `hint` says what to send",
        False,
    )
    PAIR_UNSUPPORTED = "pair_unsupported", "both languages exist, but not in this direction", False
    TOO_MANY_TARGETS = "too_many_targets", "more languages than `limits.targets`", False
    STALE = "stale", "this `rev` is older than one already said, or the utterance has ended", False
    BUSY = "busy", "too many utterances in flight; try again after `retry_ms`", True
    RATE = "rate", "more frames a second than `limits.rate`", True
    FORBIDDEN = "forbidden", "this socket's role does not allow it", False
    UNAUTHENTICATED = "unauthenticated", "no valid key or ticket was presented", False
    NOT_FOUND = "not_found", "no such utterance or room", False
    REJECTED = "rejected", "the model's output was not a translation, twice", True
    ENGINE_UNAVAILABLE = "engine_unavailable", "the engine is starting, restarting or gone", True
    TIMEOUT = "timeout", "the translation took longer than the limit", True
    INTERNAL = "internal", "a fault of the gateway itself; it has been logged", True


class CloseCode(enum.IntEnum):
    """WebSocket close codes. 4000-4399: reconnect and resume. 4400-4499: do not.

    4000 and up are the application's own range (RFC 6455 section 7.4.2).
    """

    doc: str

    def __new__(cls, value: int, doc: str = "") -> CloseCode:
        self = int.__new__(cls, value)
        self._value_ = value
        self.doc = doc
        return self

    DONE = 1000, "finished, after `bye`"
    GOING_AWAY = 1001, "the server is shutting down"
    INVALID_DATA = 1007, "a text frame was not UTF-8"
    TOO_BIG = 1009, "a frame was larger than `limits.frame`"
    SERVER_ERROR = 4000, "a fault of the gateway; reconnect"
    GOAWAY = 4001, "planned restart; reconnect now"
    TOO_SLOW = 4008, "this socket did not read fast enough; reconnect and resume"
    TOO_MANY = 4029, "too many connections; reconnect later"
    PROTOCOL_ERROR = 4400, "ten unreadable frames in a row, far too many frames, or a bad query"
    UNAUTHENTICATED = 4401, "no valid key or ticket"
    FORBIDDEN = 4403, "not allowed in this room or role"
    NO_SUCH_ROOM = 4404, "the room does not exist"
    REPLACED = 4409, "the same session connected again elsewhere"
    ROOM_ENDED = 4410, "the room has ended"

    @property
    def reconnect(self) -> bool:
        """Whether a client should open a new socket and resume."""
        return self is CloseCode.GOING_AWAY or 4000 <= self < 4400


class GatewayError(Exception):
    """Base of every fault the gateway names.

    ``code`` is what the client is told, the message is a sentence for a person,
    ``hint`` (optional) says what to do instead.
    """

    def __init__(self, code: ErrorCode, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class ClientFault(GatewayError):
    """What the caller sent cannot be done. The socket stays open.

    ``retry_ms`` is after how long it may work; by default a second, where that is a matter of time.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        hint: str | None = None,
        retry_ms: int | None = None,
    ) -> None:
        super().__init__(code, message, hint)
        self.retry_ms = 1000 if retry_ms is None and code is ErrorCode.BUSY else retry_ms


class EngineFault(GatewayError):
    """The model side failed. Ends the caption in ``failed``, never the session.

    ``status`` is the HTTP status of a model server that refused the job. The fault of a job says
    nothing in the words of a library or a server: these may quote the text, which is private.
    """

    def __init__(
        self,
        message: str,
        code: ErrorCode = ErrorCode.ENGINE_UNAVAILABLE,
        hint: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(code, message, hint)
        self.status = status

    @property
    def brief(self) -> str:
        """Type, code and status, for the log of a job.

        >>> EngineFault("It is broken.", status=500).brief
        'EngineFault engine_unavailable 500'
        """
        words = [type(self).__name__, self.code.value]
        return " ".join(words if self.status is None else [*words, str(self.status)])


class EngineGone(EngineFault):
    """The engine died, or ended a job nobody asked it to end. A new one may come."""


class Overloaded(EngineFault):
    """The engine refused the job because its own queue is full."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message, ErrorCode.BUSY, status=status)


class JobFault(EngineFault):
    """The engine cannot do this one job, and is well: the text is too long for it, say.

    Every other `EngineFault` of a job counts as a failure of the engine
    (`gateway.engines.wrappers.supervised`).
    """


class Rejected(JobFault):
    """A guard found that the output is not a translation.

    ``guard`` is the guard's name, as counted in ``gateway_guard_total``.
    """

    def __init__(self, guard: str, message: str) -> None:
        super().__init__(message, ErrorCode.REJECTED)
        self.guard = guard


def wordless(exc: BaseException) -> BaseException:
    """Copy an exception and its causes without their messages, for ``exc_info`` of a log.

    Types and the lines of code are left. Messages of libraries and of Python itself quote what they
    were given, and texts of meetings are private.
    """
    kind = type(exc)
    copy: BaseException = type(kind.__name__, (Exception,), {"__module__": kind.__module__})()
    if exc.__cause__ is not None:
        copy.__cause__ = wordless(exc.__cause__)
    elif exc.__context__ is not None and not exc.__suppress_context__:
        copy.__context__ = wordless(exc.__context__)
    return copy.with_traceback(exc.__traceback__)
