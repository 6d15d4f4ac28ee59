"""The recogniser without a model."""

from __future__ import annotations

import asyncio

import pytest

from gateway.engines.base.service import Health
from gateway.engines.scripted import ScriptedRecogniser
from gateway.errors import EngineFault, EngineGone
from gateway.job import RecognitionJob


def job(seconds: float, langs: tuple[str, ...] = ()) -> RecognitionJob:
    return RecognitionJob(id="j1", audio=b"\x01\x00" * int(16_000 * seconds), langs=langs)


async def ready(recogniser: ScriptedRecogniser) -> ScriptedRecogniser:
    await recogniser.start()
    return recogniser


async def test_it_hears_a_word_for_every_pace_of_sound() -> None:
    recogniser = await ready(ScriptedRecogniser("a b c"))
    assert (await recogniser.recognise(job(2.0))).text == "a b c a b"


async def test_its_language_is_the_first_that_the_job_allows() -> None:
    recogniser = await ready(ScriptedRecogniser(languages=("en", "de")))
    langs = [
        (await recogniser.recognise(job(1.0, allowed))).lang
        for allowed in ((), ("de",), ("fr", "de"), ("fr",))
    ]
    assert langs == ["en", "de", "de", ""]


async def test_held_jobs_are_answered_after_the_release() -> None:
    recogniser = await ready(ScriptedRecogniser())
    recogniser.hold()
    task = asyncio.create_task(recogniser.recognise(job(1.0)))
    await asyncio.sleep(0)
    assert recogniser.unfinished == 1 and [work.id for work in recogniser.jobs] == ["j1"]
    recogniser.release()
    assert (await task).words


async def test_a_fault_ends_the_job() -> None:
    def fault(work: RecognitionJob) -> None:
        raise EngineFault("It is broken.")

    recogniser = await ready(ScriptedRecogniser(fault=fault))
    with pytest.raises(EngineFault, match="broken"):
        await recogniser.recognise(job(1.0))


async def test_death_ends_the_jobs() -> None:
    recogniser = await ready(ScriptedRecogniser())
    recogniser.hold()
    task = asyncio.create_task(recogniser.recognise(job(1.0)))
    await asyncio.sleep(0)
    recogniser.die()
    with pytest.raises(EngineGone):
        await task
    assert recogniser.health is Health.DEAD


async def test_a_cancelled_job_is_noted() -> None:
    recogniser = await ready(ScriptedRecogniser())
    recogniser.hold()
    task = asyncio.create_task(recogniser.recognise(job(1.0)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    assert list(recogniser.cancelled) == ["j1"]
