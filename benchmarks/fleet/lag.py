"""The lag of readers behind the engine, with and without Redis between them.

    python -m benchmarks.fleet.lag [--rooms 200] [--utterances 3]
    python -m benchmarks.fleet.lag --rooms 1 --readers 5000 --gateways 3 --processes 6

The engine writes the machine's time into each word, and a reader compares it with the time of
arrival. Three arrangements are measured in turns, so that they meet the same machine:

``memory``  one gateway without Redis
``beside``  gateways with Redis, readers on the gateway that owns the rooms
``apart``   gateways with Redis, readers on the other gateways

CPU is that of all gateway processes for each delta that a reader was sent, without that of Redis.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import statistics
import time
from collections.abc import AsyncGenerator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory

from websockets.asyncio.client import ClientConnection, connect

from benchmarks.fleet.processes import Process, free_port, program
from gateway.engines.base.engine import PullEngine
from gateway.engines.scripted import ScriptedEngine
from gateway.job import Chunk, Job
from gateway.limits import Limits
from gateway.protocol import codec
from gateway.protocol.messages import ServerMessage
from gateway.server.app import create_app
from gateway.server.fleet.join import join_fleet
from gateway.server.process.listener import listen
from gateway.server.process.server import GatewayServer, configure
from gateway.settings.catalogue import Settings

WORDS = 20
PACE = 0.1
"""Seconds between two words of a caption."""
GATHER_S = 120.0
SETTLE_S = 3.0
"""Seconds in which presence messages of new sockets pass, before the measurement."""
LIMITS = Limits(sessions=20_000, rooms=5_000, address_sockets=20_000, address_rate=20_000)

Place = tuple[int, str, str]
"""Port, room and language of a reader."""


class Stamping(PullEngine, ScriptedEngine):
    """An engine whose words are the times at which it says them."""

    capacity = 10_000

    async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
        for _ in range(WORDS):
            await asyncio.sleep(PACE)
            yield Chunk(f" t{time.monotonic_ns()};")


def serve(pipe: Connection, redis: str | None) -> None:
    """Run a gateway. Send the port, later the number of encodings and the CPU seconds."""
    engine = Stamping()
    encoded = [0]
    encode = codec._to_json

    def counted(message: ServerMessage) -> bytes:
        encoded[0] += 1
        return encode(message)

    codec._to_json = counted
    listener = listen("127.0.0.1", 0)
    app = create_app(engine, LIMITS, lang="en", coalesce_s=0)
    if redis is not None:
        join_fleet(app.state.hub, redis)
    server = GatewayServer(configure(app, Settings(limits=LIMITS)), app.state.hub, 0)

    def obey() -> None:
        if pipe.recv() == "count":
            pipe.send((encoded[0], time.process_time()))
        else:
            server.should_exit = True

    async def main() -> None:
        await engine.start()
        asyncio.get_running_loop().add_reader(pipe.fileno(), obey)
        gc.collect()
        gc.freeze()
        pipe.send(listener.getsockname()[1])
        await server.serve(sockets=[listener])

    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(main())


def read(pipe: Connection, places: Sequence[Place]) -> None:
    """Run the readers of one process; send the lags in milliseconds and the number of finals."""
    lags: list[float] = []
    finals = 0

    async def one(socket: ClientConnection) -> None:
        nonlocal finals
        async for frame in socket:
            now = time.monotonic_ns()
            assert isinstance(frame, str)
            if frame.startswith('{"type":"delta"'):
                at = frame.index(" t") + 2
                lags.append((now - int(frame[at : frame.index(";", at)])) / 1e6)
            elif frame.startswith('{"type":"final"'):
                finals += 1

    async def main() -> None:
        tasks = []
        for port, room, lang in places:
            url = f"ws://127.0.0.1:{port}/v1/ws?room={room}&role=view&to={lang}"
            socket = await connect(url, compression=None, open_timeout=GATHER_S)
            tasks.append(asyncio.create_task(one(socket)))
        pipe.send("here")
        await asyncio.to_thread(pipe.recv)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        pipe.send((lags, finals))

    asyncio.run(main())


class Gateways:
    """Gateway processes of one arrangement."""

    def __init__(self, spawn: SpawnContext, count: int, redis: str | None) -> None:
        self.pipes: list[Connection] = []
        self.processes: list[BaseProcess] = []
        for _ in range(count):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=serve, args=(theirs, redis), daemon=True)
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)
        self.ports: list[int] = [pipe.recv() for pipe in self.pipes]

    def count(self) -> tuple[int, float]:
        """Return the encodings and the CPU seconds of all processes so far."""
        for pipe in self.pipes:
            pipe.send("count")
        counts = [pipe.recv() for pipe in self.pipes]
        return sum(encoded for encoded, _ in counts), sum(cpu for _, cpu in counts)

    def stop(self) -> None:
        """End the processes."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            pipe.send("stop")
            process.join(20)


async def gather(port: int, rooms: Sequence[str]) -> list[ClientConnection]:
    """Open the sockets of the speakers, who are the first in their rooms."""
    url = f"ws://127.0.0.1:{port}/v1/ws?from=en&room="
    return [await connect(url + room, compression=None) for room in rooms]


async def speak(sockets: Sequence[ClientConnection], utterances: int) -> None:
    """Let each speaker say its lines, a little apart from each other."""
    drains = [asyncio.create_task(_drain(socket)) for socket in sockets]
    apart = PACE / max(1, len(sockets))
    for n in range(utterances):
        begun = time.monotonic()
        for socket in sockets:
            await socket.send(f"line {n}")
            await asyncio.sleep(apart)
        await asyncio.sleep(max(0.0, begun + WORDS * PACE * 1.2 - time.monotonic()))
    await asyncio.sleep(SETTLE_S)
    for drain in drains:
        drain.cancel()
    for socket in sockets:
        await socket.close()


async def _drain(socket: ClientConnection) -> None:
    async for _ in socket:
        pass


def meet(
    spawn: SpawnContext, gateways: Gateways, name: str, options: argparse.Namespace
) -> tuple[list[float], int, float]:
    """Return the lags, the encodings and the CPU seconds of one arrangement."""
    rooms = [f"{name}-{n}-{time.monotonic_ns()}" for n in range(options.rooms)]
    ports = gateways.ports[1:] if name == "apart" else gateways.ports[:1]
    places = [(ports[n % len(ports)], room, "de") for room in rooms for n in range(options.readers)]
    with asyncio.Runner() as runner:
        speakers = runner.run(gather(gateways.ports[0], rooms))
        pipes = []
        for n in range(options.processes):
            ours, theirs = spawn.Pipe()
            some = places[n :: options.processes]
            spawn.Process(target=read, args=(theirs, some), daemon=True).start()
            pipes.append(ours)
        for pipe in pipes:
            pipe.recv()
        time.sleep(SETTLE_S)
        before = gateways.count()
        runner.run(speak(speakers, options.utterances))
        after = gateways.count()
    lags: list[float] = []
    finals = 0
    for pipe in pipes:
        pipe.send("stop")
        some_lags, some_finals = pipe.recv()
        lags += some_lags
        finals += some_finals
    expected = len(places) * options.utterances
    assert finals == expected, f"{finals} finals of {expected}"
    return lags, after[0] - before[0], after[1] - before[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rooms", type=int, default=200)
    parser.add_argument("--readers", type=int, default=1, help="of each room; default: 1")
    parser.add_argument("--gateways", type=int, default=2, help="with Redis; default: 2")
    parser.add_argument("--utterances", type=int, default=3, help="of each speaker; default: 3")
    parser.add_argument("--processes", type=int, default=1, help="of readers; default: 1")
    parser.add_argument("--rounds", type=int, default=2, help="of each arrangement; default: 2")
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    with TemporaryDirectory() as folder:
        port = free_port()
        command = [program("redis-server"), "--port", str(port), "--save", ""]
        redis = Process([*command, "--appendonly", "yes"], Path(folder) / "redis.log", {})
        redis.start()
        memory = Gateways(spawn, 1, None)
        fleet = Gateways(spawn, options.gateways, f"redis://127.0.0.1:{port}/0")
        found: dict[str, tuple[list[float], int, float]] = {}
        for _ in range(options.rounds):
            for name, gateways in (("memory", memory), ("beside", fleet), ("apart", fleet)):
                lags, encoded, cpu = meet(spawn, gateways, name, options)
                old = found.get(name, ([], 0, 0.0))
                found[name] = (old[0] + lags, old[1] + encoded, old[2] + cpu)
        for one in (memory, fleet):
            one.stop()
        redis.kill()
    print(f"{'':10}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}{'deltas':>9}{'encoded':>9}{'CPU us':>9}")
    for name, (lags, encoded, cpu) in found.items():
        p50, p95, p99 = (statistics.quantiles(lags, n=100)[n] for n in (49, 94, 98))
        each = 1e6 * cpu / len(lags)
        print(f"{name:10}{p50:9.2f}{p95:9.2f}{p99:9.2f}{len(lags):9}{encoded:9}{each:9.1f}")


if __name__ == "__main__":
    main()
