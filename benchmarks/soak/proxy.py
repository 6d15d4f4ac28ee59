"""A bad network: a TCP proxy that cuts, stalls, splits, delays and corrupts its traffic.

Owns: its listener, and two sockets for each connection. Must not know: what the bytes mean.

Every connection is a `Wire` with two `Lane`, ``up`` to the server and ``down`` to the client.
``up`` and ``down`` of the `Proxy` are the faults of a new wire; all of them can be changed later.
Random numbers come from a seed and the number of the wire, so that a run can be repeated as far as
the two ends repeat it.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import TracebackType

from benchmarks.listeners import stop_listening

CHUNK = 65_536
"""Bytes read at once; a lane that stalls holds at most twice as many."""
LINGER_S = 1.0
"""Seconds for the read bytes to reach an end that does not read, after a FIN."""
LOST = (OSError, RuntimeError)
"""Errors of a connection that is reset or closed: uvloop raises `RuntimeError`."""
ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER with no time at all: close sends RST (tcp(7), socket(7))."""


class End(enum.Enum):
    """The end that learns of a cut."""

    CLIENT = "client"
    SERVER = "server"
    BOTH = "both"


class State(enum.Enum):
    """The state of a wire."""

    OPEN = "open"
    LOOSE = "loose"
    """One end is gone and the other was not told: half-open, as when a phone loses its network."""
    CUT = "cut"


@dataclass(frozen=True)
class Faults:
    """The faults of one direction.

    :param split: most bytes of a segment; each has 1 to so many. None: as they came
    :param delay: seconds that every chunk waits
    :param corrupt: probability, 0 to 1, that a byte gets one of its bits flipped
    :param cut_at: reset both ends after so many bytes, regardless of frames
    :param stall_at: let nothing more pass after so many bytes, until `Lane.flow`
    """

    split: int | None = None
    delay: float = 0.0
    corrupt: float = 0.0
    cut_at: int | None = None
    stall_at: int | None = None


NONE = Faults()


class Lane:
    """One direction of a wire. ``faults`` may be set at any time, and holds for the next chunk."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        faults: Faults,
        chance: Random,
        cut: Callable[[], None],
    ) -> None:
        self.faults = faults
        self.passed = 0
        """Bytes that were passed on."""
        self._reader = reader
        self._writer = writer
        self._chance = chance
        self._cut = cut
        self._free = asyncio.Event()
        self._free.set()

    @property
    def stalled(self) -> bool:
        return not self._free.is_set()

    def stall(self) -> None:
        """Let nothing pass, and soon read nothing: the sender's buffers fill up."""
        self._free.clear()

    def flow(self) -> None:
        """Undo `stall`."""
        self._free.set()

    async def pump(self) -> None:
        """Pass everything on until the sender's end of file, and that too. Raises `LOST`."""
        while data := await self._reader.read(CHUNK):
            if self.faults.delay:
                await asyncio.sleep(self.faults.delay)
            data = self._corrupted(data)
            while data:
                await self._free.wait()
                size = self._size(len(data))
                self._writer.write(data[:size])
                await self._writer.drain()
                self.passed += size
                data = data[size:]
                self._count()
                if self.faults.split is not None:
                    await asyncio.sleep(0)  # else the kernel may join them
        await self._free.wait()
        if self._writer.can_write_eof():
            self._writer.write_eof()

    def _size(self, most: int) -> int:
        faults = self.faults
        if faults.split is not None:
            most = min(most, self._chance.randint(1, faults.split))
        for bound in (faults.cut_at, faults.stall_at):
            if bound is not None and self.passed < bound:
                most = min(most, bound - self.passed)
        return most

    def _count(self) -> None:
        if self.passed == self.faults.cut_at:
            self._cut()
        elif self.passed == self.faults.stall_at:
            self.stall()

    def _corrupted(self, data: bytes) -> bytes:
        rate = self.faults.corrupt
        if not rate:
            return data
        return bytes(
            byte ^ (1 << self._chance.randrange(8)) if self._chance.random() < rate else byte
            for byte in data
        )


class Wire:
    """One connection through the proxy. ``number`` counts from 0 in the order they came."""

    def __init__(
        self,
        number: int,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        up: Faults,
        down: Faults,
        seed: int,
    ) -> None:
        self.number = number
        self.state = State.OPEN
        self._client = client[1]
        self._server = server[1]
        self._loose = asyncio.Event()
        reset = self.cut
        self.up = Lane(client[0], server[1], up, Random(f"{seed}/{number}/up"), reset)
        self.down = Lane(server[0], client[1], down, Random(f"{seed}/{number}/down"), reset)

    def stall(self) -> None:
        """Stall both directions."""
        self.up.stall()
        self.down.stall()

    def flow(self) -> None:
        """Undo `stall` in both directions."""
        self.up.flow()
        self.down.flow()

    def cut(self, *, reset: bool = True, end: End = End.BOTH) -> None:
        """End it: with RST, or with FIN. With one ``end`` the other is not told."""
        if self.state is State.CUT:
            return
        if end is not End.SERVER:
            _end(self._client, reset)
        if end is not End.CLIENT:
            _end(self._server, reset)
        if end is End.BOTH or self.state is State.LOOSE:
            self.state = State.CUT
        else:
            self.state = State.LOOSE
            self.stall()
        if self.state is State.CUT:
            self._loose.set()
            self.flow()

    async def run(self) -> None:
        """Pass bytes on until both directions have ended, or it is cut."""
        pumps = [asyncio.create_task(self.up.pump()), asyncio.create_task(self.down.pump())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_EXCEPTION)
            if self.state is State.LOOSE:
                await self._loose.wait()
        finally:
            for pump in pumps:
                pump.cancel()
            failed = await asyncio.gather(*pumps, return_exceptions=True)
            # A reset of one end is handed on; an end of file was, by the pump.
            self.cut(reset=any(isinstance(result, LOST) for result in failed))
        for result in failed:
            if isinstance(result, Exception) and not isinstance(result, LOST):
                raise result


class Proxy:
    """A listener on a port of 127.0.0.1 that connects to ``host:port`` for each client.

    An async context manager. ``target`` may be changed, for a server that comes back elsewhere.
    """

    def __init__(self, host: str, port: int, *, seed: int = 0) -> None:
        self.target = (host, port)
        self.up = NONE
        """Faults of new wires from client to server."""
        self.down = NONE
        """Faults of new wires from server to client."""
        self.refuse = False
        """True resets every new client: the network is down."""
        self.wires: dict[int, Wire] = {}
        """Open wires by number, oldest first."""
        self.count = 0
        """Number of wires so far."""
        self.port = 0
        self._seed = seed
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        await stop_listening(self._server)
        self.cut()
        while self._tasks:
            await asyncio.gather(*self._tasks)

    @property
    def newest(self) -> Wire:
        """Return the newest wire. Raises `LookupError` if it has ended, or there was none."""
        return self.wires[self.count - 1]

    def cut(self, *, reset: bool = True, end: End = End.BOTH) -> None:
        """Cut every wire."""
        for wire in list(self.wires.values()):
            wire.cut(reset=reset, end=end)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        number, self.count = self.count, self.count + 1
        if self.refuse:
            _end(writer, True)
            return
        try:
            server = await asyncio.open_connection(*self.target, limit=CHUNK)
        except OSError:
            _end(writer, True)
            return
        wire = Wire(number, (reader, writer), server, self.up, self.down, self._seed)
        self.wires[number] = wire
        try:
            await wire.run()
        finally:
            del self.wires[number]
            await _gone(writer)
            await _gone(server[1])


def _end(writer: asyncio.StreamWriter, reset: bool) -> None:
    if reset:
        sock = writer.get_extra_info("socket")
        with contextlib.suppress(OSError, AttributeError):  # it is closed already
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        writer.transport.abort()
    else:
        writer.close()


async def _gone(writer: asyncio.StreamWriter) -> None:
    """Wait until it is closed, with a limit: its peer may never read the rest."""
    with contextlib.suppress(*LOST):
        try:
            async with asyncio.timeout(LINGER_S):
                await writer.wait_closed()
        except TimeoutError:
            _end(writer, True)
