"""A minimal client, so that tests do not rely on the client that they test."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.live import Live

DEADLINE_S = 40.0
"""Seconds for one message: less than a whole test may take, and much for a busy machine."""


class Talk:
    """A socket with a few shorthands."""

    def __init__(self, ws: ClientConnection) -> None:
        self.ws = ws

    async def send(self, message: dict[str, Any] | str | bytes) -> None:
        await self.ws.send(json.dumps(message) if isinstance(message, dict) else message)

    async def next(self) -> dict[str, Any]:
        frame = await asyncio.wait_for(self.ws.recv(), DEADLINE_S)
        event: dict[str, Any] = (
            json.loads(frame) if isinstance(frame, str) else msgspec.msgpack.decode(frame)
        )
        return event

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """Return all events up to the first of a type, which is the last in the list."""
        events = [await self.next()]
        while events[-1]["type"] != kind:
            events.append(await self.next())
        return events

    async def closed(self) -> tuple[int | None, str | None]:
        """Read to the end, and return the close code and reason."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await asyncio.wait_for(self.ws.recv(), DEADLINE_S)
        return self.ws.close_code, self.ws.close_reason


@contextlib.asynccontextmanager
async def talk(live: Live, query: str = "", **options: Any) -> AsyncIterator[Talk]:
    async with connect(live.socket + query, max_size=None, **options) as ws:
        yield Talk(ws)


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(bounded())
