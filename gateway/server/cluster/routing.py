"""HTTP connections whose requests may belong to another process.

Owns: which bytes of a connection are those of one request, and the answer to a request whose
process is missing. Must not know: rooms and tokens; it asks which process a request belongs to.

This is a layer on `gateway.server.uvicorn.http`, with httptools only. The head of a request is
parsed once here; a process that takes the connection over parses it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from gateway.server.cluster.fd_passing import FdPassing
from gateway.server.uvicorn.http import BEST, BoundedH11Protocol

log = logging.getLogger("gateway.pinned")

RETRY_S = 0.05
"""Seconds between two attempts to hand a connection over."""
HOLD_S = 5.0
"""Seconds that a connection waits for its process, which may be starting; then it is refused (503).
"""
HELD = 1_024
"""Connections of one process that may wait at the same time; one more is refused (503)."""

Headers = Iterable[tuple[bytes, bytes]]
Locate = Callable[[bytes, Headers], int | None]
"""A function of a request's target and headers: the process it belongs to, or None for any."""

if BEST is BoundedH11Protocol:
    raise ImportError("Several processes need httptools, which exists for CPython only.")


class RoutedProtocol(BEST):  # type: ignore[misc,valid-type]  # the base class is a variable
    """A connection of which each request may belong to another process.

    :param ahead: bytes that another process has read of it. Their request stays in this process
    """

    handover: ClassVar[FdPassing]
    locate: ClassVar[Locate]

    def __init__(self, *args: Any, ahead: bytes = b"", **options: Any) -> None:
        super().__init__(*args, **options)
        self._ahead = ahead
        self._stays = bool(ahead)  # the next request belongs here, whatever its head says
        self._unanswered: bytes | None = None  # all bytes of the current request, if still known
        self._requests = 0  # requests that began in `_unanswered`
        self._in_request = False
        self._target: int | None = None  # the process that the connection leaves for
        self._until = 0.0
        self._retry: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if self._ahead and not self._refused:
            # The transport has not read anything yet, so these bytes come first.
            self.data_received(self._ahead)
            self._ahead = b""

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_leaving():
            return  # it was handed over or refused, or it waits
        if not self._in_request:
            self._unanswered, self._requests = data, 0
        elif self._unanswered is not None:
            self._unanswered += data
        super().data_received(data)
        if self._is_leaving():
            self._leave()

    def on_message_begin(self) -> None:
        self._in_request = True
        self._requests += 1
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._in_request = False
        super().on_message_complete()

    def on_headers_complete(self) -> None:
        member = None
        if self._stays:
            self._stays = False  # for the first request only; the next one is looked at
        else:
            member = type(self).locate(self.url, self.headers)
        if member is None or member == self.handover.member:
            self._unanswered = None
            super().on_headers_complete()
            return
        pending = self.cycle is not None and not self.cycle.response_complete
        self._target = member
        self._raw = None
        if self._requests != 1 or self._unanswered is None or pending:
            # A pipelined request: an answer is still to be sent here, or the bytes of another
            # request stand before it. `_leave` refuses it.
            self._unanswered = None
        raise OverflowError  # makes httptools stop and uvicorn call `send_400_response`

    def send_400_response(self, msg: str) -> None:
        if self._target is None:  # else nothing is wrong with the request
            super().send_400_response(msg)

    def _is_leaving(self) -> bool:  # a method, because it changes while httptools parses
        return self._target is not None

    def _leave(self) -> None:
        """Hand the connection over to the process of its request."""
        if self._refused or self.transport.is_closing():
            return
        if self._unanswered is None:
            self._refuse(
                421, "This room is in another process: wait for each answer before you ask again."
            )
            return
        self._stop_waiting()
        self.transport.pause_reading()
        self._until = self.loop.time() + HOLD_S
        self._try()

    def _try(self) -> None:
        self._stop_waiting()
        if self.transport.is_closing():
            return
        assert self._target is not None and self._unanswered is not None, "`_leave` checked both"
        handover = self.handover
        if self._target not in handover.members:  # retired in the meantime
            found = type(self).locate(self.url, self.headers)
            self._target = self._target if found is None else found
        try:
            sent = handover.send(
                self._target, self.transport.get_extra_info("socket").fileno(), self._unanswered
            )
        except OSError as exc:
            log.warning("a connection could not be handed over: %s", exc)
            self._refuse_missing()
            return
        if sent:
            self._unanswered = b""
            self.transport.abort()  # closes this copy of the descriptor and sends nothing
        elif self.loop.time() < self._until and handover.held < HELD:
            handover.held += 1
            self._retry = self.loop.call_later(RETRY_S, self._try)
        else:
            self._refuse_missing()

    def _refuse_missing(self) -> None:
        self.handover.counts["refused"] += 1
        self.transport.resume_reading()
        self._refuse(503, "The process that has this room is not running; try again.")

    def _stop_waiting(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
            self.handover.held -= 1


def routed_protocol(handover: FdPassing, locate: Locate) -> type[RoutedProtocol]:
    """Return the protocol class of one process."""
    members = {"handover": handover, "locate": staticmethod(locate)}
    return type("ProcessProtocol", (RoutedProtocol,), members)
