"""Tests of several engines: which one gets a job, and what happens while one is gone."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caption_gateway.testing.subject import RecordingSink
from gateway.engines.base.engine import Aborted
from gateway.engines.base.service import Health
from gateway.engines.scripted import failing
from gateway.engines.wrappers import route as module
from gateway.engines.wrappers.route import EngineRoute, Pairs
from gateway.engines.wrappers.routed import RoutedEngine
from gateway.errors import EngineFault, EngineGone, ErrorCode, JobFault
from gateway.job import Job
from tests.engines.reading import chunks, job, read, started
from tests.engines.workshop import Loading, Named, lane, settle
from tests.support.live import running
from tests.support.talk import talk
from tests.support.typed import current


def two(**options: Any) -> tuple[Named, Named, RoutedEngine]:
    one, other = Named("one", **options), Named("other", **options)
    return one, other, RoutedEngine([EngineRoute("one", one), EngineRoute("other", other)])


def submit(engine: RoutedEngine, count: int, **fields: Any) -> list[RecordingSink]:
    return [RecordingSink().submit(engine, job(f"j{n}", **fields)) for n in range(count)]


# --- the choice --------------------------------------------------------------------------------


async def test_engines_of_one_size_get_jobs_in_turn() -> None:
    one, other, engine = two(held=True)
    async with started(engine):
        submit(engine, 6)
        assert (one.unfinished, other.unfinished, engine.unfinished) == (3, 3, 6)


async def test_a_job_goes_to_an_engine_that_has_its_pair() -> None:
    german, french = Named(languages=("en", "de")), Named("french", languages=("en", "fr"))
    engine = RoutedEngine([EngineRoute("german", german), EngineRoute("french", french)])
    async with started(engine):
        assert engine.serves("en", "de") and not engine.serves("de", "fr")
        for target in ("de", "fr", "de"):
            await read(engine, Job(id=target, text="hello", source="en", target=target))
        assert (list(german.started), list(french.started)) == (["de", "de"], ["fr"])
        assert engine.profile.targets == ("en", "de", "fr")
        assert engine.profile.pivot is None and not engine.profile.supports("de", "fr")


async def test_the_pairs_of_a_route_narrow_those_of_its_model() -> None:
    one, other = Named(), Named("other")
    engine = RoutedEngine(
        [
            EngineRoute("one", one, pairs=(("*", "de"), ("ja", "zh"))),
            EngineRoute("other", other, pairs=(("en", "*"),)),
        ]
    )
    assert [engine.profile.supports(*pair) for pair in (("fr", "de"), ("ja", "zh"))] == [True] * 2
    assert not engine.profile.supports("ja", "en")
    async with started(engine):
        assert lane(engine) == ("one", "other")
        assert lane(engine, "en", "fr-CA") == ("other",)
        assert lane(engine, "fr", "de-AT") == ("one",)
        assert lane(engine, "ja", "en") == ()


async def test_a_job_gets_the_tags_that_its_engine_has() -> None:
    seen: list[Job] = []
    brazil = Named(languages=("en", "pt-BR"), fault=lambda job, _: seen.append(job))
    engine = RoutedEngine([EngineRoute("one", brazil)])
    async with started(engine):
        await read(engine, Job(id="1", text="hello", source="en-GB", target="pt", prefix_ids=(1,)))
        assert (seen[0].source, seen[0].target, seen[0].prefix_ids) == ("en", "pt-BR", ())


async def test_a_growing_text_stays_with_one_engine_while_that_is_not_much_busier() -> None:
    one, other, engine = two(held=True, capacity=8)
    async with started(engine):
        rooms = [engine.choose(job(room=f"room-{n}")) for n in range(40)]
        assert {rooms.count(route) for route in engine.routes} <= {*range(12, 29)}
        home = engine.choose(job(room="r"))
        submit(engine, 5, room="r")
        assert sorted((one.unfinished, other.unfinished)) == [1, 4]
        assert home is not None and home.jobs == 4


async def test_rooms_of_an_engine_move_when_it_is_gone_and_no_others_do() -> None:
    engines = [Named(str(n)) for n in range(3)]
    engine = RoutedEngine([EngineRoute(one.name, one) for one in engines])
    jobs = [job(room=f"room-{n}") for n in range(30)]
    async with started(engine):
        before = [engine.choose(one) for one in jobs]
        engines[0].die()
        after = [engine.choose(one) for one in jobs]
    moved = [old for old, new in zip(before, after, strict=True) if old is not new]
    assert moved and set(moved) == {engine.routes[0]}


async def test_a_weight_is_a_share_of_the_jobs() -> None:
    one, other = Named(held=True, capacity=100), Named("other", held=True, capacity=100)
    engine = RoutedEngine(
        [EngineRoute("one", one, weight=1.0), EngineRoute("other", other, weight=1.5)]
    )
    async with started(engine):
        submit(engine, 100)
        assert one.unfinished < 30 < 70 < other.unfinished


async def test_a_full_engine_gets_a_job_only_if_all_are_full() -> None:
    small, large = Named(held=True, capacity=1), Named("large", held=True, capacity=3)
    routes = [EngineRoute("small", small, weight=100.0), EngineRoute("large", large)]
    engine = RoutedEngine(routes)
    async with started(engine):
        assert engine.capacity == 4
        submit(engine, 3)
        assert (small.unfinished, large.unfinished) == (1, 2)
        assert [route.free for route in engine.routes] == [0, 1]
        submit(engine, 2)
        assert small.unfinished == 2


states = st.lists(
    st.tuples(
        st.booleans(),  # ready
        st.booleans(),  # has the pair
        st.integers(1, 8),  # capacity
        st.integers(0, 12),  # jobs
        st.floats(0.01, 100.0),  # weight
    ),
    min_size=1,
    max_size=6,
)


@given(states)
def test_the_chosen_engine_is_ready_and_none_other_with_a_slot_has_less_load(
    given: list[tuple[bool, bool, int, int, float]],
) -> None:
    """The property, written out from the definition: no other able engine has less load."""
    routes = []
    for n, (ready, able, capacity, jobs, weight) in enumerate(given):
        engine = Named(languages=("en", "de" if able else "fr"), capacity=capacity)
        engine._health = Health.READY if ready else Health.DEAD
        route = EngineRoute(f"{n}", engine, weight=weight)
        route.jobs = jobs
        routes.append(route)
    chosen = RoutedEngine(routes).choose(job())
    able_routes = [
        (route, row) for route, row in zip(routes, given, strict=True) if row[0] and row[1]
    ]
    if not able_routes:
        assert chosen is None
        return

    def load(row: tuple[bool, bool, int, int, float]) -> float:
        _, _, capacity, jobs, weight = row
        return (1 + jobs / capacity) / weight

    free = [(route, row) for route, row in able_routes if row[3] < row[2]] or able_routes
    best = min(load(row) for _, row in free)
    assert chosen in [route for route, row in free if load(row) <= best * 1.000001]


def test_the_model_of_a_route_is_asked_once_for_each_pair() -> None:
    route, asked = EngineRoute("one", Named()), module._takes.cache_info().misses
    for tag in ("de", "fr", "es", "it", "ja", "ko"):
        assert route.takes("en", tag) and route.takes("en", tag)
    assert module._takes.cache_info().misses == asked + 6


# --- engines that fail -------------------------------------------------------------------------


async def test_a_job_of_a_dying_engine_is_repeated_by_another_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    one, other, engine = two()
    one.hold()
    async with started(engine):
        reading = asyncio.create_task(chunks(engine, job(text="good morning")))
        await one.step()
        one.die()
        found = await reading
        assert [(chunk.text, chunk.reset) for chunk in found[:-1]] == [
            *(("[de]", False), ("[de]", True), (" good", False), (" morning", False))
        ]
        assert found[-1].flags == ("engine:other",)
        assert [route.jobs for route in engine.routes] == [0, 0]
        assert "is repeated by other" in caplog.text and "good" not in caplog.text


async def test_a_job_that_two_engines_fail_at_has_failed() -> None:
    one, other, engine = two()
    async with started(engine):
        one.hold()
        other.hold()
        (taken,) = submit(engine, 1)
        one.die()
        other.die()
        await taken.over.wait()
        assert isinstance(taken.fault, EngineGone)
        assert [route.jobs for route in engine.routes] == [0, 0]


async def test_a_text_that_one_engine_refuses_is_not_given_to_another() -> None:
    one, other, engine = two(fault=failing(JobFault("No.", ErrorCode.TOO_LONG), times=9))
    async with started(engine):
        with pytest.raises(JobFault):
            await read(engine, job())
        assert not other.started


async def test_pairs_of_a_dead_engine_go_to_the_others_until_it_is_back() -> None:
    one, other, engine = two(capacity=3)
    told: list[str | None] = []
    engine.changed = lambda: told.append(engine.substitute)
    async with started(engine):
        assert (engine.name, engine.substitute, engine.capacity) == ("one, other", None, 6)
        one.die()
        engine.update()
        assert (engine.substitute, engine.capacity, engine.health) == ("other", 3, Health.READY)
        assert lane(engine) == ("other",)
        await read(engine, job())
        assert not one.started
        await one.start()
        engine.update()
        assert told == [None, "other", None]


async def test_pairs_that_only_a_dead_engine_has_fail_at_once() -> None:
    german, french = Named(languages=("en", "de")), Named("f", languages=("en", "fr"))
    engine = RoutedEngine([EngineRoute("german", german), EngineRoute("french", french)])
    async with started(engine):
        german.die()
        with pytest.raises(
            EngineFault, match="No engine is ready to translate en into de"
        ) as caught:
            await read(engine, job())
        assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE
        assert lane(engine) == ()
        assert engine.profile.supports("en", "de"), "the engine may come back"


@pytest.mark.parametrize(
    ("pairs", "others", "reduced"),
    [
        (None, (("en", "de"),), True),
        ((("en", "de"), ("en", "ja")), (("en", "de"),), True),
        ((("en", "de"),), (("en", "ja"), ("en", "de")), False),
        ((("en", "de"),), None, False),
        (None, None, False),
    ],
)
async def test_a_dead_engine_is_missed_unless_its_twin_has_all_its_pairs(
    pairs: Pairs | None, others: Pairs | None, reduced: bool
) -> None:
    dying, twin = Named(), Named()
    engine = RoutedEngine(
        [EngineRoute("a", dying, pairs=pairs), EngineRoute("b", twin, pairs=others)]
    )
    async with started(engine):
        dying.die()
        engine.update()
        assert engine.substitute == ("one" if reduced else None)
        await dying.start()
        engine.update()
        assert current(engine.substitute) is None


async def test_readers_of_a_dead_engine_are_told_although_a_restricted_twin_lives() -> None:
    dying, twin = Named(), Named()
    engine = RoutedEngine([EngineRoute("a", dying), EngineRoute("b", twin, pairs=(("en", "de"),))])
    async with running(engine) as live, talk(live, "?room=demo&to=ja") as reader:
        welcome = await reader.next()
        dying.die()
        engine.update()
        told = (await reader.until("degraded"))[-1]
        assert told["engine"] == welcome["engine"] == "one"
        await dying.start()
        engine.update()
        assert "engine" not in (await reader.until("degraded"))[-1]


async def test_while_no_engine_works_nothing_is_reported_to_be_back() -> None:
    one, other, engine = two(capacity=3)
    async with started(engine):
        for dying in (one, other):
            dying.die()
            engine.update()
        assert engine.substitute == "other"
        assert engine.health is Health.DEAD
        assert engine.capacity == 6, "its jobs fail at once instead of waiting"


# --- life --------------------------------------------------------------------------------------


async def test_engines_start_side_by_side_and_all_are_waited_for() -> None:
    first, second = Loading(), Loading()
    engine = RoutedEngine([EngineRoute("first", first), EngineRoute("second", second)])
    starting = asyncio.create_task(engine.start())
    second.loaded.set()
    await settle()
    assert current(second.health) is Health.READY, "it does not wait for the first"
    assert current(engine.health) is Health.STARTING and not starting.done()
    first.loaded.set()
    await starting
    assert current(engine.health) is Health.READY
    await engine.aclose()
    assert engine.health is Health.CLOSED


async def test_a_gateway_whose_engines_are_all_restarting_is_not_ready() -> None:
    one, other, engine = two()
    async with started(engine):
        one.die()
        other._health = Health.STARTING
        assert engine.health is Health.STARTING


async def test_an_abort_reaches_the_engine_that_has_the_job() -> None:
    one, other, engine = two(held=True)
    async with started(engine):
        first, second = submit(engine, 2)
        engine.abort("j1")
        assert isinstance(second.fault, Aborted) and list(other.aborted) == ["j1"]
        assert (first.fault, one.unfinished) == (None, 1)
        assert [route.jobs for route in engine.routes] == [1, 0]


async def test_engines_are_counted_one_by_one() -> None:
    one, other, engine = two()
    assert list(engine.parts) == [part.name for part in (one, other)] == ["one", "other"]
    assert engine.lanes == engine.lane and engine.stats() == {}
    async with started(engine):
        assert engine.profile is engine.profile
