"""The outputs of a gateway.

Owns: which rooms have which outputs, and their senders. Must not know: how a sender delivers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from fnmatch import fnmatchcase

import httpx2 as httpx

from gateway.core.room.room import Room
from gateway.io import http
from gateway.io.tasks import BackgroundTasks
from gateway.protocol.messages import DURABLE, PRIVATE, ServerMessage
from gateway.server.outputs.sender import OutputSender, SharedOutput
from gateway.server.runtime.hub import Hub
from gateway.settings.catalogue import OutputTable

FLUSH_S = 5.0
"""Seconds at the end of the gateway for events that are not delivered yet."""


class Outputs:
    """The outputs of all rooms. `observe` begins a sender when its room has something for it."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.served: Sequence[SharedOutput] = ()
        self._tasks = BackgroundTasks(logging.getLogger("gateway.outputs"), "an output failed")
        self._client: httpx.AsyncClient | None = None

    def add(self, tables: Sequence[OutputTable]) -> None:
        """Begin to serve outputs. Call it once, before the event loop runs."""
        if tables:
            # A sender limits the time of an attempt itself. There is one for each room, so with
            # the library's 100 connections a slow receiver of many rooms would stop the others.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
            self._client = client = http.client(timeout=None, limits=limits)
            self.served = [SharedOutput(table, client) for table in tables]

    def observe(self, room: str, event: ServerMessage) -> None:
        """Notify the senders of a room about an event that it has decided."""
        if not self.served or not isinstance(event, DURABLE) or event.seq is None:
            return
        if room.startswith(PRIVATE) or (live := self._hub.rooms.get(room)) is None:
            return
        for output in self.served:
            if not output.gone and fnmatchcase(room, output.table.room):
                self._notify(output, live, event.seq)

    def _notify(self, output: SharedOutput, room: Room, seq: int) -> None:
        sender = output.senders.get(room)
        if sender is None:
            sender = output.senders[room] = OutputSender(self._hub, output, room, seq - 1)
        sender.notify()
        if sender.task is None:
            sender.task = self._tasks.start(sender.run())

    async def aclose(self) -> None:
        """Deliver the remaining events within `FLUSH_S`, then stop."""
        senders = [sender for output in self.served for sender in output.senders.values()]
        for sender in senders:
            sender.finish()
        running = [sender.task for sender in senders if sender.task is not None]
        if running:
            await asyncio.wait(running, timeout=FLUSH_S)
        await self._tasks.aclose()
        if self._client is not None:
            await self._client.aclose()
