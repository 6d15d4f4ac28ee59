r"""The lag of readers behind the engine, with and without Redis between them.

    python -m benchmarks.fleet.lag [--rooms 200] [--utterances 3]
    python -m benchmarks.fleet.lag --rooms 1 --readers 5000 --gateways 3 --pace 1 \
        --arrangements spread --codecs gw.v1.json gw.v1.msgpack

The engine writes the machine's time into each word, and a reader compares it with the time of
arrival. The arrangements are measured in turns, so that they meet the same machine:

``memory``  one gateway without Redis
``beside``  gateways with Redis, readers on the gateway that owns the rooms
``apart``   gateways with Redis, readers on the other gateways
``spread``  gateways with Redis, readers on all gateways

CPU is that of all gateway processes for each delta that a reader was sent, without that of Redis.
``events`` are the originals, deltas and ends of captions that readers of one room and codec were
sent, ``encoded`` how often such events were encoded in all gateways.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from websockets.asyncio.client import ClientConnection, connect

from benchmarks.fleet.processes import Process, program
from benchmarks.light_readers import Place, read
from benchmarks.ports import free_port
from gateway.engines.base.engine import PullEngine
from gateway.engines.scripted import ScriptedEngine
from gateway.job import Chunk, Job
from gateway.limits import Limits
from gateway.protocol import codec
from gateway.protocol.codec import Codec
from gateway.protocol.messages import Delta, Final, ServerMessage, Source
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app
from gateway.server.fleet.rooms import FleetRooms
from gateway.server.process.listener import listen
from gateway.server.process.server import GatewayServer, configure
from gateway.server.runtime.room_host import TextOptions
from gateway.settings.catalogue import Settings

ARRANGEMENTS = ("memory", "beside", "apart", "spread")
COUNTED = (Source, Delta, Final)
WORDS = 20
SETTLE_S = 3.0
"""Seconds in which presence messages of new sockets pass, before the measurement."""
LIMITS = Limits(sessions=20_000, rooms=5_000, address_sockets=20_000, address_rate=20_000)


class Stamping(PullEngine, ScriptedEngine):
    """An engine whose words are the times at which it says them.

    :param pace: seconds between two words of a caption
    """

    capacity = 10_000

    def __init__(self, pace: float) -> None:
        super().__init__()
        self._pace = pace

    async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
        for _ in range(WORDS):
            await asyncio.sleep(self._pace)
            yield Chunk(f" t{time.monotonic_ns()};")


def serve(pipe: Connection, redis: str | None, pace: float) -> None:
    """Run a gateway. Send the port, later the number of encodings and the CPU seconds."""
    engine = Stamping(pace)
    encoded = [0]

    def counting(encode: Callable[[ServerMessage], bytes]) -> Callable[[ServerMessage], bytes]:
        def counted(message: ServerMessage) -> bytes:
            encoded[0] += isinstance(message, COUNTED)
            return encode(message)

        return counted

    codec._to_json = counting(codec._to_json)
    codec._to_msgpack = counting(codec._to_msgpack)
    listener = listen("127.0.0.1", 0)
    app = create_app(
        engine,
        LIMITS,
        authenticator=Authenticator(LIMITS),
        text=TextOptions(lang="en", coalesce_s=0),
        fleet=None if redis is None else partial(FleetRooms, url=redis),
    )
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


class Gateways:
    """Gateway processes of one arrangement."""

    def __init__(self, spawn: SpawnContext, count: int, redis: str | None, pace: float) -> None:
        self.pipes: list[Connection] = []
        self.processes: list[BaseProcess] = []
        for _ in range(count):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=serve, args=(theirs, redis, pace), daemon=True)
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


async def speak(sockets: Sequence[ClientConnection], utterances: int, pace: float) -> None:
    """Let each speaker say its lines, a little apart from each other."""
    drains = [asyncio.create_task(_drain(socket)) for socket in sockets]
    apart = pace / max(1, len(sockets))
    for n in range(utterances):
        begun = time.monotonic()
        for socket in sockets:
            await socket.send(f"line {n}")
            await asyncio.sleep(apart)
        await asyncio.sleep(max(0.0, begun + WORDS * pace * 1.2 - time.monotonic()))
    await asyncio.sleep(SETTLE_S)
    for drain in drains:
        drain.cancel()
    for socket in sockets:
        await socket.close()


async def _drain(socket: ClientConnection) -> None:
    async for _ in socket:
        pass


class Found(NamedTuple):
    """The results of one arrangement. ``lags`` are in milliseconds, ``cpu`` in seconds."""

    lags: list[float]
    events: int
    encoded: int
    cpu: float


def meet(spawn: SpawnContext, gateways: Gateways, name: str, options: argparse.Namespace) -> Found:
    """Hold the meetings of one arrangement."""
    rooms = [f"{name}-{n}-{time.monotonic_ns()}" for n in range(options.rooms)]
    ports = gateways.ports
    if name != "spread":
        ports = ports[1:] if name == "apart" else ports[:1]
    codecs = list(map(Codec, options.codecs))
    places = [
        Place(ports[n % len(ports)], room, "de", codecs[n // len(ports) % len(codecs)])
        for room in rooms
        for n in range(options.readers)
    ]
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
        runner.run(speak(speakers, options.utterances, options.pace))
        after = gateways.count()
    lags: list[float] = []
    sent: Counter[int] = Counter()
    for pipe in pipes:
        pipe.send("stop")
        some_lags, readers = pipe.recv()
        lags += some_lags
        sent.update(counts.total() for counts in readers)
        assert {counts["final"] for counts in readers} == {options.utterances}, "finals are lost"
    assert len(sent) == 1, f"readers were sent different numbers of events: {sent}"
    events = len(rooms) * next(iter(sent))
    return Found(lags, events, after[0] - before[0], after[1] - before[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rooms", type=int, default=200)
    parser.add_argument("--readers", type=int, default=1, help="of each room; default: 1")
    parser.add_argument("--gateways", type=int, default=2, help="with Redis; default: 2")
    parser.add_argument("--utterances", type=int, default=3, help="of each speaker; default: 3")
    parser.add_argument("--processes", type=int, default=1, help="of readers; default: 1")
    parser.add_argument("--rounds", type=int, default=2, help="of each arrangement; default: 2")
    parser.add_argument("--pace", type=float, default=0.1, help="seconds of a word; default: 0.1")
    parser.add_argument("--codecs", nargs="+", default=[Codec.JSON.value], help="of the readers")
    parser.add_argument("--arrangements", nargs="+", choices=ARRANGEMENTS, default=ARRANGEMENTS[:3])
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    with TemporaryDirectory() as folder:
        port = free_port()
        command = [program("redis-server"), "--port", str(port), "--save", ""]
        redis = Process([*command, "--appendonly", "yes"], Path(folder) / "redis.log", {})
        redis.start()
        memory = Gateways(spawn, 1, None, options.pace)
        url = f"redis://127.0.0.1:{port}/0"
        fleet = Gateways(spawn, options.gateways, url, options.pace)
        found: dict[str, list[Found]] = {name: [] for name in options.arrangements}
        for _ in range(options.rounds):
            for name in found:
                gateways = memory if name == "memory" else fleet
                found[name].append(meet(spawn, gateways, name, options))
        for one in (memory, fleet):
            one.stop()
        redis.kill()
    names = ("p50 ms", "p95 ms", "p99 ms", "deltas", "events", "encoded", "CPU us")
    print(f"{'':10}" + "".join(f"{name:>9}" for name in names))
    for name, rounds in found.items():
        lags = [lag for one in rounds for lag in one.lags]
        p50, p95, p99 = (statistics.quantiles(lags, n=100)[n] for n in (49, 94, 98))
        events, encoded = sum(one.events for one in rounds), sum(one.encoded for one in rounds)
        each = 1e6 * sum(one.cpu for one in rounds) / len(lags)
        print(
            f"{name:10}{p50:9.2f}{p95:9.2f}{p99:9.2f}{len(lags):9}{events:9}{encoded:9}{each:9.1f}"
        )


if __name__ == "__main__":
    main()
