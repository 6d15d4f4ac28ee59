"""Jobs in a running vLLM engine, beyond the contract, which ``test_contract.py`` tests."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from caption_gateway.testing.subject import EngineSubject
from gateway.engines.base.engine import Aborted
from gateway.engines.base.tokenizer import Vocabulary
from gateway.engines.vllm import model as loaded
from gateway.engines.vllm.engine import VllmEngine
from gateway.errors import EngineFault, EngineGone, ErrorCode, Overloaded
from tests.engines.reading import LONG, job, read
from tests.engines.vllm.real import inside, real, try_on
from tests.support.live import until


@real
def test_abort_has_stopped_the_request_when_it_returns(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        async with aclosing(engine.translate(job("aborted", LONG))) as chunks:
            await anext(chunks)
            assert engine.unfinished == 1
            engine.abort("aborted")
            assert engine.unfinished == 0
            with pytest.raises(Aborted):
                await anext(chunks)

    try_on(subject, work)


@real
def test_an_aborted_job_leaves_the_scheduler_as_well(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        async with aclosing(engine.translate(job("aborted", LONG))) as aborted:
            await anext(aborted)
            async with aclosing(engine.translate(job("other", LONG))) as chunks:
                await anext(chunks)
                assert engine.stats()["running"] == 2
                engine.abort("aborted")
                assert 1 in [engine.stats()["running"] async for _ in chunks]

    try_on(subject, work)


@real
def test_a_job_cancelled_at_any_moment_leaves_no_request_or_task(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        for turns in range(8):
            reading = asyncio.create_task(read(engine, job(f"cancelled-{turns}", LONG)))
            for _ in range(turns):
                await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert engine.unfinished == 0

    try_on(subject, work)


@real
def test_a_long_prompt_is_tokenised_in_a_thread_and_can_be_aborted_there(
    subject: EngineSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(engine: VllmEngine) -> None:
        whole = await read(engine, job("short"))
        monkeypatch.setattr(loaded, "THREAD_LENGTH", 10)
        assert await read(engine, job("long")) == whole
        reading = asyncio.create_task(read(engine, job("aborted")))
        await asyncio.sleep(0)
        engine.abort("aborted")
        with pytest.raises(Aborted):
            await reading
        assert engine.unfinished == 0

    try_on(subject, work)


@real
def test_a_text_longer_than_the_model_can_take_is_refused(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        with pytest.raises(EngineFault) as raised:
            await read(engine, job("long", "no such word " * 400))
        assert raised.value.code is ErrorCode.TOO_LONG
        assert engine.unfinished == 0

    try_on(subject, work)


@real
def test_the_ids_of_an_output_are_those_of_its_prefix_and_its_tokens(
    subject: EngineSubject, model: Path
) -> None:
    vocabulary = Vocabulary.load(model)

    async def work(engine: VllmEngine) -> None:
        for given in (job("free"), job("forced", prefix="Guten")):
            async with aclosing(engine.translate(given)) as stream:
                chunks = [chunk async for chunk in stream]
            ids = [id for chunk in chunks for id in chunk.ids]
            text = given.prefix + "".join(chunk.text for chunk in chunks)
            assert vocabulary.tokenizer.decode(ids).startswith(text)
            assert vocabulary.controls.isdisjoint(ids)

    try_on(subject, work)


@real
def test_a_growing_sentence_is_found_in_the_cache_up_to_its_old_end(
    subject: EngineSubject, model: Path
) -> None:
    vocabulary = Vocabulary.load(model)

    async def work(engine: VllmEngine) -> None:
        first = job("old", f"{LONG} {LONG}", partial=True)
        await read(engine, first)
        before = engine.stats()["prefix_hits"]
        await read(engine, job("new", f"{first.text} More.", partial=True, prefix="Guten"))
        old = len(vocabulary.encode(engine.profile.prompt(first))) - 1
        block = inside(engine).vllm_config.cache_config.block_size
        assert old > block
        assert engine.stats()["prefix_hits"] - before == old // block * block

    try_on(subject, work)


@real
def test_a_request_that_vllm_refuses_fails_only_its_job(
    subject: EngineSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(engine: VllmEngine) -> None:
        with monkeypatch.context() as patch, pytest.raises(EngineFault) as raised:
            patch.setattr(Vocabulary, "forced", lambda *_: [10**6])
            await read(engine, job("beyond", prefix="x"))
        assert raised.value.code is ErrorCode.INTERNAL
        assert await read(engine, job("after"))

    try_on(subject, work)


@real
def test_more_jobs_than_admitted_are_refused_until_one_ends(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        admitted = [asyncio.create_task(read(engine, job(f"{n}", LONG))) for n in range(8)]
        await until(lambda: engine.unfinished == len(admitted))
        with pytest.raises(Overloaded):
            await read(engine, job("one too many"))
        engine.abort("0")
        with pytest.raises(Aborted):
            await admitted.pop(0)
        assert await read(engine, job("another"))
        await asyncio.gather(*admitted)

    try_on(subject, work)


@real
def test_a_full_vllm_is_an_overload(
    subject: EngineSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(engine: VllmEngine) -> None:
        limits = inside(engine).scheduler_config
        monkeypatch.setattr(limits, "max_num_queued_reqs", 1)  # vLLM 0.32 and later
        async with aclosing(engine.translate(job("first", LONG))) as chunks:
            await anext(chunks)
            with pytest.raises(Overloaded):
                await read(engine, job("second"))

    try_on(subject, work)


@real
def test_a_job_that_vllm_gives_up_ends_in_a_fault(
    subject: EngineSubject,
) -> None:
    async def work(engine: VllmEngine) -> None:
        async with aclosing(engine.translate(job("given up", LONG))) as chunks:
            await anext(chunks)
            await inside(engine).pause_generation(mode="abort")
            with pytest.raises(EngineGone):
                while True:
                    await anext(chunks)
        await inside(engine).resume_generation()
        assert await read(engine, job("after"))

    try_on(subject, work)
