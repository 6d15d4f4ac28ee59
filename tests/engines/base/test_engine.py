"""Tests of the base classes: `translate` by way of `submit`, and `submit` of a generator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import pytest

from gateway.engines.base.engine import (
    READER_LIMIT,
    Aborted,
    EngineWrapper,
    PullEngine,
    Sink,
    SinkReader,
    refuse,
)
from gateway.engines.base.service import Health
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import EngineFault, EngineGone, ErrorCode
from gateway.job import Chunk, Job

JOB = Job(id="j", text="good morning", source="en", target="de")


class Kept:
    """A sink that keeps the chunks and ends it receives."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.ends: list[EngineFault | None] = []
        self.over = asyncio.Event()

    def chunk(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)

    def end(self, fault: EngineFault | None) -> None:
        self.ends.append(fault)
        self.over.set()


class ByHand(EngineWrapper):
    """A `PushEngine` whose output the test sends to the sinks."""

    def __init__(self) -> None:
        super().__init__(ScriptedEngine())
        self.sinks: dict[str, Sink] = {}
        self.aborted: list[str] = []

    def submit(self, job: Job, sink: Sink) -> None:
        self.sinks[job.id] = sink

    def abort(self, job_id: str) -> None:
        self.aborted.append(job_id)


class Generated(PullEngine):
    """A `PullEngine` around a given generator function."""

    def __init__(self, make: Callable[[Job], AsyncGenerator[Chunk]]) -> None:
        super().__init__("generated", ScriptedEngine().profile, 1)
        self._health = Health.READY
        self.make = make

    def generate(self, job: Job) -> AsyncGenerator[Chunk]:
        return self.make(job)


async def test_a_slow_reader_gets_merged_chunks_and_loses_nothing() -> None:
    reader = SinkReader()
    for n in range(READER_LIMIT * 3):
        reader.chunk(Chunk(f"{n} ", ids=(n,)))
    reader.end(None)
    chunks = []
    while (chunk := await reader.next()) is not None:
        chunks.append(chunk)
    assert len(chunks) == READER_LIMIT
    assert "".join(chunk.text for chunk in chunks).split() == [*map(str, range(READER_LIMIT * 3))]
    assert sum(chunk.tokens for chunk in chunks) == READER_LIMIT * 3
    assert sum((chunk.ids for chunk in chunks), ()) == tuple(range(READER_LIMIT * 3))


async def test_a_fault_is_raised_after_the_chunks_before_it_and_an_abort_at_once() -> None:
    for fault, said in ((EngineGone("It died."), ["a", "b"]), (Aborted("j"), [])):
        reader = SinkReader()
        reader.chunk(Chunk("a"))
        reader.chunk(Chunk("b"))
        reader.end(fault)
        read = []
        with pytest.raises(type(fault)):
            while (chunk := await reader.next()) is not None:
                read.append(chunk.text)
        assert read == said


async def test_closing_the_generator_of_a_push_engine_aborts_an_unfinished_job_only() -> None:
    engine = ByHand()
    for whole in (False, True):
        async with aclosing(engine.translate(JOB)) as chunks:
            reading = asyncio.ensure_future(anext(chunks))
            await asyncio.sleep(0)
            engine.sinks["j"].chunk(Chunk("a"))
            assert await reading == Chunk("a")
            if whole:
                engine.sinks["j"].end(None)
                assert [chunk async for chunk in chunks] == []
        assert engine.aborted == ["j"]


async def test_a_refused_job_ends_after_submit_has_returned() -> None:
    kept = Kept()
    refuse(kept, EngineGone("It is closed."))
    assert kept.ends == []
    await kept.over.wait()
    assert isinstance(kept.ends[0], EngineGone)


async def test_a_fault_of_the_engines_own_code_ends_the_job_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(job: Job) -> AsyncGenerator[Chunk]:
        yield Chunk("a")
        raise ZeroDivisionError

    kept = Kept()
    Generated(broken).submit(JOB, kept)
    await kept.over.wait()
    (fault,) = kept.ends
    assert fault is not None
    assert fault.code is ErrorCode.INTERNAL
    assert kept.chunks == [Chunk("a")]
    assert "ZeroDivisionError" in caplog.text


async def test_closing_a_pull_engine_ends_its_jobs_and_leaves_no_task() -> None:
    closed = asyncio.Event()

    async def endless(job: Job) -> AsyncGenerator[Chunk]:
        try:
            yield Chunk("a")
            await asyncio.Event().wait()
        finally:
            closed.set()

    engine, kept = Generated(endless), Kept()
    engine.submit(JOB, kept)
    while not kept.chunks:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await engine.aclose()
    await engine.aclose()
    await kept.over.wait()
    assert [type(end) for end in kept.ends] == [EngineGone]
    assert closed.is_set()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_abort_of_a_pull_engine_ends_the_job_at_once_and_closes_its_generator() -> None:
    closed = asyncio.Event()

    async def endless(job: Job) -> AsyncGenerator[Chunk]:
        try:
            while True:
                yield Chunk("a")
        finally:
            closed.set()

    class Fed(Kept):
        def chunk(self, chunk: Chunk) -> None:
            super().chunk(chunk)
            engine.abort("j")
            engine.abort("j")

    engine: Generated

    engine, kept = Generated(endless), Fed()
    engine.submit(JOB, kept)
    await kept.over.wait()
    await closed.wait()
    assert [type(end) for end in kept.ends] == [Aborted]
    assert kept.chunks == [Chunk("a")]
