"""The outputs of a gateway.

Owns: which rooms have which outputs, their senders and metrics. Must not know: how a sender
delivers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from weakref import WeakKeyDictionary

import httpx2 as httpx
from prometheus_client import CollectorRegistry, Counter, Gauge

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

    def __init__(self, hub: Hub, registry: CollectorRegistry) -> None:
        self._hub = hub
        self._outputs: Sequence[SharedOutput] = ()
        self._senders: WeakKeyDictionary[Room, dict[int, OutputSender]] = WeakKeyDictionary()
        self._tasks = BackgroundTasks(logging.getLogger("gateway.outputs"), "an output failed")
        self._client: httpx.AsyncClient | None = None
        self._events = Counter(
            "gateway_output_events",
            "Events for outputs: delivered, or lost because the receiver was away for too long.",
            ("output", "outcome"),
            registry=registry,
        )
        self._failures = Counter(
            "gateway_output_failures",
            "Attempts of outputs that failed and are repeated.",
            ("output",),
            registry=registry,
        )
        self._behind = Gauge(
            "gateway_output_behind",
            "Events that outputs have not delivered yet.",
            ("output",),
            registry=registry,
        )
        self._gone = Gauge(
            "gateway_output_gone",
            "1 once a receiver has answered 410 (Gone): it is sent nothing until the next start.",
            ("output",),
            registry=registry,
        )

    def add(self, tables: Sequence[OutputTable]) -> None:
        """Begin to serve outputs. Call it once, before the event loop runs."""
        if tables:
            # A sender limits the time of an attempt itself. There is one for each room, so with
            # the library's 100 connections a slow receiver of many rooms would stop the others.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
            self._client = http.client(timeout=None, limits=limits)
        self._outputs = [SharedOutput(table, partial(self._count, table)) for table in tables]
        for n, output in enumerate(self._outputs):
            table = output.table
            # Shown from the start, so that the first loss is a change of a counter.
            self._failures.labels(table.label)
            for outcome in ("delivered", "lost"):
                self._events.labels(table.label, outcome)
            self._behind.labels(table.label).set_function(partial(self._behind_of, n))
            self._gone.labels(table.label).set_function(partial(_is_gone, output))

    def observe(self, room: str, event: ServerMessage) -> None:
        """Notify the senders of a room about an event that it has decided."""
        if not self._outputs or not isinstance(event, DURABLE) or event.seq is None:
            return
        if room.startswith(PRIVATE) or (live := self._hub.rooms.get(room)) is None:
            return
        for n, output in enumerate(self._outputs):
            if not output.gone and fnmatchcase(room, output.table.room):
                self._notify(n, output, live, event.seq)

    def _notify(self, n: int, output: SharedOutput, room: Room, seq: int) -> None:
        senders = self._senders.setdefault(room, {})
        sender = senders.get(n)
        if sender is None:
            sender = senders[n] = OutputSender(self._hub, output, room, seq - 1)
        sender.notify()
        if sender.task is None:
            assert self._client is not None, "`add` has made it"
            sender.task = self._tasks.start(sender.run(self._client))

    async def aclose(self) -> None:
        """Deliver the remaining events within `FLUSH_S`, then stop."""
        senders = [sender for of_output in self._senders.values() for sender in of_output.values()]
        for sender in senders:
            sender.finish()
        running = [sender.task for sender in senders if sender.task is not None]
        if running:
            await asyncio.wait(running, timeout=FLUSH_S)
        await self._tasks.aclose()
        if self._client is not None:
            await self._client.aclose()

    def _behind_of(self, n: int) -> float:
        # A scrape runs in a thread of its own.
        rooms = list(self._senders.values())
        return float(sum(senders[n].behind for senders in rooms if n in senders))

    def _count(self, table: OutputTable, what: str, count: int) -> None:
        if what == "failed":
            self._failures.labels(table.label).inc(count)
        else:
            self._events.labels(table.label, what).inc(count)


def _is_gone(output: SharedOutput) -> float:
    return float(output.gone)
