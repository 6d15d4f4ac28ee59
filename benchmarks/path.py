"""The cost of a token between engine and socket: Python's own work alone.

    python -m benchmarks.path

Streams get a token each in turn, as from an engine that batches. Each row goes one layer further
than the one above; writing to a socket and waking up for it are left out. Two rows pull what the
others push: a task and `Engine.translate`. The last three are the costs of an utterance of any
length: saying it and giving it to the engine, its first token, its end. CPU time of the thread, the
least of several rounds, since other load on the machine can only add to it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing

from gateway.core.session.connect_request import ConnectRequest
from gateway.engines.base.engine import Engine, Health, PushEngine, Sink
from gateway.engines.profiles import Profile
from gateway.engines.wrappers.guarded import GuardedEngine
from gateway.engines.wrappers.piecewise import PiecewiseEngine
from gateway.engines.wrappers.supervised import Supervisor
from gateway.errors import EngineFault
from gateway.job import Chunk, Job
from gateway.limits import Limits
from gateway.server.runtime.hub import Hub, TextOptions

SOURCE = "We will look at the figures of the last quarter again when everybody is back next week."
WHOLE = "rooms, encoded"
"""The row that goes through all layers."""
WORDS = (
    "Wir sehen uns die Zahlen des letzten Quartals noch einmal an, sobald nächste Woche alle wieder"
    " zurück sind, und dann legen wir gemeinsam fest, wie es damit weitergehen soll."
).split(" ")
"""A translation that no guard rejects, one word for each token."""
CHUNKS = [Chunk(word if n == 0 else f" {word}", ids=(n,)) for n, word in enumerate(WORDS)]


class Drum(PushEngine):
    """An `Engine` that gives each of its jobs a token on demand."""

    name = "drum"
    capacity = 100_000

    def __init__(self, kind: str) -> None:
        self.health = Health.STARTING
        self.profile = Profile(name="drum", kind=kind, languages=("en", "de"))  # type: ignore[arg-type]
        self.sinks: dict[str, Sink] = {}

    @property
    def unfinished(self) -> int:
        return len(self.sinks)

    def stats(self) -> dict[str, float]:
        return {}

    async def start(self) -> None:
        self.health = Health.READY

    async def aclose(self) -> None:
        self.health = Health.CLOSED

    def submit(self, job: Job, sink: Sink) -> None:
        self.sinks[job.id] = sink

    def abort(self, job_id: str) -> None:
        self.sinks.pop(job_id, None)

    def beat(self, chunk: Chunk) -> None:
        for sink in self.sinks.values():
            sink.chunk(chunk)

    def finish(self) -> None:
        sinks, self.sinks = self.sinks, {}
        for sink in sinks.values():
            sink.end(None)


class Nowhere:
    """A sink that does nothing."""

    def chunk(self, chunk: Chunk) -> None:
        pass

    def end(self, fault: EngineFault | None) -> None:
        pass


def layers(drum: Drum) -> dict[str, Engine]:
    """Return the engine alone, and the engine in more and more of its wrappers."""
    supervised = Supervisor(lambda: drum)
    guarded = GuardedEngine(supervised, Counter())
    return {
        "a method call": drum,
        "supervisor": supervised,
        "guards": guarded,
        "pieces": PiecewiseEngine(guarded),
    }


async def drive(
    drum: Drum, submit: Callable[[int], None], streams: int, *, turns: int
) -> tuple[float, ...]:
    """Return the microseconds of a token of one utterance on every stream, without first and last.

    The other values are those of an utterance: its beginning, its first token, its end.

    :param turns: turns of the event loop after every token, for engines that are pulled
    """
    times = [time.thread_time()]
    for n in range(streams):
        submit(n)
    times.append(time.thread_time())
    for _ in range(turns):
        await asyncio.sleep(0)
    used = [0.0, 0.0]
    for number, chunk in enumerate(CHUNKS):
        begun = time.thread_time()
        drum.beat(chunk)
        for _ in range(turns):
            await asyncio.sleep(0)
        used[number > 0] += time.thread_time() - begun
    times.append(time.thread_time())
    drum.finish()
    times.append(time.thread_time())
    for _ in range(turns + 2):
        await asyncio.sleep(0)
    token = used[1] / (len(CHUNKS) - 1)
    return tuple(
        1e6 * spent / streams
        for spent in (token, times[1] - times[0], used[0], times[3] - times[2])
    )


async def run(streams: int, rounds: int) -> dict[str, float]:
    """Return the microseconds of a token, by layer."""
    drum = Drum("ids")
    engines = layers(drum)
    outermost = engines["pieces"]
    await engines["supervisor"].start()
    hub = Hub(
        outermost, Limits(rate=1e9, burst=10**9, inflight=10**9), text=TextOptions(coalesce_s=0)
    )
    sessions = [hub.open(ConnectRequest(source="en", targets=("de",))) for _ in range(streams)]
    written = [0]

    def write(wire: bytes) -> None:
        written[0] += 1

    for session in sessions:
        session.outbox.take()
        session.outbox.post = write
    count = 0

    def push(engine: Engine) -> Callable[[int], None]:
        def submit(n: int) -> None:
            engine.submit(Job(id=str(n), text=SOURCE, source="en", target="de"), Nowhere())

        return submit

    def say(n: int) -> None:
        nonlocal count
        count += 1
        frame = json.dumps({"type": "say", "id": str(count), "text": SOURCE})
        hub.receive(sessions[n], frame)

    tasks: set[asyncio.Task[None]] = set()

    def pull(engine: Engine) -> Callable[[int], None]:
        async def read(n: int) -> None:
            job = Job(id=str(n), text=SOURCE, source="en", target="de")
            async with aclosing(engine.translate(job)) as chunks:
                async for _ in chunks:
                    pass

        def submit(n: int) -> None:
            task = asyncio.create_task(read(n))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        return submit

    rows = {name: (push(engine), 0) for name, engine in engines.items()}
    rows[WHOLE] = (say, 0)
    rows["pulled: the engine"] = (pull(drum), 1)
    rows["pulled: pieces"] = (pull(outermost), 1)
    least: dict[str, tuple[float, ...]] = {name: (float("inf"),) * 4 for name in rows}
    for _ in range(rounds):
        for name, (submit, turns) in rows.items():
            found = await drive(drum, submit, streams, turns=turns)
            least[name] = tuple(map(min, least[name], found))
    if not written[0]:
        raise RuntimeError("Nothing was written.")
    names = ("an utterance: said", "its first token", "its end")
    return {name: costs[0] for name, costs in least.items()} | dict(
        zip(names, least[WHOLE][1:], strict=True)
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.path", description=__doc__)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", metavar="FILE", help="write the numbers there too")
    options = parser.parse_args()
    gc.freeze()
    result = asyncio.run(run(options.streams, options.rounds))
    print(f"{options.streams} streams, the least of {options.rounds} rounds, us a token:")
    for name, cost in result.items():
        print(f"  {name:<20} {cost:6.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"streams": options.streams, "us": result}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
