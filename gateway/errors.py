"""Catalogue of error codes and close codes, and the tree of exceptions.

Owns: every code that a client can see, its meaning, and what the client should do. Must not know:
messages, sockets, engines. All modules raise and catch these exceptions; new codes are added here.

    GatewayError                 base; carries an ErrorCode
    ├── ClientFault              the caller asked for something that cannot be done
    └── EngineFault              the model side failed; the caller did nothing wrong
        ├── EngineGone           the engine died or was closed under the job
        ├── Overloaded           the engine refused the job because it is full
        └── JobFault             this one job cannot be done; the engine is well
            └── Rejected         the output was not a translation (see `gateway.engines.guards`)
"""

from __future__ import annotations

import enum
from functools import lru_cache


class ErrorCode(enum.StrEnum):
    """Machine-readable reason in ``error`` and ``failed``. Clients switch on it."""

    doc: str
    """Meaning, as published in ``docs/reference/codes.md``."""
    retry: bool
    """True if the same request may succeed a little later."""

    # The defaults are for the look-up by value, `ErrorCode("busy")`.
    def __new__(cls, value: str, doc: str = "", retry: bool = False) -> ErrorCode:
        self = str.__new__(cls, value)
        self._value_ = value
        self.doc = doc
        self.retry = retry
        return self

    BAD_FRAME = "bad_frame", "the frame could not be read; `msg` says what and where"
    UNKNOWN_TYPE = "unknown_type", "no message of this `type`; `hint` lists those that exist"
    EMPTY_TEXT = "empty_text", "`text` contains nothing to translate"
    TOO_LONG = (
        "too_long",
        "`text` is longer than `limits.text` characters, or in `failed`: it has a word that is too "
        "long for the model (81 letters and digits with the included one)",
    )
    LANG_UNSUPPORTED = (
        "lang_unsupported",
        "not a language of this engine, or the language could not be detected with confidence; "
        "`hint` says what to send",
    )
    LANG_MISMATCH = (
        "lang_mismatch",
        "the text is not in the language that was stated for it; `msg` names the one it looks like",
    )
    PAIR_UNSUPPORTED = (
        "pair_unsupported",
        "the gateway has both languages, but does not translate in this direction, not even in two "
        "steps; over HTTP `hint` lists what is possible",
    )
    TOO_MANY_TARGETS = "too_many_targets", "more languages than `limits.targets`"
    STALE = "stale", "this `rev` is older than one already sent, or the utterance has ended"
    BUSY = "busy", "too many utterances in flight; try again after `retry_ms`", True
    RATE = "rate", "more frames a second than `limits.rate`", True
    AUDIO_UNAVAILABLE = "audio_unavailable", "this gateway does not recognise speech"
    AUDIO_UNSUPPORTED = (
        "audio_unsupported",
        "not a codec or not a sample rate that this gateway reads; `hint` lists those it does",
    )
    AUDIO_BROKEN = (
        "audio_broken",
        "the frame is no audio in the codec that `audio` named; it was dropped",
    )
    AUDIO_OFF = "audio_off", "a frame of audio came without an accepted `audio` before it"
    AUDIO_TOO_FAST = (
        "audio_too_fast",
        "more audio than `audio.rate`, `audio.burst` or `audio.window` of `welcome`; it was "
        "dropped until `retry_ms` has passed",
        True,
    )
    FORBIDDEN = "forbidden", "this socket's role does not allow it"
    UNAUTHENTICATED = "unauthenticated", "no valid key or ticket was presented"
    NOT_FOUND = "not_found", "no such utterance or room"
    REJECTED = "rejected", "the model's output was not a translation, in two attempts", True
    ENGINE_UNAVAILABLE = "engine_unavailable", "the engine is starting, restarting or gone", True
    TIMEOUT = "timeout", "the translation took longer than the limit", True
    INTERNAL = "internal", "an error in the gateway itself; it has been logged", True


class CloseCode(enum.IntEnum):
    """WebSocket close codes. After 4000 to 4399 clients reconnect and resume, after 4400 to 4499
    they do not.

    Codes from 4000 on are the application's range (RFC 6455 section 7.4.2).
    """

    doc: str
    """Meaning, as published in ``docs/reference/codes.md``."""

    def __new__(cls, value: int, doc: str = "") -> CloseCode:
        self = int.__new__(cls, value)
        self._value_ = value
        self.doc = doc
        return self

    DONE = 1000, "finished, after `bye`"
    GOING_AWAY = 1001, "the server is shutting down"
    INVALID_DATA = 1007, "a text frame was not UTF-8"
    TOO_BIG = 1009, "a frame was larger than `limits.frame`"
    SERVER_ERROR = 4000, "an error in the gateway; reconnect"
    GOAWAY = 4001, "planned restart; reconnect now"
    TOO_SLOW = 4008, "this socket did not read fast enough; reconnect and resume"
    TOO_MANY = 4029, "too many connections; reconnect later"
    PROTOCOL_ERROR = 4400, "ten unreadable frames in a row, far too many frames, or a bad query"
    UNAUTHENTICATED = 4401, "no valid key or ticket"
    FORBIDDEN = 4403, "not allowed in this room or role"
    NO_SUCH_ROOM = 4404, "the room does not exist"
    REPLACED = 4409, "the same session has connected again with another socket"
    ROOM_ENDED = 4410, "the room has ended"

    @property
    def reconnect(self) -> bool:
        """Tell whether a client should open a new socket and resume."""
        return self is CloseCode.GOING_AWAY or 4000 <= self < 4400


class GatewayError(Exception):
    """Base of all errors with a code of this catalogue. Message and hint are for people."""

    def __init__(self, code: ErrorCode, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class ClientFault(GatewayError):
    """An error in the request of the caller. The socket stays open.

    :param retry_ms: milliseconds after which the request may succeed; 1000 by default for ``busy``,
        none for other codes
    """

    def __init__(
        self, code: ErrorCode, message: str, hint: str | None = None, retry_ms: int | None = None
    ) -> None:
        super().__init__(code, message, hint)
        self.retry_ms = 1000 if retry_ms is None and code is ErrorCode.BUSY else retry_ms


def bad_frame(message: str, hint: str | None = None) -> ClientFault:
    """Return the fault of a request that cannot be read, or asks for something that is not made."""
    return ClientFault(ErrorCode.BAD_FRAME, message, hint)


class EngineFault(GatewayError):
    """A failure on the model's side. It ends the caption in ``failed``, never the session.

    Messages of libraries and model servers are not repeated in it: they may quote the text, which
    is private.

    :param status: HTTP status of the model server that refused the job
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
    def summary(self) -> str:
        """Type, code and status, for the log.

        >>> EngineFault("It is broken.", status=500).summary
        'EngineFault engine_unavailable 500'
        """
        # The message is left out, since it may quote the text of the job.
        words = [type(self).__name__, self.code.value]
        return " ".join(words if self.status is None else [*words, str(self.status)])


class EngineGone(EngineFault):
    """The engine died, or ended a job on its own. It may be started again."""


class Overloaded(EngineFault):
    """The engine refused the job because its own queue is full."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message, ErrorCode.BUSY, status=status)


class JobFault(EngineFault):
    """The engine is healthy, but cannot do this one job, for example because the text is too long.

    Every other `EngineFault` of a job counts as a failure of the engine
    (`gateway.engines.wrappers.supervised`).
    """


class Rejected(JobFault):
    """A guard found that the output is not a translation."""

    def __init__(self, guard: str, message: str) -> None:
        super().__init__(message, ErrorCode.REJECTED)
        self.guard = guard

    @property
    def summary(self) -> str:
        """Type, code and guard, for the log."""
        return f"{super().summary} {self.guard}"


def redacted(exc: BaseException) -> BaseException:
    """Return a copy of an exception and its causes without messages, for ``exc_info`` of a log.

    The types and the traceback are kept. Messages of libraries and of Python itself quote their
    arguments, and texts of meetings are private.
    """
    # A new type of the same name: the constructor of the original may need arguments.
    copy: BaseException = _without_message(type(exc).__name__, type(exc).__module__)()
    if exc.__cause__ is not None:
        copy.__cause__ = redacted(exc.__cause__)
    # `raise ... from None` hides the context from tracebacks, and so does the copy.
    elif exc.__context__ is not None and not exc.__suppress_context__:
        copy.__context__ = redacted(exc.__context__)
    return copy.with_traceback(exc.__traceback__)


@lru_cache(maxsize=256)  # a type is a cycle: one for each fault would be garbage
def _without_message(name: str, module: str) -> type[Exception]:
    return type(name, (Exception,), {"__module__": module})
