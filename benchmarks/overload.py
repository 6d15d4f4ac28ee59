"""Captions under more load than the engine can translate.

    python -m benchmarks.overload [--engine scripted|embedded] [--seconds 30] [--loads 0.5 1 3]

Each room has one speaker, who reads two languages and says a sentence every few seconds in growing
pieces, as a recogniser sends them. They do not wait for captions (an open loop) and repeat nothing:
refused sentences are lost and counted. A load of 1 is as many rooms as keep the engine busy with
their finals alone. Times are from the end of a sentence to its final, of all accepted sentences.

A room counts as served if 90 % of its sentences were accepted, and as partly served from 10 % on.

Owns: the rooms, the statistics. Must not know: how the gateway decides. The hub runs in this
process without sockets, which are not what is measured here.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator

import msgspec

from benchmarks.embedded import CAPTIONS
from gateway.core.session.connect_request import ConnectRequest
from gateway.core.session.session import Session
from gateway.engines.base.engine import Engine
from gateway.engines.registry import build
from gateway.job import Job
from gateway.limits import Limits
from gateway.protocol.messages import Ack, Cancelled, Failed, Final, ServerMessage
from gateway.protocol.notices import Error
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost, TextOptions
from gateway.settings.catalogue import Settings

LANGS = ("de", "fr")
EVERY_S = 4.0
"""Mean seconds between the beginnings of two sentences of a room, spread evenly up to twice."""
STEP_S = 0.3
"""Seconds between two revisions of a sentence, of two words each."""
RAMP_S, WARM_S = 10.0, 20.0
"""Seconds in which the rooms begin, one after the other, and seconds that are not counted, since
sentences that were accepted before the overload showed are still finished.
"""
SLOTS = 16
SENTENCES = (
    *CAPTIONS,
    *("Good morning everybody.", "Thank you.", "Can you hear me now?", "Yes, that is right."),
    " ".join(CAPTIONS[:2]),
)

_decode = msgspec.json.Decoder(ServerMessage).decode


class Speaker:
    """The speaker of one room, and the results of its sentences."""

    def __init__(self, hub: Hub, name: str, chance: random.Random) -> None:
        self.hub = hub
        self.chance = chance
        self.session: Session = hub.open(ConnectRequest(room=name, source="en", targets=LANGS))
        self.session.outbox.wake = self.listen
        self.said: dict[str, tuple[float, bool]] = {}  # when, and whether it was accepted
        self.ends: Counter[tuple[str, str]] = Counter()
        self.ended: dict[str, float] = {}  # when a sentence was said to its end
        self.took: list[tuple[float, float]] = []  # (said at, seconds to a final)
        self.failed: Counter[str] = Counter()
        self.open: set[str] = set()
        self.late = 0  # refused, though the beginning was accepted
        self.listen()

    async def talk(self, first: float, seconds: float) -> None:
        """Say sentences for some time, the first one after ``first`` seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        begin = loop.time() + first
        async with asyncio.TaskGroup() as group:
            while begin < until:
                await asyncio.sleep(begin - loop.time())
                group.create_task(self.sentence(self.chance.choice(SENTENCES).split()))
                begin += 2 * EVERY_S * self.chance.random()

    async def sentence(self, words: list[str]) -> None:
        """Say one sentence in growing pieces, unless its first words are refused."""
        id = f"u{len(self.said) + 1}"
        self.said[id] = (time.monotonic(), False)
        for end in range(2, len(words), 2):
            self.say(id, words[:end], final=False)
            if id not in self.open:
                return
            await asyncio.sleep(STEP_S)
        self.ended[id] = time.monotonic()
        self.say(id, words, final=True)

    def say(self, id: str, words: list[str], *, final: bool) -> None:
        frame = {"type": "say", "id": id, "text": " ".join(words), "final": final}
        self.hub.receive(self.session, json.dumps(frame))

    def listen(self) -> None:
        for frame in self.session.outbox.take():
            event = _decode(frame)
            match event:
                case Ack(id=id):
                    self.said[id] = (self.said[id][0], True)
                    self.open.add(id)
                case Error(code="busy", id=str() as id):
                    self.late += id in self.open
                case Final(id=id, lang=lang):
                    root = id.partition(".")[0]
                    self.ends[id, lang] += 1
                    if id == root and root in self.ended:
                        said = self.ended[root]
                        self.took.append((said, time.monotonic() - said))
                case Failed(id=id, lang=lang, code=code):
                    self.ends[id, lang] += 1
                    self.failed[code] += 1
                case Cancelled():
                    self.failed["cancelled"] += 1
                case Error(code=code):
                    self.failed[f"error {code}"] += 1


class Figures(msgspec.Struct):
    """The results of one load."""

    load: str
    rooms: int
    said: int
    refused: int
    late: int
    p50: float
    p95: float
    most: float
    warming: float
    served: int
    some: int
    missing: int
    doubled: int
    failed: dict[str, int]
    deepest: int
    partials_off: float


@contextlib.asynccontextmanager
async def gateway(kind: str) -> AsyncIterator[Hub]:
    """Return a gateway without sockets, with guards and supervisor as `gateway serve` has them."""
    if kind == "scripted":
        settings = Settings(
            engine="scripted", scripted_delay=0.2, scripted_pace=0.05, max_num_seqs=SLOTS
        )
    else:
        settings = Settings()
    engine = build(settings)
    await engine.start()
    hub = Hub(RoomHost(engine, Limits(rate=1000, burst=1000), text=TextOptions(lang="en")))
    keeper = asyncio.create_task(hub.keep())
    gc.collect()
    gc.freeze()
    try:
        yield hub
    finally:
        await hub.drain(0)
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await engine.aclose()


async def bearable(engine: Engine, seconds: float) -> float:
    """Return the finals a second of the engine when it is kept busy."""
    made = 0
    until = time.monotonic() + seconds

    async def work(slot: int) -> None:
        nonlocal made
        n = 0
        while time.monotonic() < until:
            n += 1
            text, lang = SENTENCES[(slot + n) % len(SENTENCES)], LANGS[(slot + n) % 2]
            job = Job(id=f"{slot}.{n}", text=text, source="en", target=lang)
            async for _ in engine.translate(job):
                pass
            made += time.monotonic() < until

    await asyncio.gather(*(work(slot) for slot in range(engine.capacity)))
    return made / seconds


async def measure(kind: str, rooms: int, seconds: float, label: str, seed: int = 1) -> Figures:
    """Measure a gateway under the load of some rooms."""
    async with gateway(kind) as hub:
        chance = random.Random(seed)
        speakers = [Speaker(hub, f"r{n}", random.Random(chance.random())) for n in range(rooms)]
        deepest, off = 0, 0.0
        begun = time.monotonic()

        async def watch() -> None:
            nonlocal deepest, off
            while True:
                await asyncio.sleep(0.05)
                deepest = max(deepest, hub.scheduler.finals)
                off += 0.05 * (hub.host.degraded.partials == "off")

        watching = asyncio.create_task(watch())
        await asyncio.gather(
            *(
                speaker.talk(RAMP_S * n / rooms, WARM_S + seconds)
                for n, speaker in enumerate(speakers)
            )
        )
        spent = time.monotonic() - begun
        watching.cancel()
        while any(speaker.session.member.in_flight for speaker in speakers):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        counted = begun + WARM_S
        took = sorted(t for s in speakers for said, t in s.took if said >= counted)
        failed: Counter[str] = sum((s.failed for s in speakers), Counter())
        wanted = [(s, (id, lang)) for s in speakers for id in s.open for lang in LANGS]
        taken = [[ok for when, ok in s.said.values() if when >= counted] for s in speakers]
        share = [sum(each) / len(each) for each in taken if each]
        return Figures(
            load=label,
            rooms=rooms,
            said=sum(map(len, taken)),
            refused=sum(each.count(False) for each in taken),
            late=sum(s.late for s in speakers),
            p50=statistics.median(took),
            p95=took[int(0.95 * len(took))],
            most=took[-1],
            warming=max((t for s in speakers for said, t in s.took if said < counted), default=0),
            served=sum(one >= 0.9 for one in share),
            some=sum(0.1 < one < 0.9 for one in share),
            missing=sum(s.ends[key] == 0 for s, key in wanted),
            doubled=sum(n > 1 for s in speakers for n in s.ends.values()),
            failed=dict(failed),
            deepest=deepest,
            partials_off=off / spent,
        )


async def run(kind: str, loads: list[float], seconds: float) -> list[Figures]:
    """Run all loads, one after the other."""
    async with gateway(kind) as hub:
        rate = await bearable(hub.engine, min(seconds, 10.0))
    room = len(LANGS) / EVERY_S
    fits = rate / room
    print(
        f"{kind}: {rate:.1f} finals/s at most, which is {fits:.1f} rooms at {room:g} finals/s each"
    )
    # Two, so that there is more than a handful to count: they seldom speak at once.
    found = [await measure(kind, 2, max(seconds, 30.0), "unloaded")]
    show(found[0], found[0])
    for load in loads:
        found.append(await measure(kind, max(1, round(load * fits)), seconds, f"{load:g}x"))
        show(found[-1], found[0])
    return found


def show(figures: Figures, unloaded: Figures) -> None:
    f = figures
    print(
        f"  {f.load:>8}: {f.rooms:4} rooms, of which served {f.served}, in part {f.some};"
        f" {f.said} sentences, refused {f.refused}, refused in the middle {f.late}\n"
        f"            final p50 {f.p50:.2f} s, p95 {f.p95:.2f} s = {f.p95 / unloaded.p95:.2f}x,"
        f" max {f.most:.2f} s (before that {f.warming:.2f} s); finals waiting, at most {f.deepest};"
        f" partials off {f.partials_off:.0%} of the time\n"
        f"            accepted and without an end {f.missing}, with two {f.doubled};"
        f" failed {f.failed}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overload", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--engine", choices=("scripted", "embedded"), default="scripted")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--loads", type=float, nargs="+", default=[0.5, 1.0, 3.0])
    parser.add_argument("--json", metavar="FILE", help="write all numbers there too")
    options = parser.parse_args()
    found = asyncio.run(run(options.engine, options.loads, options.seconds))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(msgspec.to_builtins(found), file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
