"""An engine under test with its event loop, its jobs, and a sink that checks the order of calls.

Owns: what the tests of the contract have in common. Must not know: the rules of the contract.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Self, TypeVar

from gateway.engines.base.engine import Engine
from gateway.engines.base.service import Health
from gateway.errors import EngineFault
from gateway.job import Chunk, Job

T = TypeVar("T")

START_S = 30.0
"""Default seconds that an engine may take to start. A test that takes longer is taken to hang."""

TEXT = "Good morning everybody, can you hear me?"
LONG = "The report on the meeting of last week is not finished yet, " * 4 + "and that is a pity."


def job(id: str = "j1", text: str = TEXT, **fields: Any) -> Job:
    """Return a job from English into German."""
    return Job(id=id, text=text, source="en", target="de", **fields)


async def chunks(engine: Engine, job: Job) -> list[Chunk]:
    """Return all chunks of a job. Raises the fault in which the job ends."""
    async with aclosing(engine.translate(job)) as stream:
        return [chunk async for chunk in stream]


async def texts(engine: Engine, job: Job) -> list[str]:
    """Return the texts of the chunks of a job."""
    return [chunk.text for chunk in await chunks(engine, job)]


async def hypothesis(engine: Engine, job: Job) -> tuple[str, tuple[int, ...]]:
    """Return the whole translation with its forced prefix, and the ids of both."""
    made = await chunks(engine, job)
    text = job.prefix + "".join(chunk.text for chunk in made)
    return text, sum((chunk.ids for chunk in made), ())


async def idle(engine: Engine) -> None:
    """Return once the engine has nothing left to do; the caller's time limit is the deadline."""
    while engine.unfinished:  # noqa: ASYNC110 - engines have no event for it
        await asyncio.sleep(0.005)


class RecordingSink:
    """A sink that keeps all chunks and the end, and checks the order of the calls."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.fault: EngineFault | None = None
        self.over = asyncio.Event()
        self.begun = asyncio.Event()
        self.deaf = True  # until `submit` has returned

    def submit(self, engine: Engine, job: Job) -> Self:
        engine.submit(job, self)
        self.deaf = False
        return self

    def chunk(self, chunk: Chunk) -> None:
        assert not self.deaf and not self.over.is_set()
        self.chunks.append(chunk)
        self.begun.set()

    def end(self, fault: EngineFault | None) -> None:
        assert not self.deaf and not self.over.is_set()
        self.fault = fault
        self.over.set()

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks)


class EngineSubject:
    """A started engine and its event loop, which live longer than one test.

    :param make: returns a new engine; called again after a test has closed the last one
    :param start_s: seconds that an engine may take to start, and `run` at most
    """

    def __init__(self, make: Callable[[], Engine], start_s: float = START_S) -> None:
        self._make = make
        self._start_s = start_s
        self._runner = asyncio.Runner()
        self._engine: Engine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._runner:
            self._close()

    @property
    def engine(self) -> Engine:
        """The engine, ready for use. It is built again if the last test closed it."""
        if self._engine is None or self._engine.health is not Health.READY:
            self._close()
            self._engine = self._make()
            self.run(self._engine.start())
        return self._engine

    @property
    def engine_as_it_is(self) -> Engine:
        """The engine, possibly closed, for tests that close it anyway."""
        return self._engine or self.engine

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the event loop of the engine. Raises `TimeoutError`."""

        async def limited() -> T:
            async with asyncio.timeout(self._start_s):
                return await work

        return self._runner.run(limited())

    def check(self, work: Callable[[Engine], Awaitable[None]]) -> None:
        """Run ``work`` with the engine, which has to be idle again afterwards."""
        engine = self.engine

        async def checked() -> None:
            await work(engine)
            await idle(engine)

        self.run(checked())

    def _close(self) -> None:
        if self._engine is not None:
            self.run(self._engine.aclose())
