"""Engines that die and fail on request, and a clock that only the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.engines.base.engine import Engine
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.engines.wrappers.route import EngineRoute
from gateway.engines.wrappers.routed import RoutedEngine
from gateway.engines.wrappers.supervised import Supervisor
from gateway.errors import EngineFault
from tests.support.live import until


class Time:
    """A clock that only the test moves, and sleeps that end by it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sleepers.append((self.now + seconds, waiter))
        await waiter

    async def pass_(self, seconds: float) -> None:
        """Move the clock, and run all tasks that can now run."""
        self.now += seconds
        due = [entry for entry in self.sleepers if entry[0] <= self.now]
        self.sleepers = [entry for entry in self.sleepers if entry[0] > self.now]
        for _, waiter in due:
            if not waiter.done():
                waiter.set_result(None)
        await settle()

    async def end_sleep(self, seconds: float) -> None:
        """Wait until a task begins to sleep for ``seconds``, then move the clock by them.

        A task that closes real sockets first sleeps some turns of the loop later. A clock that has
        moved by then does not wake it.
        """
        await until(
            lambda: any(
                end == self.now + seconds and not waiter.done() for end, waiter in self.sleepers
            )
        )
        await self.pass_(seconds)


async def settle() -> None:
    """Let every task run until it waits for something.

    This is no wait for real sockets, files or threads: they may need more turns of the loop.
    """
    for _ in range(20):
        await asyncio.sleep(0)


class Broken(ScriptedEngine):
    """An engine whose start fails."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error or EngineFault("There is no such model.")

    async def start(self) -> None:
        raise self.error


class Loading(ScriptedEngine):
    """An engine whose start waits until `loaded` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded = asyncio.Event()

    async def start(self) -> None:
        await self.loaded.wait()
        await super().start()


EVERY = 1_000
"""More jobs than a test has."""


def sick(error: Exception, times: int = EVERY) -> ScriptedEngine:
    """Return an engine at which ``times`` jobs fail with ``error``."""
    return ScriptedEngine(fault=failing(error, times=times))


class Workshop:
    """A factory that builds the given engines in order, then plain ones, and keeps them."""

    def __init__(self, *engines: ScriptedEngine | Exception) -> None:
        self.engines = list(engines)
        self.built: list[ScriptedEngine] = []

    def __call__(self) -> Engine:
        engine = self.engines.pop(0) if self.engines else ScriptedEngine()
        if isinstance(engine, Exception):
            raise engine
        self.built.append(engine)
        return engine


Start = Callable[..., Awaitable[Supervisor]]
"""The fixture `start`: starts a supervisor of the given engines and then plain ones."""


def supervised(build: Callable[[], Engine], time: Time, *, insist: bool = False) -> Supervisor:
    """Return a supervisor whose random waits are as long as possible."""
    return Supervisor(build, insist=insist, sleep=time.sleep, clock=time.clock, chance=lambda: 1.0)


def with_spare(first: Engine, spare: Engine) -> RoutedEngine:
    """Return two engines of which the second one is the fallback of the first."""
    return RoutedEngine([EngineRoute("first", first), EngineRoute("spare", spare, spare=True)])


def lane(engine: Engine, source: str = "en", target: str = "de") -> tuple[str, ...]:
    """Return the names of the engines to which a job of a pair can go."""
    lanes = engine.lanes
    assert lanes is not None
    return tuple(route.name for route in lanes(source, target) if isinstance(route, EngineRoute))


def substitutes(engine: Engine) -> list[str | None]:
    """Return a list to which each new substitute of an engine is added."""
    told: list[str | None] = []

    def tell() -> None:
        if engine.substitute != (told[-1] if told else before):
            told.append(engine.substitute)

    before = engine.substitute
    engine.changed = tell
    return told


class Named(ScriptedEngine):
    """A scripted engine with a name, held from the beginning if ``held``."""

    def __init__(self, name: str = "one", *, held: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._name = name
        if held:
            self.hold()

    @property
    def name(self) -> str:
        return self._name
