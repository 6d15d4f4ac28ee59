"""A server of byte streams, whose connections end with it.

Before Python 3.12 `asyncio.Server` leaves its connections open, and a later test fails of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Self

from benchmarks.listeners import stop_listening

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class StreamServer:
    """A server on a port of 127.0.0.1. Each connection is closed when ``handle`` returns.

    :param port: 0 for any
    :param options: options of `asyncio.start_server`
    """

    def __init__(self, handle: Handle, port: int = 0, **options: Any) -> None:
        self.port = port
        self._handle = handle
        self._options = options
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Return host and port."""
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, **self._options
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await stop_listening(self._server)
        for task, writer in self._open.items():
            writer.transport.abort()
            task.cancel()
        while self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._handle(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            del self._open[task]
