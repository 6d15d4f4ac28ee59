"""Tests of the fallback: which engine translates, and how failed jobs are repeated."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.engines.base.engine import Aborted
from gateway.engines.base.service import Health
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.engines.wrappers.route import EngineRoute
from gateway.engines.wrappers.routed import RoutedEngine
from gateway.engines.wrappers.supervised import Supervisor
from gateway.errors import EngineFault, EngineGone, JobFault, Overloaded
from gateway.job import Chunk, Job
from tests.engines.reading import chunks as read
from tests.engines.reading import started
from tests.engines.workshop import (
    Broken,
    Loading,
    Named,
    Time,
    lane,
    settle,
    substitutes,
    with_spare,
)
from tests.support.typed import current


def job(id: str = "j1", target: str = "de", **fields: Any) -> Job:
    return Job(id=id, text="good morning", source="en", target=target, **fields)


class Second(ScriptedEngine):
    """An engine with two languages and an output that differs from the primary's."""

    def __init__(self, **options: Any) -> None:
        super().__init__({("good morning", "de"): ["Guten", " Tag"]}, languages=("en", "de"))
        self.given: list[Job] = []

    @property
    def name(self) -> str:
        return "second"

    def pieces(self, job: Job) -> list[str]:
        self.given.append(job)
        return super().pieces(job)


async def text(engine: RoutedEngine, job: Job) -> str:
    shown = ""
    for chunk in await read(engine, job):
        shown = chunk.text if chunk.reset else shown + chunk.text
    return shown


async def test_the_primary_translates_while_it_is_ready() -> None:
    engine = with_spare(ScriptedEngine(capacity=3), Second())
    await engine.start()
    await settle()
    assert (engine.name, engine.capacity, engine.substitute) == ("scripted", 3, None)
    assert await text(engine, job()) == "[de] good morning"
    assert engine.unfinished == 0
    await engine.aclose()


async def test_the_secondary_translates_until_the_primary_is_loaded() -> None:
    first = Loading()
    engine = with_spare(first, Second())
    told = substitutes(engine)
    assert current(engine.health) is Health.STARTING
    await engine.start()
    assert engine.health is Health.READY
    assert (engine.name, engine.substitute, engine.capacity) == ("scripted", "second", 16)
    assert await text(engine, job()) == "Guten Tag"
    first.loaded.set()
    await settle()
    assert await text(engine, job()) == "[de] good morning"
    assert told == ["second", None]
    await engine.aclose()


async def test_a_primary_that_cannot_be_started_is_retried_for_ever() -> None:
    time, broken = Time(), Broken()
    first = Supervisor(
        lambda: broken, insist=True, sleep=time.sleep, clock=time.clock, chance=lambda: 1.0
    )
    engine = with_spare(first, Second())
    await engine.start()
    await settle()
    broken.error = RuntimeError("a bug")
    await time.pass_(1)
    assert engine.substitute == "second"
    await time.pass_(2)
    await time.pass_(4)
    assert time.slept == [1, 2, 4, 8]
    await engine.aclose()
    assert len(asyncio.all_tasks()) == 1


async def test_a_job_of_a_dying_primary_is_repeated_by_the_secondary() -> None:
    first = ScriptedEngine()
    engine = with_spare(first, Second())
    await engine.start()
    await settle()
    first.hold()
    reading = asyncio.create_task(read(engine, job()))
    await first.step()
    first.die()
    chunks = await reading
    assert [(chunk.text, chunk.reset, chunk.flags) for chunk in chunks] == [
        ("[de]", False, ()),
        ("Guten", True, ()),
        (" Tag", False, ()),
        ("", False, ("engine:second",)),
    ]
    assert [part.stats()["taken_over"] for part in engine.parts.values()] == [0, 1]
    await engine.aclose()


async def test_output_of_the_primary_is_voided_even_if_the_secondary_has_none() -> None:
    first = ScriptedEngine(fault=failing(EngineGone("It died."), at=1))
    second = Second()
    second.script = {("good morning", "de"): []}
    engine = with_spare(first, second)
    await engine.start()
    await settle()
    assert await text(engine, job()) == ""
    await engine.aclose()


async def test_the_secondary_gets_the_forced_prefix_without_the_ids_of_the_primary() -> None:
    second = Second()
    engine = with_spare(Loading(), second)
    await engine.start()
    assert await text(engine, job(prefix="Guten", prefix_ids=(1, 2))) == " Tag"
    assert (second.given[0].prefix, second.given[0].prefix_ids) == ("Guten", ())
    await engine.aclose()


async def test_a_job_in_a_language_that_the_secondary_lacks_ends_in_a_fault() -> None:
    second = Second()
    engine = with_spare(Loading(), second)
    await engine.start()
    await read(engine, job(target="de-AT"))
    assert second.given[0].target == "de"
    with pytest.raises(EngineFault, match="No engine is ready to translate en into fr"):
        await read(engine, job(target="fr"))
    await engine.aclose()


async def test_a_job_that_the_secondary_cannot_translate_ends_in_the_fault_of_the_primary() -> None:
    fault = failing(EngineGone("It died."), times=2)
    engine = with_spare(ScriptedEngine(fault=fault), Second())
    await engine.start()
    await settle()
    with pytest.raises(EngineGone, match="It died"):
        await read(engine, job(target="fr"))
    await engine.routes[1].aclose()
    with pytest.raises(EngineGone, match="It died"):
        await read(engine, job())
    await engine.aclose()


async def test_a_job_that_the_primary_refuses_for_its_text_is_not_repeated() -> None:
    fault = failing(JobFault("Such a text is refused."))
    engine = with_spare(ScriptedEngine(fault=fault), Second())
    await engine.start()
    await settle()
    with pytest.raises(JobFault, match="refused"):
        await read(engine, job())
    await engine.aclose()


@pytest.mark.parametrize(
    "fault", [EngineFault("It is broken."), EngineGone("It died."), Overloaded("It is full.")]
)
@pytest.mark.parametrize("at", [0, 1])
async def test_a_job_that_fails_on_the_primary_is_repeated_without_doubled_text(
    fault: EngineFault, at: int
) -> None:
    engine = with_spare(ScriptedEngine(fault=failing(fault, at=at)), Second())
    await engine.start()
    await settle()
    *chunks, last = await read(engine, job())
    assert [chunk.reset for chunk in chunks] == ([False, True, False] if at else [False] * 2)
    assert last == Chunk("", 0, flags=("engine:second",))
    assert "".join(chunk.text for chunk in chunks[at:]) == "Guten Tag"
    assert engine.routes[1].takeovers == 1
    await engine.aclose()


async def test_only_a_caption_of_another_engine_than_the_chosen_one_says_which() -> None:
    first = Named("first")
    engine = with_spare(first, Second())
    async with started(engine):
        await settle()
        assert [chunk.flags for chunk in await read(engine, job()) if chunk.flags] == []
        first.die()
        assert (await read(engine, job()))[-1].flags == ("engine:second",)
        partial = await read(engine, job(partial=True))
        assert [chunk.flags for chunk in partial if chunk.flags] == [], "its final will say so"


async def test_a_job_that_fails_on_both_engines_ends_once() -> None:
    second = Second()
    second.fault = failing(EngineFault("The second is broken, too."))
    first = ScriptedEngine(fault=failing(EngineFault("It is broken.")))
    engine = with_spare(first, second)
    await engine.start()
    await settle()
    with pytest.raises(EngineFault, match="too"):
        await read(engine, job())
    await engine.aclose()


async def test_abort_reaches_a_job_that_the_secondary_took_over() -> None:
    first, second = ScriptedEngine(), Second()
    engine = with_spare(first, second)
    await engine.start()
    await settle()
    first.hold()
    second.hold()
    reading = asyncio.create_task(read(engine, job()))
    await settle()
    first.die()
    assert (second.unfinished, engine.routes[1].takeovers) == (1, 1)
    engine.abort("j1")
    assert engine.unfinished == 0
    with pytest.raises(Aborted):
        await reading
    assert list(second.aborted) == ["j1"]
    await engine.aclose()


async def test_a_supervised_primary_reports_its_death_and_return_without_a_job() -> None:
    time = Time()
    first = Supervisor(
        ScriptedEngine, insist=True, sleep=time.sleep, clock=time.clock, chance=lambda: 1.0
    )
    engine = with_spare(first, Second())
    told = substitutes(engine)
    await engine.start()
    await settle()
    inner = first.engine
    assert isinstance(inner, ScriptedEngine)
    inner.die()
    await time.pass_(1)
    assert told[-1:] == ["second"]
    await time.pass_(1)
    assert told[-2:] == ["second", None]
    await engine.aclose()
    assert engine.health is Health.CLOSED
    assert {route.health for route in engine.routes} == {Health.CLOSED}


async def test_an_engine_can_be_closed_before_it_is_started() -> None:
    engine = with_spare(ScriptedEngine(), Second())
    await engine.aclose()
    assert engine.health is Health.CLOSED


async def test_the_fallback_of_one_engine_is_named_in_its_place() -> None:
    first, second = Named("first", capacity=3), Named("second", languages=("en", "ja"))
    spare = Named("spare", languages=("en", "de"))
    routes = [EngineRoute("a", first), EngineRoute("a2", spare, spare=True)]
    engine = RoutedEngine([*routes, EngineRoute("b", second)])
    async with started(engine):
        assert (engine.name, engine.substitute, engine.capacity) == ("first, second", None, 19)
        assert lane(engine) == ("a",)
        first.die()
        engine.update()
        assert (engine.substitute, engine.capacity) == ("spare, second", 32)
        assert lane(engine) == ("a2",) and not engine.serves("en", "fr")


async def test_a_fallback_that_is_given_other_pairs_does_not_work_instead() -> None:
    first, spare = Named("first"), Named("spare")
    engine = RoutedEngine(
        [
            *(EngineRoute("a", first), EngineRoute("b", Named("second"))),
            EngineRoute("c", spare, pairs=(("en", "de"),), spare=True),
        ]
    )
    async with started(engine):
        first.die()
        engine.update()
        assert engine.substitute == "second"


async def test_a_pair_that_only_the_fallback_has_is_its_own() -> None:
    first, spare = Named("first", languages=("en", "de")), Named("spare", languages=("en", "fr"))
    engine = with_spare(first, spare)
    async with started(engine):
        assert engine.profile.supports("en", "fr") and engine.profile.targets == ("en", "de", "fr")
        await text(engine, Job(id="j1", text="hello", source="en", target="fr"))
        assert (list(spare.started), engine.substitute) == (["j1"], None)


class Unprepared(Named):
    """An engine without the models of its pairs, until it is told."""

    def __init__(self) -> None:
        super().__init__("unprepared")
        self.pairs: set[tuple[str, str]] = set()
        self.asked: list[tuple[str, str]] = []

    def serves(self, source: str, target: str) -> bool:
        return super().serves(source, target) and (source, target) in self.pairs

    def prepare(self, source: str, target: str) -> None:
        self.asked.append((source, target))


async def test_the_fallback_translates_a_pair_until_the_engine_has_its_model() -> None:
    first = Unprepared()
    engine = with_spare(first, Named("spare"))
    async with started(engine):
        assert (engine.substitute, first.asked) == (None, [])
        await text(engine, job())
        assert (engine.substitute, first.asked) == ("unprepared, spare", [("en", "de")])
        first.pairs.add(("en", "de"))
        first.changed()
        assert current(engine.substitute) is None
        await text(engine, job("2"))
        assert list(first.started) == ["2"]


async def test_without_a_fallback_a_job_begins_to_prepare_its_pair_and_fails() -> None:
    first = Unprepared()
    engine = RoutedEngine([EngineRoute("a", first)])
    async with started(engine):
        with pytest.raises(EngineFault, match="No engine is ready to translate en into de"):
            await text(engine, job())
        assert (engine.substitute, first.asked) == (None, [("en", "de")])
