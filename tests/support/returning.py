"""Clients that reconnect: the events they got, and the events of their room."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from gateway.client import Client, ConnectionLost, Disconnected, connect
from gateway.protocol.messages import DURABLE, Final, ServerMessage, Source, Welcome
from tests.support.live import Live


class Notes(list[Disconnected | Welcome]):
    """Notices that a program got about its connection."""

    @property
    def resumed(self) -> list[bool]:
        """Tell for each later socket whether it resumed without a gap."""
        welcomes = (note for note in self if isinstance(note, Welcome))
        return [note.resumed is not None and note.resumed.ok for note in welcomes]


def decided(events: list[ServerMessage]) -> list[ServerMessage]:
    """Return the durable events in the form that all readers get."""
    found = [event for event in events if isinstance(event, DURABLE)]
    return [msgspec.structs.replace(event, ref=None) if hasattr(event, "ref") else event
            for event in found]  # fmt: skip


async def gather(client: Client, events: list[ServerMessage]) -> None:
    """Collect events until the connection is lost."""
    with contextlib.suppress(ConnectionLost):
        async for event in client:
            events.append(event)  # noqa: PERF401  # they are looked at meanwhile


@asynccontextmanager
async def reader(url: str, **options: Any) -> AsyncIterator[list[ServerMessage]]:
    """Collect the events that a reader of a room gets during the block."""
    events: list[ServerMessage] = []
    async with connect(url, role="view", **options) as client:
        task = asyncio.create_task(gather(client, events))
        yield events
    await task


def originals(live: Live) -> list[Source]:
    """Return the original texts in the log of a room."""
    return [e for e in live.hub.rooms["r"].log.since(0) or () if isinstance(e, Source)]


def texts(events: list[ServerMessage]) -> list[tuple[str, str, str]]:
    return [(e.id, e.lang, e.text) for e in events if isinstance(e, Final)]
