"""HTTP in one of several processes: what is another one's goes there before anything is answered.

Owns: which bytes of a connection are those of one request, and what becomes of a request whose
process is not there. Must not know: rooms, tokens; it asks where a request belongs.

It is a layer on `gateway.server.uvicorn.http`, with httptools alone: the head of a request is
parsed once, and the process that takes it over parses it again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from gateway.server.cluster.fd_passing import FdPassing
from gateway.server.uvicorn.http import BEST, BoundedH11Protocol

log = logging.getLogger("gateway.pinned")

RETRY_S = 0.05
"""Seconds between two tries to hand a connection over."""
HOLD_S = 5.0
"""Seconds that a connection waits for its process, which may be starting; then it is 503."""
HELD = 1_024
"""Connections that wait so at once; one more is 503."""

Headers = Iterable[tuple[bytes, bytes]]
Where = Callable[[bytes, Headers], int | None]
"""The process that a request belongs to, by its target and headers; None: any."""

if BEST is BoundedH11Protocol:
    raise ImportError("Several processes need httptools, which is there for CPython alone.")


class RoutedProtocol(BEST):  # type: ignore[misc,valid-type]  # its name is a variable
    """A connection of which each request may belong to another process.

    :param ahead: what another process has read of it. That first request stays here
    """

    handover: ClassVar[FdPassing]
    where: ClassVar[Where]

    def __init__(self, *args: Any, ahead: bytes = b"", **options: Any) -> None:
        super().__init__(*args, **options)
        self._ahead = ahead
        self._here = bool(ahead)  # the next request is this process's, whatever it says
        self._kept: bytes | None = None  # all of the head that is being read, where that is known
        self._begun = 0  # requests in what is kept
        self._mid = False  # within a request
        self._to: int | None = None
        self._given = False
        self._until = 0.0
        self._holding: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if self._ahead and not self._refused:
            # Before the transport reads on.
            self.data_received(self._ahead)
            self._ahead = b""

    def connection_lost(self, exc: Exception | None) -> None:
        self._unhold()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._leaving():
            return  # it is closed, or waits
        if not self._mid:
            self._kept, self._begun = data, 0
        elif self._kept is not None:
            self._kept += data
        super().data_received(data)
        if self._leaving():
            self._hand()

    def on_message_begin(self) -> None:
        self._mid = True
        self._begun += 1
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._mid = False
        super().on_message_complete()

    def on_headers_complete(self) -> None:
        member = None
        if self._here:
            self._here = False  # what was sent behind it is nobody's yet
        else:
            member = type(self).where(self.url, self.headers)
        if member is None or member == self.handover.member:
            self._kept = None
            super().on_headers_complete()
            return
        pending = self.cycle is not None and not self.cycle.response_complete
        self._to = member
        self._raw = None
        if self._begun != 1 or self._kept is None or pending:
            self._kept = None  # it was sent ahead of an answer: `_hand` refuses it
        raise OverflowError  # httptools stops, and `send_400_response` is called

    def send_400_response(self, msg: str) -> None:
        if self._to is None:
            super().send_400_response(msg)

    def _leaving(self) -> bool:
        return self._to is not None

    def _hand(self) -> None:
        """The request that was read is another process's."""
        if self._refused or self.transport.is_closing():
            return
        if self._kept is None:
            self._refuse(421, "This room is in another process: do not send requests ahead.")
            return
        self._stop_waiting()
        self.transport.pause_reading()
        self._until = self.loop.time() + HOLD_S
        self._try()

    def _try(self) -> None:
        self._unhold()
        if self.transport.is_closing():
            return
        assert self._to is not None and self._kept is not None, "it is to be handed over"
        handover = self.handover
        if self._to not in handover.members:  # gone for good meanwhile
            there = type(self).where(self.url, self.headers)
            self._to = self._to if there is None else there
        try:
            given = handover.send(
                self._to, self.transport.get_extra_info("socket").fileno(), self._kept
            )
        except OSError as exc:
            log.warning("a connection could not be handed over: %s", exc)
            self._give_up()
            return
        if given:
            self._given = True
            self._kept = b""
            self.transport.abort()  # this copy of it; nothing is sent
        elif self.loop.time() < self._until and handover.held < HELD:
            handover.held += 1
            self._holding = self.loop.call_later(RETRY_S, self._try)
        else:
            self._give_up()

    def _give_up(self) -> None:
        self.handover.done["refused"] += 1
        self.transport.resume_reading()
        self._refuse(503, "The process that has this room is not there; try again.")

    def _unhold(self) -> None:
        if self._holding is not None:
            self._holding.cancel()
            self._holding = None
            self.handover.held -= 1


def pinned(handover: FdPassing, where: Where) -> type[RoutedProtocol]:
    """The protocol class of one process."""
    return type("Pinned", (RoutedProtocol,), {"handover": handover, "where": staticmethod(where)})
