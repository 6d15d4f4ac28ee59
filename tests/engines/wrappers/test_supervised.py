"""Tests of deaths and rebuilds, on a clock that only the test moves."""

from __future__ import annotations

import asyncio

import pytest

from gateway.engines.base.engine import Engine
from gateway.engines.base.service import Health
from gateway.engines.profiles import Profile, load
from gateway.engines.scripted import ScriptedEngine
from gateway.engines.wrappers import supervised as supervisor
from gateway.engines.wrappers.supervised import (
    BACKOFF,
    BACKOFF_MAX,
    HANG,
    POLL,
    STABLE_S,
    Supervisor,
    backoff,
    probe_job,
)
from gateway.errors import EngineFault, EngineGone, ErrorCode, Overloaded
from gateway.io import tasks
from gateway.job import Job
from tests.engines import reading
from tests.engines.reading import texts
from tests.engines.workshop import (
    Broken,
    Loading,
    Start,
    Time,
    Workshop,
    settle,
    sick,
    supervised,
)
from tests.support.live import until
from tests.support.typed import current


def job(id: str = "j1") -> Job:
    return reading.job(id, "good morning")


async def test_a_supervised_engine_translates_as_the_inner_engine() -> None:
    engine = supervised(ScriptedEngine, Time())
    assert (engine.name, engine.capacity, engine.health) == ("scripted", 16, Health.STARTING)
    await engine.start()
    assert engine.health is Health.READY
    assert await texts(engine, job()) == ["[de]", " good", " morning"]
    assert engine.profile.supports("en", "de")
    assert engine.unfinished == 0
    await engine.aclose()


async def test_start_raises_if_the_first_start_fails() -> None:
    engine = supervised(Broken, Time())
    with pytest.raises(EngineFault, match="There is no such model"):
        await engine.start()
    assert engine.health is Health.DEAD
    await engine.aclose()


async def test_with_insist_a_failed_first_start_is_retried() -> None:
    time = Time()
    engine = supervised(Workshop(Broken(), Broken()), time, insist=True)
    await engine.start()
    assert current(engine.health) is Health.DEAD
    await settle()
    await time.pass_(BACKOFF)
    await time.pass_(BACKOFF * 2)
    assert engine.health is Health.READY
    await engine.aclose()


async def test_a_poll_notices_a_death_and_a_new_engine_is_built(
    start: Start, time: Time, workshop: Workshop
) -> None:
    engine = await start()
    await time.pass_(POLL)
    assert len(workshop.built) == 1, "it lives: nothing to do"
    workshop.built[0].die()
    assert current(engine.health) is Health.DEAD
    await time.pass_(POLL)
    assert workshop.built[0].health is Health.CLOSED
    assert current(engine.health) is Health.DEAD
    await time.pass_(BACKOFF)
    assert engine.health is Health.READY
    assert engine.restarts == 1
    assert await texts(engine, job()) == ["[de]", " good", " morning"]


async def test_a_job_for_a_dead_engine_has_its_health_checked_at_once(
    start: Start, time: Time, workshop: Workshop
) -> None:
    engine = await start()
    workshop.built[0].hold()
    reading = asyncio.create_task(texts(engine, job()))
    await workshop.built[0].step()
    workshop.built[0].die()
    with pytest.raises(EngineGone):
        await reading
    await settle()
    await time.pass_(BACKOFF)
    assert len(workshop.built) == 2, "without a poll"


async def test_running_jobs_end_in_a_fault_when_a_death_is_noticed(
    start: Start, time: Time
) -> None:
    class Silent(ScriptedEngine):
        """An engine that dies without ending its jobs."""

        @property
        def health(self) -> Health:
            return Health.DEAD if self.gone else super().health

        gone = False

    silent = Silent()
    engine = await start(silent)
    silent.hold()
    reading = asyncio.create_task(texts(engine, job()))
    await silent.step()
    silent.gone = True
    await time.pass_(POLL)
    with pytest.raises(EngineGone):
        await reading


async def test_a_new_engine_must_translate_a_word_before_it_counts_as_ready() -> None:
    time = Time()
    sick_too = sick(EngineFault("It is broken."))
    workshop = Workshop(ScriptedEngine(), sick_too, sick(Overloaded("It is full.")))
    engine = supervised(workshop, time)
    engine.max_backoff = BACKOFF * 2
    await engine.start()
    await settle()
    workshop.built[0].die()
    await time.pass_(POLL)
    await time.pass_(BACKOFF)
    assert len(workshop.built) == 2
    assert (engine.health, sick_too.health) == (Health.DEAD, Health.CLOSED)
    await time.pass_(BACKOFF * 2)
    assert len(workshop.built) == 3
    assert current(engine.health) is Health.DEAD
    await time.pass_(BACKOFF * 2)  # and no longer, because of max_backoff
    assert engine.health is Health.READY
    assert engine.restarts == 1
    await engine.aclose()


async def test_a_new_engine_that_does_not_translate_within_the_hang_limit_is_abandoned(
    start: Start, time: Time
) -> None:
    first, silent = ScriptedEngine(), ScriptedEngine()
    silent.hold()
    engine = await start(first, silent)
    first.die()
    await time.pass_(POLL)
    await time.pass_(BACKOFF)
    await time.pass_(HANG - 1)
    assert current(engine.health) is Health.STARTING
    await time.pass_(1)
    assert (engine.health, silent.health) == (Health.DEAD, Health.CLOSED)
    await time.pass_(BACKOFF * 2)
    assert engine.health is Health.READY


async def test_closing_during_the_probe_of_a_new_engine_closes_that_engine(
    start: Start, time: Time, workshop: Workshop
) -> None:
    silent = ScriptedEngine()
    silent.hold()
    engine = await start(ScriptedEngine(), silent)
    workshop.built[0].die()
    await time.pass_(POLL)
    await time.pass_(BACKOFF)
    assert silent.unfinished == 1
    await engine.aclose()
    assert engine.health is silent.health is Health.CLOSED
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_name_and_profile_of_the_last_engine_stay_while_the_next_one_starts(
    start: Start, time: Time
) -> None:
    class Learning(ScriptedEngine):
        """An engine that knows the profile of its model only after its start."""

        @property
        def profile(self) -> Profile:
            return load("seed-x" if self.health is Health.STARTING else "nllb")

    first, second = Learning(), Learning()
    second.hold()
    engine = await start(first, second)
    assert engine.profile.name == "nllb"
    first.die()
    await time.pass_(POLL)
    await time.pass_(BACKOFF)
    assert engine.health is Health.STARTING
    assert engine.profile.name == "nllb"


def with_profile(profile: Profile) -> Engine:
    engine = ScriptedEngine()
    engine._profile, engine._health = profile, Health.READY
    return engine


@pytest.mark.parametrize("profile", ["chat", "nllb", "seed-x", "embedded"])
def test_the_probe_is_in_languages_that_the_model_has(profile: str) -> None:
    known = load(profile)
    probe = probe_job(with_profile(known))
    assert probe is not None and known.supports(probe.source, probe.target)
    assert probe.source != probe.target


def test_the_probe_of_a_model_without_english_uses_its_languages() -> None:
    profile = Profile(name="pair", kind="chat", pairs=(("fr", "fr"), ("ja", "zh")))
    probe = probe_job(with_profile(profile))
    assert probe is not None and (probe.source, probe.target) == ("ja", "zh")


def test_an_engine_without_a_ready_pair_is_not_probed() -> None:
    assert probe_job(ScriptedEngine()) is None, "it has not been started"


async def test_a_start_that_never_ends_is_given_up_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "LOAD_TIMEOUT", 0.01)
    engine = Supervisor(Loading)
    with pytest.raises(EngineFault, match="did not start within 0.01 s"):
        await engine.start()
    assert engine.health is Health.DEAD
    await engine.aclose()


async def test_every_change_of_health_is_reported_at_once() -> None:
    time, workshop = Time(), Workshop()
    engine = supervised(workshop, time)
    seen: list[Health] = []
    engine.changed = lambda: seen.append(engine.health)
    await engine.start()
    await settle()
    workshop.built[0].die()
    await time.pass_(POLL)
    await time.pass_(BACKOFF)
    await engine.aclose()
    states = [health.value for health in seen]
    assert states == ["starting", "ready", "dead", "starting", "ready", "closed"]


async def test_while_there_is_no_engine_jobs_are_refused_with_a_hint(
    start: Start, time: Time, workshop: Workshop
) -> None:
    loading = Loading()
    engine = await start(ScriptedEngine(), loading)
    workshop.built[0].die()
    with pytest.raises(EngineFault) as dead:
        await texts(engine, job())
    await settle()
    await time.pass_(BACKOFF)
    assert current(engine.health) is Health.STARTING
    with pytest.raises(EngineFault) as starting:
        await texts(engine, job())
    for caught in (dead, starting):
        assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE
        assert caught.value.hint
    loading.loaded.set()
    await settle()
    assert engine.health is Health.READY


async def test_the_backoff_grows_until_an_engine_was_stable(
    start: Start, time: Time, workshop: Workshop
) -> None:
    engine = await start(ScriptedEngine(), Broken(), Broken())

    async def die() -> float:
        workshop.built[-1].die()
        with pytest.raises(EngineFault):
            await texts(engine, job())
        await settle()
        return time.slept[-1]

    assert await die() == BACKOFF
    await time.pass_(BACKOFF)  # the first broken one
    await time.pass_(BACKOFF * 2)  # the second
    await time.pass_(BACKOFF * 4)
    assert engine.health is Health.READY
    assert await die() == BACKOFF * 8, "it was there, but not for long"
    await time.pass_(BACKOFF * 8)
    await time.pass_(STABLE_S)
    assert await die() == BACKOFF


def test_the_backoff_is_bounded() -> None:
    assert [backoff(tries) for tries in (0, 1, 2, 10_000)] == [1.0, 2.0, 4.0, BACKOFF_MAX]


async def test_an_unexpected_error_of_the_build_is_logged_with_its_traceback_and_retried(
    start: Start, time: Time, workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    engine = await start(ScriptedEngine(), RuntimeError("no memory"), Broken(OSError("no file")))
    workshop.built[0].die()
    await time.pass_(POLL)
    await time.pass_(BACKOFF)
    await time.pass_(BACKOFF * 2)
    await time.pass_(BACKOFF * 4)
    assert engine.health is Health.READY
    assert engine.restarts == 1
    await engine.aclose()
    traced = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert traced == [RuntimeError, OSError]


async def test_an_engine_that_cannot_be_closed_is_replaced_all_the_same(
    start: Start, time: Time, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck(ScriptedEngine):
        async def aclose(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(supervisor, "CLOSE_TIMEOUT", 0)

    stuck = Stuck()
    engine = await start(stuck)
    stuck.die()
    await time.pass_(POLL)
    while engine.health is not Health.READY:
        await time.pass_(BACKOFF)
    await engine.aclose()
    assert "did not close" in caplog.text


async def test_abort_reaches_the_current_engine(start: Start, workshop: Workshop) -> None:
    engine = await start()
    workshop.built[0].hold()
    reading = asyncio.create_task(texts(engine, job()))
    await workshop.built[0].step()
    engine.abort("j1")
    assert engine.unfinished == 0
    with pytest.raises(EngineFault):
        await reading


async def test_closing_ends_the_supervision_and_the_engine(
    start: Start, time: Time, workshop: Workshop
) -> None:
    engine = await start()
    await engine.aclose()
    await engine.aclose()
    assert engine.health is workshop.built[0].health is Health.CLOSED
    with pytest.raises(EngineGone):
        await texts(engine, job())
    await time.pass_(POLL)
    assert len(workshop.built) == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_during_a_rebuild_closes_the_new_engine(
    start: Start, time: Time, workshop: Workshop
) -> None:
    loading = Loading()
    engine = await start(ScriptedEngine(), loading)
    workshop.built[0].die()
    await time.pass_(POLL)
    await time.pass_(BACKOFF)
    assert current(engine.health) is Health.STARTING
    await engine.aclose()
    assert engine.health is loading.health is Health.CLOSED


async def test_closing_before_the_start_is_allowed() -> None:
    engine = supervised(ScriptedEngine, Time())
    await engine.aclose()
    assert engine.health is Health.CLOSED


async def test_a_supervisor_that_fails_is_logged_and_supervises_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "RESTART_S", 0.0)
    faults = [ValueError("a fault of the engine's own code")]

    class Odd(ScriptedEngine):
        @property
        def health(self) -> Health:
            if faults:
                raise faults.pop()
            return Health.READY

    engine = supervised(Odd, Time())
    await engine.start()
    await until(lambda: not faults and "the supervisor of an engine failed" in caplog.text)
    assert engine._task is not None and not engine._task.done()
    engine.require_ready()
    await engine.aclose()
