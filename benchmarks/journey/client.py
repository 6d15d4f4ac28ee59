"""Clients: HTTP for (a) to (e), WebSockets for (f), in a closed or an open loop.

Owns: connections, the times of a request as a client sees them. Must not know: the server, the use
of the figures. It is small, because it shares the machine with the servers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import cycle
from typing import Protocol

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from benchmarks.journey.cell import Sample
from benchmarks.journey.plan import SOURCE, TARGET, Answer

FLIGHT = 4_000
"""Requests of an open loop that may be unanswered; a further one counts as not sent."""
ENOUGH = 20
"""Answers after which a closed loop ends, if it has been steady meanwhile."""
SOCKETS = 32
"""WebSockets of an open loop."""
DRAIN_S = 120.0
"""Seconds to wait for answers after the last request."""


class Got(msgspec.Struct):
    """The result of a request; times are read from the monotonic clock."""

    first: float | None = None
    queue: float | None = None
    engine: float | None = None
    tokens: int = 0
    error: str | None = None


class Caller(Protocol):
    """A way to ask for a translation."""

    async def call(self, text: str) -> Got: ...

    async def aclose(self) -> None: ...


class Http:
    """One request to each connection at a time; connections are opened as needed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call(self, text: str) -> Got:
        """Send a request, and wait for the whole answer. Its first text is the whole answer."""
        try:
            if self._free:
                reader, writer = self._free.pop()
            else:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError as exc:
            return Got(error=type(exc).__name__)
        body = msgspec.json.encode({"text": text})
        try:
            writer.write(
                b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
                % (len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            status, length = parsed(head)
            answer = await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError) as exc:
            await _closed(writer)
            return Got(error=type(exc).__name__)
        except asyncio.CancelledError:
            writer.close()
            raise
        self._free.append((reader, writer))
        if status != 200:
            return Got(error=str(status))
        made = msgspec.json.decode(answer, type=Answer)
        return Got(time.monotonic(), made.queue, made.engine, made.tokens)

    async def aclose(self) -> None:
        for _, writer in self._free:
            await _closed(writer)
        self._free.clear()


class Event(msgspec.Struct):
    """The fields of a gateway's frame that matter here."""

    type: str
    id: str = ""
    code: str = ""
    ref: str | None = None
    ms: dict[str, int] = {}


class Line:
    """One socket, and the requests that wait on it."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.waiting: dict[str, tuple[Got, asyncio.Future[None]]] = {}
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        decoder = msgspec.json.Decoder(Event)
        why = "closed"
        try:
            async for frame in self.socket:
                event = decoder.decode(frame)
                found = self.waiting.get(event.id or event.ref or "")
                if found is None:
                    continue
                got, done = found
                match event.type:
                    case "delta":
                        got.first = got.first or time.monotonic()
                        continue
                    case "final":
                        got.first = got.first or time.monotonic()
                        got.queue = event.ms["queue"] / 1000
                        got.engine = (event.ms["total"] - event.ms["queue"]) / 1000
                    case "failed" | "error":
                        got.error = event.code
                    case _:
                        continue
                if not done.done():
                    done.set_result(None)
        except ConnectionClosed as exc:
            why = str(exc.rcvd.code) if exc.rcvd is not None else "1006"
        for got, done in self.waiting.values():
            got.error = why
            if not done.done():
                done.set_result(None)


class Socket:
    """Utterances over WebSockets: each client has a room of its own and one socket.

    :param clients: how many sockets are opened; requests take turns on them
    """

    def __init__(self, port: int, clients: int) -> None:
        self._port = port
        self._clients = clients
        self._lines: list[Line] = []
        self._serial = 0

    async def open(self) -> None:
        url = f"ws://127.0.0.1:{self._port}/v1/ws?from={SOURCE}&to={TARGET}"
        for _ in range(self._clients):
            socket = await connect(url, compression=None, max_size=None, ping_interval=None)
            await socket.recv()  # welcome
            self._lines.append(Line(socket))

    async def call(self, text: str) -> Got:
        """Say a text, and wait for its translation to end."""
        line = min(self._lines, key=lambda line: len(line.waiting))
        self._serial += 1
        id = f"u{self._serial}"
        got, done = Got(), asyncio.get_running_loop().create_future()
        line.waiting[id] = got, done
        try:
            await line.socket.send(
                msgspec.json.encode({"type": "say", "id": id, "ref": id, "text": text}), text=True
            )
            await done
        except ConnectionClosed:
            got.error = "closed"
        finally:
            del line.waiting[id]
        return got

    async def aclose(self) -> None:
        for line in self._lines:
            await line.socket.close()
            await line.task
        self._lines.clear()


class Loop:
    """The samples of one cell while it is made; ``began`` is on the monotonic clock."""

    def __init__(self, caller: Caller, texts: Sequence[str]) -> None:
        self.began = time.monotonic()
        self.samples: list[Sample] = []
        self._caller = caller
        self._texts: Iterator[str] = cycle(texts)

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    async def closed(self, clients: int, seconds: float, patience: float) -> float:
        """Run clients that each ask again when they were answered. Return when they stopped.

        They stop after ``seconds`` if each client has been answered, and then `ENOUGH` answers or
        again as many as clients have come: the first ones are those of a queue that was filling.
        After ``patience`` seconds they stop anyway.
        """
        until: float | None = None
        wanted = clients + min(clients, ENOUGH)

        async def one() -> None:
            nonlocal until
            while until is None:
                await self._one()
                if (self.now >= seconds and len(self.samples) >= wanted) or self.now >= patience:
                    until = until or self.now

        await self._ended([asyncio.create_task(one()) for _ in range(clients)])
        return until or self.now

    async def open(self, dues: Iterator[float], seconds: float) -> float:
        """Send requests at these seconds, without waiting for answers. Return when the last was
        sent.
        """
        tasks: set[asyncio.Task[None]] = set()
        for due in dues:
            if (left := due - self.now) > 0:
                await asyncio.sleep(left)
            if len(tasks) >= FLIGHT:
                self.samples.append(Sample(due=due, sent=self.now, done=self.now, error="not sent"))
                continue
            task = asyncio.create_task(self._one(due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if (left := seconds - self.now) > 0:
            await asyncio.sleep(left)
        await self._ended(list(tasks))
        return seconds

    async def _one(self, due: float | None = None) -> None:
        sent = self.now
        got = Got(error="unanswered")
        try:
            got = await self._caller.call(next(self._texts))
        finally:
            self.samples.append(
                Sample(
                    due=sent if due is None else due,
                    sent=sent,
                    done=self.now,
                    first=None if got.first is None else got.first - self.began,
                    queue=got.queue,
                    engine=got.engine,
                    tokens=got.tokens,
                    error=got.error,
                )
            )

    async def _ended(self, tasks: list[asyncio.Task[None]]) -> None:
        if tasks:
            try:
                _, late = await asyncio.wait(tasks, timeout=DRAIN_S)
            except asyncio.CancelledError:
                late = set(tasks)
                raise
            finally:
                for task in tasks:
                    task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


def parsed(head: bytes) -> tuple[int, int]:
    """Return status and length of an answer."""
    first, *fields = head.split(b"\r\n")
    for field in fields:
        name, _, value = field.partition(b":")
        if name.lower() == b"content-length":
            return int(first.split()[1]), int(value)
    return int(first.split()[1]), 0


async def fetched(port: int, path: str) -> str:
    """Return the body of a page, e.g. ``/metrics``. Raises `OSError`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            status, length = parsed(head)
            body = await reader.readexactly(length)
        except asyncio.IncompleteReadError as exc:
            raise ConnectionError("It closed the connection.") from exc
        if status != 200:
            raise ConnectionError(f"It answered {status}.")
        return body.decode("utf-8", "replace")
    finally:
        await _closed(writer)


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
