"""The lag of the readers of one large room behind the engine.

    python -m benchmarks.readers [--readers 1000] [--languages 5] [--utterances 10] [--processes 1]

One speaker, one gateway process, and readers in processes of their own. The engine writes the
machine's time into each piece of text, and a reader compares it with the time of arrival. So the
lag is that of gateway, kernel and the reader's process together. It is compared with the lag of one
reader alone in a room of the same gateway, in the same minute.
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

from websockets.asyncio.client import ClientConnection, connect

from benchmarks.light_readers import Place, read
from gateway.engines.base.engine import PullEngine
from gateway.engines.scripted import ScriptedEngine
from gateway.job import Chunk, Job
from gateway.limits import Limits
from gateway.protocol import codec
from gateway.protocol.messages import ServerMessage
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app
from gateway.server.process.listener import listen
from gateway.server.process.server import GatewayServer, configure
from gateway.server.runtime.room_host import TextOptions
from gateway.settings.catalogue import Settings

LANGUAGES = ("de", "fr", "es", "ja", "zh", "it", "pl", "pt")
WORDS = 12
PACE = 0.2
"""Seconds between the words of a caption: five a second, twice a fast speaker."""

SETTLE_S = 2.0
"""Seconds in which presence messages of new sockets pass, before the measurement."""


class Stamping(PullEngine, ScriptedEngine):
    """An engine whose words are the times at which it says them."""

    async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
        for _ in range(WORDS):
            await asyncio.sleep(PACE)
            yield Chunk(f" t{time.monotonic_ns()};")


def serve(pipe: Connection) -> None:
    """Run a gateway around the stamping engine. Send the port, later the number of encodings."""
    engine = Stamping()
    limits = Limits(sessions=20_000)
    encoded = [0]

    encode = codec._to_json

    def counted(message: ServerMessage) -> bytes:
        encoded[0] += 1
        return encode(message)

    codec._to_json = counted
    listener = listen("127.0.0.1", 0)
    app = create_app(
        engine, limits, authenticator=Authenticator(limits), text=TextOptions(lang="en")
    )
    server = GatewayServer(configure(app, Settings(limits=limits)), app.state.hub, 0)

    def obey() -> None:
        if pipe.recv() == "count":
            pipe.send(encoded[0])
            encoded[0] = 0
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--languages", type=int, default=5)
    parser.add_argument("--utterances", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    port = ours.recv()
    langs = LANGUAGES[: options.languages]
    alone = meet(spawn, ours, port, "alone", langs[:1], 1, options.utterances)
    crowd = [langs[n % len(langs)] for n in range(options.readers)]
    among = meet(spawn, ours, port, "crowd", crowd, options.processes, options.utterances)
    ours.send("stop")
    server.join(20)
    print(f"{'':24}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}{'encoded':>9}{'sent':>9}")
    for name, (lags, encoded) in (("one reader", alone), (f"{options.readers} readers", among)):
        p50, p95, p99 = (statistics.quantiles(lags, n=100)[n] for n in (49, 94, 98))
        print(f"{name:24}{p50:9.1f}{p95:9.1f}{p99:9.1f}{encoded:9}{len(lags):9}")
    ratio = statistics.quantiles(among[0], n=20)[18] / statistics.quantiles(alone[0], n=20)[18]
    print(f"p95 of the crowd to p95 alone: {ratio:.1f}")


def meet(
    spawn: multiprocessing.context.SpawnContext,
    server: Connection,
    port: int,
    room: str,
    langs: Sequence[str],
    processes: int,
    utterances: int,
) -> tuple[list[float], int]:
    """Return the lags of one meeting, and the number of frames that the gateway encoded for it."""
    pipes = []
    for n in range(processes):
        ours, theirs = spawn.Pipe()
        places = [Place(port, room, lang) for lang in langs[n::processes]]
        spawn.Process(target=read, args=(theirs, places), daemon=True).start()
        pipes.append(ours)
    for pipe in pipes:
        pipe.recv()
    time.sleep(SETTLE_S)
    server.send("count")
    server.recv()
    asyncio.run(speak(port, room, utterances))
    server.send("count")
    encoded = server.recv()
    lags: list[float] = []
    finals = 0
    for pipe in pipes:
        pipe.send("stop")
        some_lags, readers = pipe.recv()
        lags += some_lags
        finals += sum(counts["final"] for counts in readers)
    assert finals == len(langs) * utterances, f"{finals} finals for {len(langs)} readers"
    return lags, encoded


async def speak(port: int, room: str, utterances: int) -> None:
    """Say one line after the other, and wait until the last caption has had time to end."""
    async with connect(f"ws://127.0.0.1:{port}/v1/ws?room={room}&from=en") as socket:
        drain = asyncio.create_task(_drain(socket))
        for n in range(utterances):
            await socket.send(f"line {n}")
            await asyncio.sleep(WORDS * PACE * 1.1)
        await asyncio.sleep(SETTLE_S)
        drain.cancel()


async def _drain(socket: ClientConnection) -> None:
    async for _ in socket:
        pass


if __name__ == "__main__":
    main()
