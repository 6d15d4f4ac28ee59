"""Effects of a client that stops reading: its memory, other readers' delay, and its own end.

    python -m benchmarks.slow [RUN ...] [--seconds 20] [--rounds 3] [--readers 20] [--slow 2]
                              [--stall 60] [--ping 2]

Three runs, each with a gateway in its own process, over loopback; the clients are another process.

others      prompt readers of a busy room: alone, with more of their kind, and with as many that
            read nothing, in turn. The engine writes the time into each piece of text, and a reader
            compares it with the time of arrival. Then the most memory that one client that reads
            nothing held: its outbox, its transport's buffer, and the kernel's (SO_MEMINFO; Linux).
reaped      a client that never reads again: seconds from the last ping that it could answer.
text        a client that reads nothing for ``--stall`` seconds (the target is ten minutes, 600) at
            the pace of a meeting, then reads on; and one in a room so busy that it is closed with
            4008, and resumes. Both must get every final of a prompt reader, once.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import socket
import statistics
import struct
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from benchmarks.client import HANDSHAKE
from gateway.engines.base.engine import PullEngine
from gateway.engines.scripted import ScriptedEngine
from gateway.job import Chunk, Job
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app
from gateway.server.process.listener import listen
from gateway.server.process.server import GatewayServer, configure
from gateway.server.runtime.room_host import TextOptions
from gateway.server.uvicorn.websocket import WebSocketProtocol
from gateway.settings.catalogue import Settings

WORDS = 12
LIVELY, MEETING = 0.02, 0.2
"""Seconds between two words of a caption: of many fast engines, and of a fast speaker."""
SPEAKERS = 8
"""Speakers of a busy room, each with a running caption: 400 deltas a second for every reader."""
RECEIVE = 8_192
"""SO_RCVBUF of a client that stalls: bytes in its own kernel do not count against the gateway."""
SAMPLE_S = 0.05
SETTLE_S = 1.0
DEADLINE_S = 60.0
NEVER = 1e6
"""Seconds: for limits that are not measured, such as when an engine counts as late."""


class Stamping(PullEngine, ScriptedEngine):
    """An engine whose words are the times at which it says them."""

    pace = LIVELY

    async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
        for _ in range(WORDS):
            await asyncio.sleep(self.pace)
            yield Chunk(f" t{time.monotonic_ns()};")


# --- the gateway --------------------------------------------------------------------------------


def serve(pipe: Connection, settings: Settings, pace: float) -> None:
    """Run a gateway that reports its number of sockets and the most that one of them held."""
    engine = Stamping()
    engine.pace = pace
    listener = listen("127.0.0.1", 0, settings=settings)
    app = create_app(
        engine,
        settings.limits,
        authenticator=Authenticator(settings.limits),
        text=TextOptions(lang="en"),
    )
    server = GatewayServer(configure(app, settings), app.state.hub, 0)
    hub = app.state.hub
    most = {"outbox": 0, "buffer": 0, "kernel": 0}

    async def sample() -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            for session in hub.sessions.values():
                most["outbox"] = max(most["outbox"], session.outbox.bytes)
            for connection in server.server_state.connections:
                if isinstance(connection, WebSocketProtocol):
                    transport = connection.transport
                    most["buffer"] = max(most["buffer"], transport.get_write_buffer_size())
                    most["kernel"] = max(most["kernel"], held(transport))

    def obey() -> None:
        try:
            asked = pipe.recv()
        except EOFError:  # the measuring process has gone
            asyncio.get_running_loop().remove_reader(pipe.fileno())
            asked = "stop"
        if asked == "ask":
            pipe.send({**most, "sockets": len(hub.sessions), "rss": rss()})
        else:
            server.should_exit = True

    async def main() -> None:
        await engine.start()
        asyncio.get_running_loop().add_reader(pipe.fileno(), obey)
        sampling = asyncio.create_task(sample())
        gc.collect()
        gc.freeze()
        pipe.send(listener.getsockname()[1])
        await server.serve(sockets=[listener])
        sampling.cancel()

    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(main())


def held(transport: asyncio.Transport) -> int:
    """Return the bytes of memory that Linux counts for a connection, in both directions; else 0."""
    peer = transport.get_extra_info("socket")
    try:
        found = peer.getsockopt(socket.SOL_SOCKET, 55, 36)  # SO_MEMINFO
    except (AttributeError, OSError):
        return 0
    read, _, write, _, ahead, queued, *_ = struct.unpack("9I", found)
    return int(read + max(write, queued) + ahead)


def rss() -> int:
    """Return the resident bytes of this process, on Linux."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0


class Gateway:
    """The gateway process, from the clients' side."""

    def __init__(self, settings: Settings, pace: float) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=serve, args=(theirs, settings, pace), daemon=True)
        self._process.start()
        self.port: int = self._pipe.recv()

    async def ask(self) -> dict[str, int]:
        self._pipe.send("ask")
        answer: dict[str, int] = await asyncio.to_thread(self._pipe.recv)
        return answer

    async def until(self, enough: Callable[[int], bool]) -> None:
        """Wait until it has this number of sockets."""
        while not enough((await self.ask())["sockets"]):  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        self._pipe.send("stop")
        self._process.join(20)


# --- the clients --------------------------------------------------------------------------------


class Reader:
    """A prompt reader: the lags of its deltas in milliseconds, and its finals by (id, language)."""

    def __init__(self, ws: ClientConnection) -> None:
        self.lags: list[float] = []
        self.finals: dict[tuple[str, str], str] = {}
        self._task = asyncio.create_task(self._read(ws))

    async def _read(self, ws: ClientConnection) -> None:
        async for frame in ws:
            now = time.monotonic_ns()
            assert isinstance(frame, str)
            if frame.startswith('{"type":"delta"'):
                at = frame.rindex(" t") + 2
                self.lags.append((now - int(frame[at : frame.index(";", at)])) / 1e6)
            elif frame.startswith('{"type":"final"'):
                event = json.loads(frame)
                self.finals[event["id"], event["lang"]] = event["text"]

    def stop(self) -> None:
        self._task.cancel()


class Stalled:
    """A client that reads only when it is told to, and then everything."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._rest = b""
        self._loop = asyncio.get_running_loop()
        self.counts: dict[str, int] = {}
        self.finals: dict[tuple[str, str], str] = {}
        self.doubled = 0
        self.seq = 0
        self.welcome: dict[str, Any] = {}
        self.close: int | None = None

    async def read(self, enough: set[tuple[str, str]] | None = None) -> None:
        """Read until it has these finals, or has been closed."""
        while self.close is None and not (enough is not None and enough <= self.finals.keys()):
            try:
                data = await self._loop.sock_recv(self._peer, 65_536)
            except ConnectionError:
                data = b""
            if not data:
                self.close = self.close or 1006
                return
            await self._feed(data)

    async def _feed(self, data: bytes) -> None:
        data = self._rest + data
        if data.startswith(b"HTTP/"):
            head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self._rest = head
                return
        while len(data) >= 2:
            at, size = 2, data[1]
            if size >= 126:
                at = 4 if size == 126 else 10
                size = int.from_bytes(data[2:at])
            if len(data) < at + size:
                break
            payload = data[at : at + size]
            if data[0] == 0x89:
                await self._loop.sock_sendall(
                    self._peer, b"\x8a%c\0\0\0\0%b" % (0x80 | size, payload)
                )
            elif data[0] == 0x88:
                self.close = int.from_bytes(payload[:2])
            else:
                self._hear(json.loads(payload))
            data = data[at + size :]
        self._rest = data

    def _hear(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.seq = event.get("seq", self.seq)
        if kind == "welcome":
            self.welcome = event
        if kind == "final":
            key = event["id"], event["lang"]
            self.doubled += key in self.finals
            self.finals[key] = event["text"]


@asynccontextmanager
async def stalled(gateway: Gateway, query: str) -> AsyncIterator[Stalled]:
    with socket.socket() as peer:
        peer.setblocking(False)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(peer, ("127.0.0.1", gateway.port))
        await loop.sock_sendall(peer, HANDSHAKE.format(query=query).encode())
        yield Stalled(peer)


@asynccontextmanager
async def reader(gateway: Gateway, query: str) -> AsyncIterator[Reader]:
    url = f"ws://127.0.0.1:{gateway.port}/v1/ws?{query}"
    async with connect(url, compression=None, max_queue=None) as ws:
        one = Reader(ws)
        try:
            yield one
        finally:
            one.stop()


async def speak(gateway: Gateway, room: str, seconds: float) -> None:
    """Say one line after the other, each when the last caption is nearly there."""
    url = f"ws://127.0.0.1:{gateway.port}/v1/ws?room={room}&from=en&to=de&view=final"
    async with connect(url, compression=None) as ws:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await ws.send("a line that is said")
            while (event := json.loads(await ws.recv()))["type"] not in ("final", "error"):
                pass
            await asyncio.sleep(event.get("retry_ms", 0) / 1000)  # where the engine has too much


async def meet(gateway: Gateway, room: str, seconds: float, speakers: int = SPEAKERS) -> None:
    await asyncio.gather(*(speak(gateway, room, seconds) for _ in range(speakers)))
    await asyncio.sleep(SETTLE_S)


# --- the runs -----------------------------------------------------------------------------------


async def others(options: argparse.Namespace) -> None:
    limits = Limits(soon_s=NEVER)
    gateway = Gateway(Settings(limits=limits, ping_s=0), LIVELY)
    kinds = ("alone", f"with {options.slow} more", f"with {options.slow} that stall")
    pooled: dict[str, list[float]] = {kind: [] for kind in kinds}
    ratios: dict[str, list[float]] = {kind: [] for kind in kinds}
    for n in range(options.rounds):
        p99 = {}
        for kind in kinds:
            room = f"room{n}-{kinds.index(kind)}"
            stall = kind == kinds[2]
            more = 0 if kind == kinds[0] else options.slow
            lags: list[float] = []
            async with crowd(gateway, room, options.readers, more, stall) as readers:
                await meet(gateway, room, options.seconds)
                for one in readers:
                    lags += one.lags
            p99[kind] = statistics.quantiles(lags, n=100)[98]
            pooled[kind] += lags
        for kind in kinds:
            ratios[kind].append(p99[kinds[2]] / p99[kind])
    most = await gateway.ask()
    gateway.stop()
    print(f"{'others':24}{'p50 ms':>9}{'p99 ms':>9}{'deltas':>9}  p99 of the last to this (rounds)")
    for kind in kinds:
        cuts = statistics.quantiles(pooled[kind], n=100)
        rounds = ", ".join(f"{ratio:.2f}" for ratio in ratios[kind])
        ratio = f"{statistics.median(ratios[kind]):.2f} ({rounds}); target 1.1"
        print(
            f"{kind:24}{cuts[49]:9.2f}{cuts[98]:9.2f}{len(pooled[kind]):9}"
            f"  {ratio if kind != kinds[2] else ''}"
        )
    print()
    print("cost of one that stalls, at most")
    print(
        f"  waiting in the outbox  {most['outbox']:9} bytes of memory; target 1048576 with the next"
    )
    print(f"  transport's buffer     {most['buffer']:9} bytes")
    print(f"  kernel (SO_MEMINFO)    {most['kernel']:9} bytes; target 262144")
    print(f"  the process            {most['rss'] / 2**20:9.1f} MiB\n")


@asynccontextmanager
async def crowd(
    gateway: Gateway, room: str, readers: int, more: int, stall: bool
) -> AsyncIterator[list[Reader]]:
    """Yield prompt readers, with some more sockets that are not measured."""
    query = f"room={room}&role=view&to=de"
    async with AsyncExitStack() as stack:
        found = [await stack.enter_async_context(reader(gateway, query)) for _ in range(readers)]
        for _ in range(more):
            kind = stalled if stall else reader
            await stack.enter_async_context(kind(gateway, query))
        yield found


async def reaped(ping: float) -> None:
    gateway = Gateway(Settings(ping_s=ping), LIVELY)
    async with stalled(gateway, "room=r&role=view&to=de"):
        meeting = asyncio.create_task(meet(gateway, "r", 4 * ping, 4))
        await gateway.until(lambda sockets: sockets == 5)  # the four speakers, and this one
        begun = time.monotonic()
        await gateway.until(lambda sockets: sockets < 5)
        took = time.monotonic() - begun
        meeting.cancel()
        await asyncio.gather(meeting, return_exceptions=True)
    gateway.stop()
    print("reaped, where it never reads again")
    print(
        f"  {took:.2f} s after it came: the first ping after {ping:g} s, {took - ping:.2f} s for an"
        f" answer; target {ping:g} and 1 s\n"
    )


async def text(options: argparse.Namespace) -> None:
    print("text, where it reads on")
    patient = Limits(outbox_s=NEVER, soon_s=NEVER)
    gateway = Gateway(Settings(limits=patient, ping_s=0), MEETING)
    query = "room=r&role=view&to=de,fr"
    async with reader(gateway, query) as prompt, stalled(gateway, query) as one:
        await meet(gateway, "r", options.stall, 1)
        most = await gateway.ask()
        begun = time.monotonic()
        async with asyncio.timeout(DEADLINE_S):
            await one.read(set(prompt.finals))
        took = time.monotonic() - begun
    gateway.stop()
    _verdict(f"{options.stall:g} s of a meeting", prompt, one)
    print(f"    waited {most['outbox']} bytes; caught up in {took * 1000:.0f} ms")

    gateway = Gateway(Settings(limits=Limits(outbox_bytes=131_072, soon_s=NEVER), ping_s=0), LIVELY)
    async with reader(gateway, query) as prompt, stalled(gateway, query) as one:
        await meet(gateway, "r", 10)
        async with asyncio.timeout(DEADLINE_S):
            await one.read()
        code, token = one.close, one.welcome.get("resume")
        if token is None:
            print("  the gateway gives no resume token")
        else:
            point = f"resume={token}&epoch={one.welcome['epoch']}&seq={one.seq}"
            async with stalled(gateway, point) as again, asyncio.timeout(DEADLINE_S):
                again.finals, again.counts = one.finals, one.counts
                await again.read(set(prompt.finals))
                again.close = code
                _verdict("a lively room, closed and resumed", prompt, again)
    gateway.stop()


def _verdict(name: str, prompt: Reader, one: Stalled) -> None:
    wrong = sum(one.finals.get(key) != said for key, said in prompt.finals.items())
    counts = ", ".join(f"{one.counts.get(k, 0)} {k}" for k in ("delta", "lag"))
    print(
        f"  {name}: {len(prompt.finals)} finals, {wrong} wrong or missing, {one.doubled} doubled;"
        f" {counts}; close {one.close}"
    )


async def run(options: argparse.Namespace) -> None:
    if "others" in options.runs:
        await others(options)
    if "reaped" in options.runs:
        await reaped(options.ping)
    if "text" in options.runs:
        await text(options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="*", default=["others", "reaped", "text"])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each half of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--slow", type=int, default=2)
    parser.add_argument("--stall", type=float, default=60.0)
    parser.add_argument("--ping", type=float, default=2.0, help="interval, and time to answer")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
