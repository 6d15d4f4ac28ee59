"""Tests of when an engine counts as hanging or failing, on a clock that only the test moves."""

from __future__ import annotations

import asyncio

import pytest

from gateway.engines.base.service import Health
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.engines.wrappers.supervised import (
    BACKOFF,
    FAILING_SHARE,
    FAILURES,
    HANG,
    POLL,
    Supervisor,
)
from gateway.errors import EngineFault, EngineGone, ErrorCode, JobFault, Overloaded
from gateway.job import Job
from tests.engines import reading
from tests.engines.reading import texts
from tests.engines.workshop import (
    EVERY,
    Start,
    Time,
    Workshop,
    settle,
    sick,
)
from tests.support.typed import current


def job(id: str = "j1") -> Job:
    return reading.job(id, "good morning")


async def test_one_failed_job_is_no_death_of_the_engine(start: Start, workshop: Workshop) -> None:
    engine = await start(ScriptedEngine(fault=failing(EngineGone("It ended the job."))))
    with pytest.raises(EngineGone):
        await texts(engine, job())
    await settle()
    assert engine.health is Health.READY
    assert len(workshop.built) == 1


async def test_an_engine_whose_jobs_are_all_silent_hangs_and_is_replaced(
    start: Start, time: Time, workshop: Workshop
) -> None:
    engine = await start()
    workshop.built[0].hold()
    reading = [asyncio.create_task(texts(engine, job(f"j{n}"))) for n in range(2)]
    await workshop.built[0].step()
    await time.pass_(POLL)  # the check sees that there was output
    await time.pass_(HANG - 1)
    assert current(engine.health) is Health.READY
    await time.pass_(POLL)
    assert current(engine.health) is Health.DEAD
    for each in reading:
        with pytest.raises(EngineGone):
            await each
    await time.pass_(BACKOFF)
    assert engine.health is Health.READY
    assert engine.stats()["hangs"] == engine.stats()["restarts"] == 1
    assert engine.silence == 0


async def test_output_of_one_job_is_a_sign_of_life(
    start: Start, time: Time, workshop: Workshop
) -> None:
    engine = await start()
    workshop.built[0].hold()
    reading = [asyncio.create_task(texts(engine, job(f"j{n}"))) for n in range(2)]
    for _ in range(6):
        await time.pass_(HANG - 1)
        await workshop.built[0].step()
    await time.pass_(HANG - 1)
    assert current(engine.health) is Health.READY
    workshop.built[0].release()
    await asyncio.gather(*reading)
    await time.pass_(HANG * 2)
    assert engine.health is Health.READY, "nothing to do is no hang"


async def test_aborted_jobs_do_not_hide_a_hang(
    start: Start, time: Time, workshop: Workshop
) -> None:
    engine = await start()
    workshop.built[0].hold()
    for n in range(2):
        reading = asyncio.create_task(texts(engine, job(f"j{n}")))
        await settle()
        await time.pass_(HANG / 2)
        reading.cancel()
        await settle()
        await time.pass_(HANG * 3)
    assert engine.health is not Health.READY or engine.restarts == 1


async def test_a_job_of_a_former_engine_does_not_count_for_the_next(
    start: Start, time: Time
) -> None:
    class Stuck(ScriptedEngine):
        """An engine whose jobs do not end when it is closed."""

        async def aclose(self) -> None:
            self._health = Health.CLOSED

    stuck = Stuck()
    engine = await start(stuck)
    stuck.hold()
    reading = asyncio.create_task(texts(engine, job()))
    await settle()
    await time.pass_(HANG)
    await time.pass_(BACKOFF)
    assert current(engine.health) is Health.READY
    await time.pass_(HANG * 2)
    assert engine.health is Health.READY
    stuck.release()
    assert await reading
    assert engine.silence == 0


WINDOW = HANG * FAILING_SHARE
"""Seconds over which jobs fail at least before their engine counts as failing."""


async def fail(engine: Supervisor, times: int = 1) -> None:
    """Have ``times`` jobs fail while the clock stands still."""
    for _ in range(times):
        with pytest.raises(EngineFault):
            await texts(engine, job())
    await settle()


@pytest.mark.parametrize(
    "error",
    [EngineFault("It is broken."), EngineGone("It broke."), Overloaded("Full."), KeyError("a")],
)
async def test_an_engine_is_replaced_after_several_failed_jobs_in_a_row(
    start: Start, time: Time, error: Exception
) -> None:
    engine = await start(sick(error))
    await fail(engine, FAILURES - 1)
    await time.pass_(WINDOW)
    assert current(engine.health) is Health.READY
    await fail(engine)
    assert current(engine.health) is Health.DEAD
    await time.pass_(BACKOFF)
    assert engine.health is Health.READY
    assert await texts(engine, job()) == ["[de]", " good", " morning"]
    assert (engine.restarts, engine.hangs) == (1, 0)


async def test_many_failures_at_one_moment_are_no_death_even_after_a_pause(
    start: Start, time: Time
) -> None:
    engine = await start(sick(EngineFault("It is broken.")))
    await fail(engine, FAILURES * 5)
    await time.pass_(WINDOW)
    await time.pass_(HANG * 5)
    assert current(engine.health) is Health.READY
    await fail(engine)
    assert engine.health is Health.DEAD


async def test_a_translation_between_two_failures_resets_the_count(
    start: Start, time: Time, workshop: Workshop
) -> None:
    engine = await start(sick(EngineFault("It is broken."), FAILURES - 1))
    await fail(engine, FAILURES - 1)
    assert await texts(engine, job())
    workshop.built[0].fault = failing(EngineFault("It is broken."), times=FAILURES - 1)
    await time.pass_(WINDOW)
    await fail(engine, FAILURES - 1)
    await time.pass_(WINDOW)
    assert engine.health is Health.READY


async def test_refused_texts_are_no_failures_of_the_engine(
    start: Start, time: Time, workshop: Workshop
) -> None:
    engine = await start(sick(JobFault("Too long.", ErrorCode.TOO_LONG)))
    for _ in range(FAILURES * 3):
        await time.pass_(WINDOW)
        await fail(engine)
    assert current(engine.health) is Health.READY
    workshop.built[0].fault = failing(EngineFault("It is broken."), times=EVERY)
    await fail(engine, FAILURES - 1)
    await time.pass_(WINDOW)
    workshop.built[0].fault = failing(JobFault("Too long."), times=1)
    await fail(engine)
    assert current(engine.health) is Health.READY
    workshop.built[0].fault = failing(EngineFault("It is broken."), times=EVERY)
    await fail(engine)
    assert engine.health is Health.DEAD, "a refusal between them did not hide the failures"


async def test_an_engine_that_refuses_a_text_does_not_hang(
    start: Start, time: Time, workshop: Workshop
) -> None:
    engine = await start()
    first = workshop.built[0]
    for n in range(4):
        first.hold()
        reading = asyncio.create_task(texts(engine, job(f"j{n}")))
        await settle()
        await time.pass_(HANG - 1)
        first.fault = failing(JobFault("Too long."))
        first.release()
        with pytest.raises(JobFault):
            await reading
    assert engine.silence == 0


async def test_aborted_jobs_are_no_failures_of_the_engine(
    start: Start, time: Time, workshop: Workshop
) -> None:
    engine = await start()
    workshop.built[0].hold()
    for n in range(FAILURES * 2):
        reading = asyncio.create_task(texts(engine, job(f"j{n}")))
        await settle()
        await time.pass_(HANG / 10)
        engine.abort(f"j{n}")
        with pytest.raises(EngineFault):
            await reading
    assert engine.health is Health.READY
    assert not engine.failing


async def test_an_aborted_job_ends_even_if_its_engine_never_reports_it(
    start: Start, time: Time
) -> None:
    class Stuck(ScriptedEngine):
        def abort(self, job_id: str) -> None:
            self.aborted.append(job_id)

    stuck = Stuck()
    engine = await start(stuck)
    stuck.hold()
    reading = asyncio.create_task(texts(engine, job()))
    await settle()
    engine.abort("j1")
    engine.abort("j1")
    with pytest.raises(EngineFault):
        await reading
    assert list(stuck.aborted) == ["j1"]
    stuck.release()  # its later output is ignored
    await settle()
    await time.pass_(HANG * 3)
    assert engine.silence == 0
