"""An HTTP server that takes the requests of outputs, and fails as told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from tests.support.live import until
from tests.support.stream_server import StreamServer


class Received(NamedTuple):
    """A request. ``path`` has the query."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """A server on a port of its own.

    ``statuses``  answers to the next requests, then always 204; 0 closes without an answer
    ``received``  every request so far
    ``hold``      no request is answered while it is cleared
    ``headers``   of every answer
    """

    def __init__(self, *statuses: int, number: str = "0", headers: Sequence[str] = ()) -> None:
        self.statuses = list(statuses)
        self.received: list[Received] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.port = 0
        self.headers = headers
        self._number = number
        self._server: StreamServer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in"

    @property
    def posts(self) -> list[Received]:
        return [one for one in self.received if one.method == "POST"]

    async def __aenter__(self) -> Receiver:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hold.set()
        await self.stop()

    async def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = StreamServer(self._serve, self.port)
        await self._server.__aenter__()
        self.port = self._server.port

    async def stop(self) -> None:
        """Refuse connections."""
        await self._server.__aexit__()

    async def take(self, count: int) -> list[Received]:
        """Wait for a number of requests with a body, and return them all."""
        await until(lambda: len(self.posts) >= count)
        return self.posts

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        lines = (line.partition(": ") for line in head[1:] if line)
        headers = {name.lower(): value for name, _, value in lines}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.received.append(Received(method, path, headers, body))
        await self.hold.wait()
        status = 204
        if method == "POST" and self.statuses:
            status = self.statuses.pop(0)
        text = self._number if method == "GET" else ""
        if status:
            length = f"Content-Length: {len(text)}"
            answer = [f"HTTP/1.1 {200 if text else status} X", length, *self.headers]
            writer.write("\r\n".join([*answer, f"Connection: close\r\n\r\n{text}"]).encode())
