"""Tests that the embedded engine stops aborted and abandoned jobs, and never blocks the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from gateway.engines.base.engine import Aborted
from gateway.engines.ctranslate2 import engine as ctranslate2
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.errors import Overloaded
from gateway.job import Chunk
from tests.engines.base.test_engine import Kept
from tests.engines.ctranslate2_factory import make_llama, make_marian, make_nllb
from tests.engines.puppet import Puppet, begun
from tests.engines.reading import idle, job, read, started
from tests.support.live import until

pytest.importorskip("ctranslate2")
pytest.importorskip("sentencepiece")

Make = Callable[..., CTranslate2Engine]


@pytest.mark.parametrize("make", [make_llama, make_marian, make_nllb])
async def test_abort_ends_the_stream_in_a_fault_and_the_decode_at_its_next_token(
    make: Make, dir: Path
) -> None:
    engine = make(dir)

    class Impatient(Kept):
        def chunk(self, chunk: Chunk) -> None:
            super().chunk(chunk)
            engine.abort("a")
            engine.abort("a")

    async with started(engine):
        sink = Impatient()
        engine.submit(job("a"), sink)
        await until(lambda: bool(sink.ends))
        await idle(engine)
        assert len(sink.chunks) == 1 and [type(end) for end in sink.ends] == [Aborted]


async def test_an_aborted_job_counts_until_its_decode_has_stopped(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir)

    async with started(engine):
        puppet.token("Guten")
        async with aclosing(engine.translate(job("a"))) as stream:
            assert (await anext(stream)).text == "Guten"
            engine.abort("a")
            with pytest.raises(Aborted):
                await anext(stream)
        assert engine.unfinished == 1
        puppet.token(" Morgen")  # without a full stop: only the abort ends it
        await idle(engine)


async def test_abort_of_an_unknown_job_does_nothing(dir: Path) -> None:
    engine = make_llama(dir)

    async with started(engine):
        engine.abort("nobody")
        assert await read(engine, job())


async def test_closing_the_stream_stops_the_work_inside_the_engine(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir)

    async with started(engine):
        puppet.token("Guten")
        async with aclosing(engine.translate(job())) as stream:
            await anext(stream)
        puppet.token(" Morgen")
        await idle(engine)


async def test_cancelling_the_task_stops_the_work_inside_the_engine(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir)

    async with started(engine):
        task = asyncio.create_task(read(engine, job()))
        await begun(puppet, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        puppet.token("Guten")
        await idle(engine)


async def test_a_job_aborted_while_it_waits_for_a_thread_is_never_decoded(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir, inter_threads=1)

    async with started(engine):
        running = asyncio.create_task(read(engine, job("running")))
        await begun(puppet, 1)
        waiting = asyncio.create_task(read(engine, job("waiting")))
        await until(lambda: engine.unfinished == 2)
        engine.abort("waiting")
        assert engine.unfinished == 1
        with pytest.raises(Aborted):
            await waiting
        puppet.token("Ja.")
        assert await running == "Ja."
        assert puppet.started == ["running"]


async def test_the_event_loop_goes_on_while_more_jobs_come_than_there_are_threads(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir, inter_threads=2)

    async with started(engine):
        # If the loop waited for a thread, it could never let the decodes go on.
        tasks = [asyncio.create_task(read(engine, job(str(n)))) for n in range(20)]
        await until(lambda: engine.unfinished == 20)
        for _ in tasks:
            puppet.token("Ja.")
        assert await asyncio.gather(*tasks) == ["Ja."] * 20


@pytest.mark.parametrize("make", [make_llama, make_marian])
async def test_nothing_blocks_the_event_loop_under_load(make: Make, dir: Path) -> None:
    engine = make(dir)

    async with started(engine):
        alone = await read(engine, job())
        with blockbuster_ctx():
            crowd = (read(engine, job(str(n))) for n in range(8 * engine.capacity))
            assert set(await asyncio.gather(*crowd)) == {alone}
        assert engine.unfinished == 0


async def test_a_job_beyond_the_waiting_limit_is_refused(
    puppet: Puppet, dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctranslate2, "WAITING_LIMIT", 1)
    engine = make_llama(dir, inter_threads=1, batch=1)

    async with started(engine):
        tasks = [asyncio.create_task(read(engine, job(str(n)))) for n in range(2)]
        await begun(puppet, 1)
        with pytest.raises(Overloaded):
            await read(engine, job("one too many"))
        puppet.token("Ja.")
        puppet.token("Ja.")
        await asyncio.gather(*tasks)
