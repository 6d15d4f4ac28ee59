"""A soak: many users in many rooms, a bad network, gateways that are killed, and the losses.

Owns: the users and what they say, the faults and their times, the samples of memory. Must not know:
the gateway from the inside. It runs one or several as processes on one port and speaks to them as
any client does.

All users but one witness in each room connect through a `benchmarks.soak.proxy.Proxy`. Random
numbers have a seed; the clock and two event loops have none, so a run cannot be repeated exactly.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from benchmarks.ports import free_port
from benchmarks.soak.child import Child
from benchmarks.soak.ledger import Faults, Reader, Room, conclude, unended
from benchmarks.soak.proxy import End, Proxy, Wire
from benchmarks.soak.proxy import Faults as Network
from benchmarks.soak.report import Quantiles, Report, first_traceback, growth, warm
from benchmarks.soak.user import Tally, VirtualUser

LANGS = ("de", "fr", "es")
UTTERANCE_S = 5.0
"""Seconds between two utterances of a room: twelve words at 150 a minute."""
WORDS = (8, 14)
REVISIONS = 3
VOCABULARY = (
    "we the meeting again minutes open budget next week because nobody had asked whether that "
    "could be done before lunch and so it was put off until somebody finds the paper which says"
).split()
QUIET_S = 30.0
"""Seconds, at the end, in which all users must get everything."""
SAMPLE_S = 1.0
UNHEARD = 8
"""Utterances without a caption beyond which a speaker pauses."""
SLOW_S = (2.0, 8.0)
"""Seconds during which a slow reader reads nothing."""


@dataclass(frozen=True)
class Plan:
    """The parameters of a soak.

    :param seconds: how long users speak
    :param sessions: readers and speakers together
    :param rooms: each has one speaker and one witness
    :param speed: simulated seconds a second: how fast users speak
    :param cut: mean seconds between two faults of one user's network; 0: none
    :param stay: mean seconds until a reader leaves and another comes; 0: they stay
    :param kill: seconds between two ends of the gateway, in turn by SIGKILL and SIGTERM; 0: none.
        Of several gateways, one is ended each time
    :param faults: share of translations that fail
    :param gateways: more than one need ``redis``; the kernel spreads the sockets over them
    :param redis: URL of a Redis that keeps the rooms; None: the store of the one gateway does
    :param flags: more flags of ``gateway serve``
    """

    seconds: float = 60.0
    sessions: int = 200
    rooms: int = 8
    speed: float = 1.0
    cut: float = 20.0
    stay: float = 60.0
    kill: float = 20.0
    faults: float = 0.01
    seed: int = 0
    gateways: int = 1
    redis: str | None = None
    flags: tuple[str, ...] = ()


@dataclass
class Place:
    """One room of the soak."""

    room: Room
    readers: list[Reader] = field(default_factory=list)
    here: dict[VirtualUser, asyncio.Task[None]] = field(default_factory=dict)


class Soak:
    """One run. ``folder`` holds the store and the log of the gateways."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.tally = Tally()
        self.faults = Faults()
        self.network: Counter[str] = Counter()
        self.kills = self.restarts = 0
        self._chance = Random(plan.seed)
        self._folder = folder
        kept: tuple[str, ...] = ("--store", f"sqlite:{folder / 'rooms.db'}")
        if plan.redis is not None:
            kept = ("--redis", plan.redis, "--reuse-port")
        flags = (
            *("--engine", "scripted", "--scripted-pace", "0.01", "--max-num-seqs", "64"),
            *("--scripted-faults", str(plan.faults), "--log-level", "warning"),
            *kept,
            *("--drain-s", "5"),
            *plan.flags,
        )
        self._port = free_port()
        self._children = [
            Child(flags, folder / "gateway.log", port=self._port) for _ in range(plan.gateways)
        ]
        self._places = [Place(Room(f"soak{n}", self.faults)) for n in range(plan.rooms)]
        self._memory: list[list[tuple[float, float]]] = []
        self._count = 0
        self._status: int | None = None
        self._both_ended = asyncio.Event()  # a gateway was killed, and one was restarted
        self._over = asyncio.Event()

    async def run(self) -> Report:
        """Run everything. Raises `ChildProcessError` if the gateway does not start."""
        loop = asyncio.get_running_loop()
        self._memory.append([])
        try:
            for child in self._children:
                await child.start()
            async with Proxy("127.0.0.1", self._port, seed=self.plan.seed) as proxy:
                begun = loop.time()
                tasks = [
                    asyncio.create_task(self._last()),
                    asyncio.create_task(self._sample()),
                    *(asyncio.create_task(self._life(place, proxy)) for place in self._places),
                ]
                if self.plan.cut:
                    tasks.append(asyncio.create_task(self._harm(proxy)))
                if self.plan.kill:
                    tasks.append(asyncio.create_task(self._kill()))
                try:
                    await asyncio.gather(*tasks)
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
                seconds = loop.time() - begun
                await self._calm(proxy)
                await self._end()
        finally:
            ends = await asyncio.gather(*(child.stop() for child in self._children if child.up))
            self._status = max(ends, key=abs, default=None)
        return self._report(seconds)

    async def _last(self) -> None:
        """End the meeting after its time.

        A plan that has time for both kinds of ends of a gateway goes on until both have come, since
        a busy machine starts a gateway slowly.
        """
        await asyncio.sleep(self.plan.seconds)
        if 0 < 2 * self.plan.kill <= self.plan.seconds:
            await self._both_ended.wait()
        self._over.set()

    # --- people ---------------------------------------------------------------------------------

    async def _life(self, place: Place, proxy: Proxy) -> None:
        """Run one room: its witness, its speaker, and readers who come and go."""
        plan = self.plan
        self._come(place, LANGS, self._direct)
        speaker = self._come(place, LANGS[:1], _address(proxy), role="speak")
        readers = max(0, plan.sessions // plan.rooms - 2)
        for _ in range(readers):
            self._come(place, self._langs(), _address(proxy), view=self._view())
        speaking = asyncio.create_task(self._speak(speaker, place.room.name))
        try:
            while plan.stay and readers:
                if await self._pause(self._chance.expovariate(readers / plan.stay)):
                    break
                leaving = self._chance.choice(list(place.here)[2:])
                await leaving.leave()
                await asyncio.wait([place.here.pop(leaving)])
                self._come(place, self._langs(), _address(proxy), view=self._view())
            await speaking
        finally:
            speaking.cancel()

    @property
    def _made(self) -> tuple[str, ...]:
        """Return the languages in which everything is translated.

        After a restart these are the speaker's own alone, until other users have come back.
        """
        return LANGS[:1] if self.plan.kill else LANGS

    @property
    def _direct(self) -> str:
        return f"ws://127.0.0.1:{self._port}"

    def _come(
        self,
        place: Place,
        langs: tuple[str, ...],
        address: str,
        *,
        role: str = "view",
        view: str = "live",
    ) -> VirtualUser:
        self._count += 1
        reader = Reader(f"user{self._count}", place.room, langs, self.faults)
        place.readers.append(reader)
        user = VirtualUser(
            reader,
            place.room.name,
            langs,
            self.tally,
            Random(f"{self.plan.seed}/{self._count}"),
            [address],
            role=role,
            view=view,
        )
        place.here[user] = asyncio.create_task(user.stay())
        return user

    def _langs(self) -> tuple[str, ...]:
        return tuple(self._chance.sample(LANGS, self._chance.randint(1, 2)))

    def _view(self) -> str:
        return self._chance.choice(("live", "live", "stable", "final"))

    async def _speak(self, user: VirtualUser, room: str) -> None:
        """Say one growing utterance after the other until the end."""
        chance = Random(f"{self.plan.seed}/{room}")
        pause = UTTERANCE_S / self.plan.speed / REVISIONS
        number = 0
        while not self._over.is_set():
            if user.unheard >= UNHEARD or not user.connected:
                await self._pause(pause)
                continue
            number += 1
            words = chance.choices(VOCABULARY, k=chance.randint(*WORDS))
            for rev in range(1, REVISIONS + 1):
                text = " ".join(words[: max(1, len(words) * rev // REVISIONS)])
                await user.say(f"{room}-{number}", rev, text, final=rev == REVISIONS)
                await asyncio.sleep(pause * chance.uniform(0.5, 1.5))

    # --- faults ---------------------------------------------------------------------------------

    async def _harm(self, proxy: Proxy) -> None:
        """Inject network faults for random users, again and again."""
        kinds = (self._reset, self._finish, self._lift, self._inside, self._slow, self._crumble)
        while not await self._pause(self._chance.expovariate(self.plan.sessions / self.plan.cut)):
            wires = list(proxy.wires.values())
            if wires:
                kind = self._chance.choice(kinds)
                kind(self._chance.choice(wires))
                self.network[kind.__name__.removeprefix("_")] += 1

    def _reset(self, wire: Wire) -> None:
        wire.cut()

    def _finish(self, wire: Wire) -> None:
        wire.cut(reset=False)

    def _lift(self, wire: Wire) -> None:
        """Cut a connection so that only the client learns of it."""
        wire.cut(end=End.CLIENT)

    def _inside(self, wire: Wire) -> None:
        """Cut a connection soon, probably in the middle of a frame."""
        wire.down.faults = Network(cut_at=wire.down.passed + self._chance.randint(1, 2_000))

    def _slow(self, wire: Wire) -> None:
        wire.down.stall()
        wait = self._chance.uniform(*SLOW_S)
        asyncio.get_running_loop().call_later(wait, wire.down.flow)

    def _crumble(self, wire: Wire) -> None:
        wire.up.faults = wire.down.faults = Network(split=7)

    async def _kill(self) -> None:
        """End a gateway, in turn as a power cut and as a deployment would, and start it again."""
        while not await self._pause(self.plan.kill):
            self._memory.append([])
            sign = (signal.SIGKILL, signal.SIGTERM)[(self.kills + self.restarts) % 2]
            child = self._chance.choice(self._children)
            if sign is signal.SIGKILL:
                self.kills += 1
                await child.kill()
            else:
                self.restarts += 1
                status = await child.stop()
                if status != 0:
                    self.tally.unexpected[f"status {status} after SIGTERM"] += 1
            await child.start()
            if self.kills and self.restarts:
                self._both_ended.set()

    async def _sample(self) -> None:
        loop = asyncio.get_running_loop()
        while not await self._pause(SAMPLE_S):
            each = [child.rss() if child.up else 0.0 for child in self._children]
            if all(each):
                self._memory[-1].append((loop.time(), sum(each)))

    async def _pause(self, seconds: float) -> bool:
        """Wait, but not beyond the end of the meeting. Return whether the end has come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        return self._over.is_set()

    # --- the end --------------------------------------------------------------------------------

    async def _calm(self, proxy: Proxy) -> None:
        """Restore the network, and wait until all users have got everything."""
        proxy.cut()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + QUIET_S
        while loop.time() < deadline:
            users = [user for place in self._places for user in place.here]
            late = [g for g in users if not g.connected or g.unheard or g.reader.behind]
            open_ = [one for place in self._places for one in unended(self._made, place.readers[0])]
            if not late and not open_:
                break
            await asyncio.sleep(0.1)
        else:
            waiting = {
                "users who are outside": sum(not user.connected for user in users),
                "speakers who hear nothing": sum(bool(user.unheard) for user in users),
                "readers who are behind": sum(bool(user.reader.behind) for user in users),
                "captions under way": len(open_),
            }
            self.tally.unexpected.update({what: n for what, n in waiting.items() if n})

    async def _end(self) -> None:
        """Let all users leave, and count the events that each lacks."""
        for place in self._places:
            for user in place.here:
                if user.connected:
                    user.reader.catch_up()
        users = {user: task for place in self._places for user, task in place.here.items()}
        await asyncio.gather(*(user.leave() for user in users))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(QUIET_S):
                await asyncio.gather(*users.values())
        for place in self._places:
            conclude(self._made, place.readers[0], place.readers)

    def _report(self, seconds: float) -> Report:
        plan, tally, faults = self.plan, self.tally, self.faults
        log = self._children[0].text
        if "Traceback" in log:
            tally.unexpected["tracebacks in the gateway's log"] = log.count("Traceback")
            faults.examples.append(first_traceback(log))
        lives = [points for points in self._memory if points] or [[(0.0, 0.0)]]
        last = warm(lives[-1]) or lives[-1]
        return Report(
            seed=plan.seed,
            seconds=round(seconds, 1),
            hours=round(seconds * plan.speed / 3600, 3),
            sessions=plan.sessions,
            rooms=plan.rooms,
            sockets=tally.opened,
            resumed=tally.resumed,
            gaps_told=tally.told,
            afresh=tally.afresh,
            cuts=dict(self.network),
            kills=self.kills,
            restarts=self.restarts,
            said=tally.said,
            void=tally.void,
            events=tally.events,
            lost=faults.lost,
            duplicated=faults.duplicated,
            contradicted=faults.contradicted,
            ended_twice=faults.ended_twice,
            unended=faults.unended,
            unexpected=dict(tally.unexpected),
            errors=dict(tally.errors),
            closes={str(code): count for code, count in tally.closes.items()},
            caught_up_ms=Quantiles.of(tally.caught_up),
            final_ms=Quantiles.of(tally.final),
            rss_mb=(round(last[0][1], 1), round(last[-1][1], 1)),
            slope_mb_h=growth(self._memory, plan.speed),
            exit_status=self._status,
            examples=faults.examples,
        )


def _address(proxy: Proxy) -> str:
    return f"ws://127.0.0.1:{proxy.port}"
