"""The simulation of an engine and of the gateway in front of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from caption_tools.plan.command import speech
from caption_tools.plan.model.load import MeetingLoad
from caption_tools.plan.model.simulation import Simulation, SimulationReport, of_share
from gateway.limits import Limits
from tests.tools.plan.model.examples import CORE, engine, planned, whole

ROOMY = Limits(stretch=1e6, queue=100_000)
"""Limits with which nothing is an overload."""
LOAD = MeetingLoad(meetings=4, speakers=2, languages=2)


def simulated(
    rate: float,
    *,
    load: MeetingLoad = LOAD,
    slots: int = 8,
    seed: int = 0,
    seconds: float = 40,
    limits: Limits | None = None,
) -> SimulationReport:
    plan = replace(load.plan(rate, seconds, load.meetings), seed=seed)
    return Simulation(plan, speech(plan), engine(slots, tokens_s=slots * 50.0), limits=limits).run()


def test_without_a_queue_a_final_takes_as_long_as_its_words() -> None:
    found = simulated(0.2, slots=64)
    assert found.queue == 0
    assert found.refused == 0
    assert found.final.mean == pytest.approx(found.engine, rel=0.01)


@settings(max_examples=15, deadline=None)
@given(st.floats(0.2, 4.0), st.integers(2, 12), st.integers(0, 9))
def test_littles_law_holds(rate: float, slots: int, seed: int) -> None:
    found = simulated(rate, slots=slots, seed=seed, seconds=20)
    assert found.jobs == pytest.approx(found.jobs_s * found.job)


def test_waits_grow_with_load_and_growing_texts_are_skipped() -> None:
    low, middle, high = (simulated(1.5, slots=slots, limits=ROOMY) for slots in (24, 6, 3))
    assert low.queue <= middle.queue <= high.queue
    assert low.final.p95 <= middle.final.p95 <= high.final.p95
    assert low.partials > middle.partials > high.partials


def test_a_text_that_comes_while_a_translation_runs_is_translated_after_it() -> None:
    plan = LOAD.plan(0.3, 40, 4)
    fast = replace(engine(64), tokens_s=1e6)
    slow = replace(fast, first_ms=700, token_ms=300)
    often, seldom = (
        Simulation(plan, speech(plan), figures, limits=ROOMY).run() for figures in (fast, slow)
    )
    assert 0 < seldom.partials < often.partials
    assert seldom.queue == often.queue == 0


def test_in_overload_utterances_are_refused_and_the_rest_is_translated() -> None:
    found = simulated(20.0, slots=2)
    assert 0 < found.refused < found.utterances
    assert found.final.count > 0


def test_whole_texts_have_a_first_text_and_no_growing_one() -> None:
    found = simulated(1.0, load=replace(LOAD, growing=False))
    assert found.partials == found.grown.count == 0
    assert found.first.count == found.final.count
    assert found.first.p50 < found.final.p50


def test_growing_texts_have_their_first_text_before_they_end() -> None:
    found = simulated(0.3)
    assert found.grown.p50 > found.first.p50
    assert found.grown.p50 < 3_000


def test_a_gateway_that_writes_to_many_readers_is_late() -> None:
    plan = LOAD.plan(0.5, 30.0, 4)
    few, many = (
        Simulation(plan, speech(plan), engine(), CORE, processes=2, readers=readers).run()
        for readers in (1, 2_000)
    )
    assert many.final.p50 > few.final.p50 + 20
    assert many.queue == few.queue


@pytest.mark.parametrize("meetings", [1, 40])
def test_one_engine_and_its_share_of_a_plan_are_simulated(meetings: int) -> None:
    load = MeetingLoad(meetings=meetings, languages=16 if meetings == 1 else 2)
    figures = engine(slots=2, tokens_s=60)
    plan = planned(load, figures=figures)
    assert plan["engines"] > 1
    found = of_share(load, plan, whole(load, figures), CORE, 20.0, speech)
    share = 1.0 if meetings == 1 else 1 / plan["engines"]
    assert found.utterances == pytest.approx(20 * plan["utterances"] * share, rel=0.9)
    assert found.captions_s > 0
