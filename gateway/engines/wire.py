"""Messages of vLLM's EngineCore, received with less ado than `zmq.asyncio` makes of each.

Owns: how the socket on which EngineCore's outputs arrive is waited for. Must not know: what is in a
message, who reads it.

There is one message a step of the model. `zmq.asyncio` makes a future and a record of each call,
asks the socket four times what there is, and sets up its next look; a tenth of the gateway's CPU
where steps are short. A read that either has a message or waits for the socket to be readable does
the same.
"""

from __future__ import annotations

import asyncio
from typing import Any

NEEDED = ("_shadow_sock", "_fd", "_get_loop", "_recv_futures", "_handle_events")
"""Of `zmq.asyncio.Socket`."""


def shorten(engine: Any) -> bool:
    """Receive what ``engine``, an `AsyncLLM`, is sent by the short way; whether that could be done.

    To be called in the event loop in which it runs.
    """
    resources = getattr(getattr(engine, "engine_core", None), "resources", None)
    socket = getattr(resources, "output_socket", None)
    if socket is None or not all(hasattr(socket, name) for name in NEEDED):
        return False
    Wire(socket)
    return True


class Wire:
    """The reading side of one `zmq.asyncio.Socket`, with one reader."""

    def __init__(self, socket: Any) -> None:
        from zmq import DONTWAIT, Again

        self._socket = socket
        self._receive = socket._shadow_sock.recv_multipart
        self._flag = DONTWAIT
        self._again = Again
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        socket._get_loop()  # it registers itself, and takes that back when it is closed
        self._loop.add_reader(socket._fd, self._readable)
        # A socket has no attributes of its own but through its dictionary.
        vars(socket)["recv_multipart"] = self.recv_multipart

    async def recv_multipart(self, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
        """In the place of `zmq.asyncio.Socket.recv_multipart`."""
        while True:
            try:
                return self._receive(flags | self._flag, copy=copy, track=track)
            except self._again:
                pass
            # Nothing can come between: what arrives from here on makes the socket readable.
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _readable(self) -> None:
        if self._socket._recv_futures:  # of before this took over
            self._socket._handle_events(0, 0)
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
