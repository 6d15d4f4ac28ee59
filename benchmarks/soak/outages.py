"""A soak of several gateways whose Redis is reset, refused, delayed and emptied.

    python -m benchmarks.soak.outages --runs 20 --seed 1

Owns: the runs, their faults and their table. Must not know: the gateway from the inside.

Each run has a Redis of its own that keeps nothing over a restart, three gateways that reach it
through a `benchmarks.soak.proxy.Proxy` each, and rooms with replicas in two of them. Speakers and
readers come back to any of the two; two readers of each room stay with theirs. Owners of rooms are
killed in every run. Every reader has a ledger. At the end all gateways must be ready and serve each
other's rooms, and at no time may a key of Redis be without an end.

A gateway is not killed while Redis has just lost its data: then events may be in the memory of the
killed process only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from random import Random

from benchmarks import command
from benchmarks.redis_server import RedisServer
from benchmarks.soak.child import Child
from benchmarks.soak.ledger import Faults, Reader, Room, conclude, unended
from benchmarks.soak.outage_rows import COLUMNS, KINDS, Row, line
from benchmarks.soak.proxy import NONE, End, Proxy, Wire
from benchmarks.soak.proxy import Faults as Network
from benchmarks.soak.report import first_traceback
from benchmarks.soak.user import Tally, VirtualUser
from gateway.cli.flags import count, positive

GATEWAYS = 3
LANGS = ("de", "fr")
PAUSE_S = 0.7
"""Mean seconds between two faults."""
APART_S = 3.0
"""Seconds between a loss of data and a kill. All gateways have every event again after that."""
CUT_OFF_S = 6.0
"""Seconds of a long refusal, in the last half of which a gateway must know that it is cut off."""
QUIET_S = 30.0
"""Seconds, at the end, in which all users must get everything and all gateways must be ready."""
SAMPLE_S = 0.5


class Place:
    """A room with replicas in two gateways; ``absent`` is the third one."""

    def __init__(self, name: str, absent: int, faults: Faults) -> None:
        self.room = Room(name, faults)
        self.absent = absent
        self.readers: list[Reader] = []
        self.users: dict[VirtualUser, asyncio.Task[None]] = {}


class Outages:
    """One run. ``folder`` holds the logs of the gateways."""

    def __init__(self, run: int, seed: int, seconds: float, rooms: int, folder: Path) -> None:
        self.run_number = run
        self.seed = seed
        self.seconds = seconds
        self.kind = KINDS[run % len(KINDS)]
        self.tally = Tally()
        self.faults = Faults()
        self.done: Counter[str] = Counter()
        self.kills = self.not_ready = 0
        self.endless: set[str] = set()
        self._chance = Random(seed)
        self._folder = folder
        self._redis = RedisServer(folder)
        self._proxies: list[Proxy] = []
        self._gateways: list[Child] = []
        self._places = [Place(f"r{n}", n % GATEWAYS, self.faults) for n in range(rooms)]
        self._over = asyncio.Event()
        self._lost_data = False  # since the last kill
        self._names = 0

    async def play(self) -> Row:
        """Run everything. Raises `ChildProcessError` if a gateway does not start."""
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._fleet())
            for place in self._places:
                self._open(place)
            speaking = [asyncio.create_task(self._speak(place)) for place in self._places]
            watching = asyncio.create_task(self._watch())
            try:
                await self._all_heard()
                await self._harm()
                self._over.set()
                await asyncio.gather(*speaking)
                await self._calm()
                await self._probe()
                await self._end()
            finally:
                self._over.set()
                for task in (*speaking, watching):
                    task.cancel()
                await asyncio.gather(*speaking, watching, return_exceptions=True)
            await self._look_for_endless_keys()
        return self._row()

    @contextlib.asynccontextmanager
    async def _fleet(self) -> AsyncIterator[None]:
        """Run Redis, the proxies and the gateways."""
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._redis.kill)
            await asyncio.to_thread(self._redis.start)
            for n in range(GATEWAYS):
                proxy = Proxy("127.0.0.1", self._redis.port, seed=self.seed + n)
                self._proxies.append(await stack.enter_async_context(proxy))
                flags = (
                    *("--engine", "scripted", "--scripted-pace", "0.01"),
                    *("--redis", f"redis://127.0.0.1:{proxy.port}/0"),
                    *("--log-level", "warning", "--drain-s", "2"),
                )
                gateway = Child(flags, self._folder / f"gateway-{n}.log")
                stack.push_async_callback(_stop, gateway)
                self._gateways.append(gateway)
            await asyncio.gather(*(gateway.start() for gateway in self._gateways))
            yield

    # --- people ---------------------------------------------------------------------------------

    def _open(self, place: Place) -> None:
        """Let readers and a speaker into a room."""
        homes = [n for n in range(GATEWAYS) if n != place.absent]
        for home in homes:
            self._come(place, [home], LANGS)
        for lang in LANGS:
            self._come(place, homes, (lang,))
        self._come(place, homes, LANGS[:1], role="speak")

    def _come(
        self, place: Place, homes: Sequence[int], langs: tuple[str, ...], *, role: str = "view"
    ) -> VirtualUser:
        self._names += 1
        reader = Reader(f"user{self._names}", place.room, langs, self.faults)
        place.readers.append(reader)
        user = VirtualUser(
            reader,
            place.room.name,
            langs,
            self.tally,
            Random(f"{self.seed}/{self._names}"),
            [f"ws://127.0.0.1:{self._gateways[home].port}" for home in homes],
            role=role,
        )
        place.users[user] = asyncio.create_task(user.stay())
        return user

    async def _all_heard(self) -> None:
        """Wait until everybody has heard something: faults before that would show little."""
        users = [user for place in self._places for user in place.users if not user.leaving]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(QUIET_S):
                for user in users:
                    while not (user.reader.cursor or ("", 0))[1]:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)

    async def _speak(self, place: Place) -> None:
        """Say one growing utterance after the other until the end."""
        chance = Random(f"{self.seed}/{place.room.name}")
        user, number = list(place.users)[-1], 0
        while not self._over.is_set():
            if user.connected and user.unheard < 4:
                number += 1
                for rev in (1, 2):
                    text = " ".join(["word"] * (4 * rev)) + f" {number}"
                    await user.say(f"{place.room.name}-{number}", rev, text, final=rev == 2)
                    await asyncio.sleep(chance.uniform(0.05, 0.3))
            await asyncio.sleep(chance.uniform(0.05, 0.5))

    # --- faults ---------------------------------------------------------------------------------

    async def _harm(self) -> None:
        """Cause one fault after the other, and kill an owner during or after every third."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.seconds
        while loop.time() < end or not self.kills:
            await asyncio.sleep(self._chance.expovariate(1 / PAUSE_S))
            kind = self._chance.choice(KINDS[:-1]) if self.kind == "mixed" else self.kind
            self.done[kind] += 1
            fault = self._fault(kind)
            if self.done.total() % 3:
                await fault
            elif kind in ("flushes", "restarts") or self._lost_data:
                await fault
                await asyncio.sleep(APART_S)
                await self._kill()
                self._lost_data = False
            else:
                await asyncio.gather(fault, self._kill())

    def _fault(self, kind: str) -> Coroutine[None, None, None]:
        faults = {
            "resets": self._reset,
            "refusals": self._refuse,
            "half-closes": self._half_close,
            "delays": self._delay,
            "flushes": self._flush,
            "restarts": self._restart,
        }
        return faults[kind]()

    def _some_wires(self) -> list[Wire]:
        """Return all connections of some gateways, or single ones."""
        proxies = self._chance.sample(self._proxies, self._chance.randint(1, GATEWAYS))
        wires = [wire for proxy in proxies for wire in proxy.wires.values()]
        alone = self._chance.random() < 0.5
        return self._chance.sample(wires, min(len(wires), 2)) if alone else wires

    async def _reset(self) -> None:
        for wire in self._some_wires():
            wire.cut()

    async def _refuse(self) -> None:
        """Cut one gateway or all off; a longer time shows whether it knows."""
        proxies = self._chance.sample(self._proxies, self._chance.choice((1, GATEWAYS)))
        long = self._chance.random() < 0.25
        for proxy in proxies:
            proxy.refuse = True
            proxy.cut()
        await asyncio.sleep(CUT_OFF_S / 2 if long else self._chance.uniform(0.1, 2.5))
        if long:
            for proxy in proxies:
                gateway = self._gateways[self._proxies.index(proxy)]
                if gateway.up and await gateway.gauge("gateway_fleet_connected"):
                    self.tally.unexpected["cut off, and does not know"] += 1
            await asyncio.sleep(CUT_OFF_S / 2)
        for proxy in proxies:
            proxy.refuse = False

    async def _half_close(self) -> None:
        """Cut connections so that one end does not learn of it, or by FIN."""
        for wire in self._some_wires():
            end = self._chance.choice(list(End))
            wire.cut(reset=self._chance.random() < 0.5, end=end)

    async def _delay(self) -> None:
        """Make connections slow for a while, or let nothing pass."""
        wires = self._some_wires()
        stalled = self._chance.random() < 0.3
        for wire in wires:
            if stalled:
                wire.stall()
            else:
                wire.up.faults = wire.down.faults = Network(delay=self._chance.uniform(0.02, 0.3))
        await asyncio.sleep(self._chance.uniform(0.5, 3.0))
        for wire in wires:
            wire.up.faults = wire.down.faults = NONE
            wire.flow()

    async def _flush(self) -> None:
        """Delete all data of Redis while a reader joins a room at the gateway that has it not."""
        self._lost_data = True
        await asyncio.gather(self._join(), asyncio.to_thread(self._redis.cli, "FLUSHALL"))

    async def _restart(self) -> None:
        """Restart Redis, which has lost its data, while a reader joins."""
        self._lost_data = True
        await asyncio.gather(self._join(), self._redis.restart())

    async def _join(self) -> None:
        """Let a reader join at the gateway without a replica of its room, and leave later."""
        place = self._places[self.done.total() % len(self._places)]
        await asyncio.sleep(self._chance.uniform(0.0, 0.3))
        user = self._come(place, [place.absent], LANGS)
        await asyncio.sleep(1.0)
        if self._chance.random() < 0.5:
            await user.leave()

    async def _kill(self) -> None:
        """Kill the gateway that owns most rooms, and start it again."""
        up = [gateway for gateway in self._gateways if gateway.up]
        owned = [await gateway.gauge("gateway_fleet_rooms_owned") for gateway in up]
        gateway = up[owned.index(max(owned))]
        await gateway.kill()
        self.kills += 1
        await asyncio.sleep(self._chance.uniform(0.0, 2.0))
        try:
            await gateway.start()
        except ChildProcessError:
            self.tally.unexpected["a gateway that was started did not become ready"] += 1
            await gateway.start()

    async def _watch(self) -> None:
        """Count the samples in which a gateway is not ready, and look for keys without an end."""
        while True:
            await asyncio.sleep(SAMPLE_S)
            for gateway in self._gateways:
                if gateway.up and not await gateway.ready():
                    self.not_ready += gateway.up
            await self._look_for_endless_keys()

    async def _look_for_endless_keys(self) -> None:
        script = (
            "local found = {} for _, key in ipairs(redis.call('KEYS', '*')) do "
            "if redis.call('PTTL', key) == -1 then found[#found + 1] = key end end return found"
        )
        found = await asyncio.to_thread(self._redis.cli, "EVAL", script, "0")
        self.endless |= {key for key in found.split("\n") if key.startswith("captions:")}

    # --- the end --------------------------------------------------------------------------------

    async def _calm(self) -> None:
        """End all faults, and wait until all users have got everything and all gateways work."""
        for proxy in self._proxies:
            proxy.refuse = False
            for wire in proxy.wires.values():
                wire.flow()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + QUIET_S
        while True:
            users = [user for place in self._places for user in place.users if not user.leaving]
            waiting = {
                "users who are outside": sum(not user.connected for user in users),
                "speakers who hear nothing": sum(bool(user.unheard) for user in users),
                "readers who are behind": sum(bool(user.reader.behind) for user in users),
                "captions under way": sum(
                    len(unended(LANGS[:1], place.readers[0])) for place in self._places
                ),
                "gateways that are not ready": sum(
                    [not await gateway.ready() for gateway in self._gateways]
                ),
            }
            if not any(waiting.values()):
                return
            if loop.time() > deadline:
                self.tally.unexpected.update({what: n for what, n in waiting.items() if n})
                return
            await asyncio.sleep(0.1)

    async def _probe(self) -> None:
        """Say something in a new room through each gateway, and hear it through the next one."""
        for n in range(GATEWAYS):
            place = Place(f"probe{n}", n, self.faults)
            self._places.append(place)
            self._come(place, [(n + 1) % GATEWAYS], LANGS)
            speaker = self._come(place, [n], LANGS[:1], role="speak")
            await speaker.say(f"probe{n}-1", 1, "good morning", final=True)
        await self._all_heard()
        await self._calm()

    async def _end(self) -> None:
        """Let all users leave, and count the events that each lacks."""
        users = {user: task for place in self._places for user, task in place.users.items()}
        for user in users:
            if user.connected:
                user.reader.catch_up()
        await asyncio.gather(*(user.leave() for user in users))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(QUIET_S):
                await asyncio.gather(*users.values())
        for place in self._places:
            conclude(LANGS[:1], place.readers[0], place.readers)

    def _row(self) -> Row:
        faults, tally = self.faults, self.tally
        for n, gateway in enumerate(self._gateways):
            if "Traceback" in gateway.text:
                tally.unexpected[f"tracebacks of gateway {n}"] = gateway.text.count("Traceback")
                faults.examples.append(first_traceback(gateway.text))
        return Row(
            run=self.run_number,
            seed=self.seed,
            kind=self.kind,
            faults=dict(self.done),
            kills=self.kills,
            said=tally.said,
            events=tally.events,
            resumed=tally.resumed,
            not_ready=self.not_ready,
            lost=faults.lost,
            twice=faults.duplicated,
            differ=faults.contradicted,
            ended_twice=faults.ended_twice,
            unended=faults.unended,
            anew=sum(max(0, place.room.histories - 1) for place in self._places),
            endless=len(self.endless),
            unexpected=dict(tally.unexpected),
            examples=[*faults.examples, *sorted(self.endless)[:5]],
        )


async def _stop(gateway: Child) -> None:
    if gateway.up:
        await gateway.stop()


# --- the command ------------------------------------------------------------------------------


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--runs", type=count, default=20, metavar="N", help="default: 20")
    parser.add_argument("--first", type=int, default=0, metavar="N",
                        help="number of the first, which decides its kind; default: 0")  # fmt: skip
    parser.add_argument("--seconds", type=positive, default=20.0, help="of a run; default: 20")
    parser.add_argument("--rooms", type=count, default=4, metavar="N", help="default: 4")
    parser.add_argument("--seed", type=int, default=1, help="of chance; default: 1")
    parser.add_argument(
        "--keep", metavar="FOLDER", help="for the logs of runs that broke a promise"
    )


def run(args: argparse.Namespace, out: command.Line, tell: command.Line) -> int:
    """Play all runs, and print a line for each. Return 1 if one has broken a promise."""
    logging.basicConfig(level=logging.ERROR)
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    broken = 0
    out(line(COLUMNS))
    for number in range(args.first, args.first + args.runs):
        with tempfile.TemporaryDirectory(prefix="gateway-outages-") as folder:
            play = Outages(number, args.seed + number, args.seconds, args.rooms, Path(folder))
            row = asyncio.run(play.play())
            out(line([getattr(row, column) for column in COLUMNS]))
            tell(f"    {row.faults}")
            if not row.clean:
                broken += 1
                out(f"    BROKEN: {row.unexpected}")
                for example in row.examples:
                    out(f"    {example}")
                if args.keep:
                    for log in Path(folder).glob("*.log"):
                        kept = Path(args.keep) / f"run{number}-{log.name}"
                        kept.parent.mkdir(parents=True, exist_ok=True)
                        kept.write_bytes(log.read_bytes())
    out(f"{args.runs - broken} of {args.runs} runs held every promise.")
    return 1 if broken else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    text = "Break the Redis of several gateways in every way, and count what readers lack."
    return command.main("benchmarks.soak.outages", text, add, run, argv)


if __name__ == "__main__":
    sys.exit(main())
