"""Tests of the scripted engine beyond the contract, which `test_contract` tests."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from msgspec.structs import replace

from gateway.engines.base.engine import Aborted
from gateway.engines.base.service import Health
from gateway.engines.scripted import ID_HISTORY_LIMIT, ScriptedEngine, failing
from gateway.errors import EngineFault, EngineGone, ErrorCode
from gateway.job import Chunk, Job
from tests.engines.reading import started
from tests.support.typed import current


def job(id: str = "j1", text: str = "good morning", *, target: str = "de", prefix: str = "") -> Job:
    return Job(id=id, text=text, source="en", target=target, prefix=prefix)


async def read(engine: ScriptedEngine, job: Job, into: list[str] | None = None) -> list[str]:
    pieces = [] if into is None else into
    async with aclosing(engine.translate(job)) as chunks:
        async for chunk in chunks:
            pieces.append(chunk.text)
    return pieces


async def test_a_translation_is_the_tagged_source_word_by_word() -> None:
    engine = ScriptedEngine()

    async with started(engine):
        assert await read(engine, job()) == ["[de]", " good", " morning"]


async def test_a_script_gives_other_pieces_and_empty_ones_are_left_out() -> None:
    engine = ScriptedEngine({("good morning", "de"): ["Guten", "", " Morgen"]})

    async with started(engine):
        assert await read(engine, job()) == ["Guten", " Morgen"]
        assert await read(engine, job(target="fr")) == ["[fr]", " good", " morning"]


async def test_any_forced_prefix_is_continued_and_not_repeated() -> None:
    engine = ScriptedEngine()

    async with started(engine):
        assert await read(engine, job(prefix="[de] good")) == [" morning"]
        assert await read(engine, job(prefix="[de] good morning")) == []
        assert await read(engine, job(prefix="Guten")) == [" good", " morning"]
        assert await read(engine, job(prefix="Guten Morgen ihr alle")) == []


@pytest.mark.parametrize(
    ("needed", "pieces"),
    [(1, ["[de]"]), (4, ["[de]"]), (5, ["[de]", " good"]), (99, ["[de]", " good", " morning"])],
)
async def test_a_translation_ends_with_the_piece_that_has_all_that_is_needed(
    needed: int, pieces: list[str]
) -> None:
    engine = ScriptedEngine()

    async with started(engine):
        assert await read(engine, replace(job(), needed=needed)) == pieces


def test_it_offers_any_pair_of_its_languages() -> None:
    profile = ScriptedEngine(languages=("en", "de")).profile
    assert profile.sources == profile.targets == ("en", "de")
    assert profile.supports("de", "en")
    assert not profile.supports("en", "fr")


async def test_a_held_job_goes_on_one_chunk_for_each_step() -> None:
    engine = ScriptedEngine()

    async with started(engine):
        engine.hold()
        pieces: list[str] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(read(engine, job(), pieces))
            await engine.step()  # waits for the job to come
            assert pieces == ["[de]"]
            await engine.step()
            assert pieces == ["[de]", " good"]
            assert engine.unfinished == 1
            engine.release()
        assert pieces == ["[de]", " good", " morning"]
        assert engine.unfinished == 0


async def test_release_sends_the_chunks_of_all_held_jobs() -> None:
    engine = ScriptedEngine()

    async with started(engine):
        engine.hold()
        async with asyncio.TaskGroup() as group:
            reads = [group.create_task(read(engine, job(str(n)))) for n in range(3)]
            await engine.step()
            engine.release()
        assert [len(task.result()) for task in reads] == [3, 3, 3]


async def test_abort_ends_a_held_job_in_the_same_turn() -> None:
    engine = ScriptedEngine()

    async with started(engine):
        engine.hold()
        reading = asyncio.create_task(read(engine, job()))
        await engine.step()
        engine.abort("j1")
        assert engine.unfinished == 0
        engine.abort("j1")
        with pytest.raises(Aborted):
            await reading
        assert list(engine.aborted) == ["j1"]


async def test_abort_ends_a_job_that_waits_for_its_timer() -> None:
    engine = ScriptedEngine(delay=3600)

    async with started(engine):
        reading = asyncio.create_task(read(engine, job()))
        await asyncio.sleep(0)
        engine.abort("j1")
        with pytest.raises(Aborted):
            await reading


async def test_abort_stops_a_job_while_its_reader_handles_a_chunk() -> None:
    engine = ScriptedEngine()

    async with started(engine):
        chunks = engine.translate(job())
        assert await anext(chunks) == Chunk("[de]")
        engine.abort("j1")
        with pytest.raises(Aborted):
            await anext(chunks)
        chunks = engine.translate(job("j2"))
        await anext(chunks)
        engine.abort("j2")
        await chunks.aclose()
        assert list(engine.aborted) == ["j1", "j2"]


async def test_an_aborted_job_does_not_take_its_id_from_a_new_one() -> None:
    engine = ScriptedEngine()

    async with started(engine):
        old, new = engine.translate(job()), engine.translate(job())
        await anext(old)
        engine.abort("j1")
        await anext(new)
        with pytest.raises(Aborted):
            await anext(old)
        assert engine.unfinished == 1
        await new.aclose()
        assert engine.unfinished == 0


async def test_a_cancelled_job_is_no_longer_held() -> None:
    engine = ScriptedEngine()

    async with started(engine):
        engine.hold()
        first = asyncio.create_task(read(engine, job("j1")))
        pieces: list[str] = []
        second = asyncio.create_task(read(engine, job("j2"), pieces))
        for _ in range(5):
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await engine.step()
        assert pieces == ["[de]"]
        assert list(engine.aborted) == ["j1"]
        engine.release()
        await second
        assert list(engine.started) == ["j1", "j2"]


async def test_a_fault_ends_a_job_at_the_given_chunk() -> None:
    engine = ScriptedEngine(fault=failing(EngineFault("Out of memory."), at=1))

    async with started(engine):
        pieces: list[str] = []
        with pytest.raises(EngineFault, match="Out of memory"):
            await read(engine, job(), pieces)
        assert pieces == ["[de]"]
        assert engine.unfinished == 0
        assert not engine.aborted
        assert len(await read(engine, job())) == 3, "only the first job was to fail"


async def test_death_ends_every_job_and_refuses_new_ones() -> None:
    engine = ScriptedEngine()

    async with started(engine):
        engine.hold()
        reading = asyncio.create_task(read(engine, job()))
        await engine.step()
        engine.die()
        assert engine.health is Health.DEAD
        assert engine.unfinished == 0
        with pytest.raises(EngineGone):
            await reading
        with pytest.raises(EngineGone):
            await read(engine, job())


async def test_chunks_come_at_the_given_pace() -> None:
    engine = ScriptedEngine(delay=0.001, pace=0.001)

    async with started(engine):
        loop = asyncio.get_running_loop()
        start = loop.time()
        assert len(await read(engine, job())) == 3
        assert loop.time() - start >= 0.0025, "the loop's clock may not run fast"


def test_the_history_of_job_ids_is_bounded() -> None:
    engine = ScriptedEngine(capacity=2)
    assert engine.capacity == 2
    assert engine.started.maxlen == engine.aborted.maxlen == ID_HISTORY_LIMIT


async def test_a_share_of_the_jobs_fails_and_one_failure_in_ten_ends_the_engine() -> None:
    engine = ScriptedEngine(faults=0.5)
    seen: list[bool] = []

    async with started(engine):
        for _ in range(19):
            try:
                await read(engine, job())
                seen.append(True)
            except EngineFault as fault:
                assert fault.code is ErrorCode.REJECTED
                seen.append(False)
        assert seen == [True, False] * 9 + [True]
        assert current(engine.health) is Health.READY
        with pytest.raises(EngineGone):
            await read(engine, job())
        assert engine.health is Health.DEAD
