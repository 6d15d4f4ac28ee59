"""A recogniser that comes back, and one that is replaced meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.engines.base.service import Health
from gateway.engines.recognition.wrappers import FallbackRecogniser, SupervisedRecogniser
from gateway.engines.scripted import ScriptedRecogniser
from gateway.errors import EngineFault, EngineGone, JobFault
from gateway.job import RecognitionJob
from tests.support.live import until

JOB = RecognitionJob(id="j1", audio=b"\x01\x00" * 16_000, langs=("en",))


class Series:
    """The recognisers that a supervisor builds, one after the other."""

    def __init__(self, fault: Callable[[RecognitionJob], None] | None = None) -> None:
        self.made: list[ScriptedRecogniser] = []
        self.fault = fault

    def __call__(self) -> ScriptedRecogniser:
        self.made.append(ScriptedRecogniser(fault=self.fault))
        return self.made[-1]


class Changes:
    """The changes of health of a supervised recogniser."""

    def __init__(self, of: SupervisedRecogniser) -> None:
        self._of = of
        self._changed = asyncio.Event()
        of.changed = self._changed.set

    async def until(self, health: Health) -> None:
        while self._of.health is not health:
            await self._changed.wait()
            self._changed.clear()


@asynccontextmanager
async def supervised(series: Series) -> AsyncIterator[SupervisedRecogniser]:
    one = SupervisedRecogniser(series, chance=lambda: 0.0, hang=0.2, poll=0.01)
    await one.start()
    try:
        yield one
    finally:
        await one.aclose()


async def test_it_has_the_properties_of_the_recogniser_inside() -> None:
    async with supervised(Series()) as one:
        assert (one.name, one.capacity, one.unfinished) == ("scripted", 4, 0)
        assert "en" in one.languages
        assert (await one.recognise(JOB)).words
        assert one.stats() == {"restarts": 0, "hangs": 0}


async def test_a_dead_recogniser_is_replaced() -> None:
    series = Series()
    async with supervised(series) as one:
        changes = Changes(one)
        series.made[0].die()
        with pytest.raises(EngineFault, match="not ready"):
            await one.recognise(JOB)
        await changes.until(Health.READY)
        assert (await one.recognise(JOB)).words
        assert len(series.made) == 2 and one.stats()["restarts"] == 1
    with pytest.raises(EngineGone):
        await one.recognise(JOB)


async def test_one_that_hangs_is_replaced_and_its_jobs_end() -> None:
    series = Series()
    async with supervised(series) as one:
        changes = Changes(one)
        series.made[0].hold()
        with pytest.raises(EngineGone):
            await one.recognise(JOB)
        await changes.until(Health.READY)
        assert one.stats() == {"restarts": 1, "hangs": 1}


async def test_a_cancelled_job_tells_nothing_about_the_recogniser() -> None:
    series = Series()
    async with supervised(series) as one:
        series.made[0].hold()
        for _ in range(5):
            task = asyncio.create_task(one.recognise(JOB))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
        assert not one.failing and one.health is Health.READY


async def test_a_new_recogniser_that_does_no_work_is_not_taken() -> None:
    series = Series()
    async with supervised(series) as one:
        refuse = [True]

        def fault(job: RecognitionJob) -> None:
            if job.id == "probe" and refuse:
                refuse.pop()
                raise EngineFault("It is broken.")

        series.fault = fault
        changes = Changes(one)
        series.made[0].die()
        one._check_now.set()
        await changes.until(Health.READY)
        while len(series.made) < 3:
            await changes.until(Health.STARTING)
            await changes.until(Health.READY)
        assert (await one.recognise(JOB)).words


async def test_a_new_recogniser_that_hangs_at_once_is_not_taken() -> None:
    one = SupervisedRecogniser(ScriptedRecogniser, hang=0.01)
    inner = ScriptedRecogniser()
    await inner.start()
    inner.hold()
    with pytest.raises(EngineFault, match="did not recognise a second within 0.01 s"):
        await one._probe(inner)


@asynccontextmanager
async def with_fallback(
    primary: ScriptedRecogniser, secondary: ScriptedRecogniser
) -> AsyncIterator[FallbackRecogniser]:
    one = FallbackRecogniser(primary, secondary)
    await one.start()
    try:
        yield one
    finally:
        await one.aclose()


def failing(job: RecognitionJob) -> None:
    raise EngineFault("It is broken.")


def refusing(job: RecognitionJob) -> None:
    raise JobFault("It is too long.")


async def test_the_secondary_recognises_while_the_primary_is_dead() -> None:
    primary, secondary = ScriptedRecogniser("primary"), ScriptedRecogniser("secondary")
    async with with_fallback(primary, secondary) as one:
        assert (await one.recognise(JOB)).text.startswith("primary")
        primary.die()
        assert one.health is Health.READY
        assert (await one.recognise(JOB)).text.startswith("secondary")
        assert (one.name, one.capacity, one.unfinished) == ("scripted", 4, 0)
        assert one.languages == primary.languages
        secondary.die()
        with pytest.raises(EngineGone):
            await one.recognise(JOB)


async def test_a_job_at_which_the_primary_failed_is_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    primary = ScriptedRecogniser(fault=failing)
    async with with_fallback(primary, ScriptedRecogniser("secondary")) as one:
        assert (await one.recognise(JOB)).text.startswith("secondary")
        assert "job j1 is repeated by scripted: EngineFault" in caplog.text


async def test_a_job_is_not_repeated_if_it_is_at_fault_or_in_another_language() -> None:
    for fault, languages in ((refusing, ("en",)), (failing, ("ja",))):
        secondary = ScriptedRecogniser(languages=languages)
        async with with_fallback(ScriptedRecogniser(fault=fault), secondary) as one:
            with pytest.raises(EngineFault):
                await one.recognise(JOB)
            assert not secondary.jobs


async def test_the_secondary_recognises_until_the_primary_is_loaded() -> None:
    loaded = asyncio.Event()

    class Loading(ScriptedRecogniser):
        async def start(self) -> None:
            await loaded.wait()
            await super().start()

    primary = Loading("primary")
    async with with_fallback(primary, ScriptedRecogniser("secondary")) as one:
        assert (await one.recognise(JOB)).text.startswith("secondary")
        loaded.set()
        await until(lambda: primary.health is Health.READY)
        assert (await one.recognise(JOB)).text.startswith("primary")
