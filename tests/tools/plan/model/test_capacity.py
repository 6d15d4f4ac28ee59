"""The formulas of a plan."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from caption_tools.plan.model.capacity import EngineQueue, queue_of, rough
from caption_tools.plan.model.load import MeetingLoad
from tests.tools.plan.model.examples import CORE, WORK, engine, planned

NEEDS = ("engines", "processes", "cores in use", "memory", "network", "events", "frames")
LOADS = st.builds(
    MeetingLoad,
    meetings=st.integers(1, 100_000),
    speakers=st.integers(1, 20),
    readers=st.integers(0, 2_000_000),
    languages=st.integers(1, 16),
    talk=st.floats(0.05, 1.0),
    growing=st.booleans(),
)


@given(LOADS, st.sampled_from(["meetings", "speakers", "readers", "languages", "talk"]))
def test_more_of_anything_never_needs_less(load: MeetingLoad, what: str) -> None:
    more = replace(
        load, **{what: min(1.0, 2 * load.talk) if what == "talk" else 2 * getattr(load, what)}
    )
    before, after = planned(load), planned(more)
    # Each reader reads one language, so with more languages there are as many frames for each.
    for name in NEEDS:
        assert after[name] >= before[name] * (1 - 1e-9), name


@given(LOADS)
def test_every_process_keeps_below_its_bounds(load: MeetingLoad) -> None:
    plan = planned(load)
    assert plan["cores in use"] <= 0.5 * plan["processes"] + 1e-9
    assert plan["sockets"] <= 10_000 * plan["processes"]
    assert plan["processes of a room"] <= plan["processes"]


def test_figures_of_one_meeting_follow_from_each_other() -> None:
    plan = planned(MeetingLoad(meetings=1, speakers=1, readers=8, languages=2, talk=0.8, pace=120))
    assert plan["utterances"] == pytest.approx(0.1)
    assert plan["captions"] == pytest.approx(0.2)
    assert plan["jobs"] == pytest.approx(1.0)
    assert plan["tokens"] == pytest.approx(0.2 * 48 * 1.5)
    assert plan["events"] == pytest.approx(14.4 * 0.5 + 0.2 + 0.1)
    # Each of the 8 readers reads one of two languages and the original, the speaker reads all.
    assert plan["frames"] == pytest.approx(8 * (7.4 / 2 + 0.1) + 7.5)
    assert (plan["engines"], plan["processes"], plan["sockets"]) == (1, 1, 9)


def test_redis_is_planned_for_several_processes_only() -> None:
    assert "redis" not in {row.name for row in planned(MeetingLoad(meetings=1)).rows}
    plan = planned(MeetingLoad(meetings=1, readers=50_000))
    assert plan["processes of a room"] == 5
    assert plan["redis"] > 0


def test_more_than_one_redis_is_said() -> None:
    assert not any("Redis" in line for line in planned(MeetingLoad(meetings=1_000)).limits)
    assert any("one thread" in line for line in planned(MeetingLoad(meetings=100_000)).limits)


def test_a_room_that_fills_a_core_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be divided"):
        planned(core=replace(CORE, event_us=1e6))


@given(st.floats(0.0, 7.9), st.floats(0.0, 1.0))
def test_waits_grow_with_load(running: float, share: float) -> None:
    queue = EngineQueue(running=running, slots=8, share=share, service=1.0)
    fuller = replace(queue, running=running + 0.05)
    for final in (True, False):
        assert fuller.wait(0.95, final=final) >= queue.wait(0.95, final=final)
        assert queue.wait(0.95, final=final) >= queue.wait(0.5, final=final)
    assert queue.wait(0.95, final=False) >= queue.wait(0.95, final=True)


def test_the_chance_of_waiting_is_erlangs() -> None:
    # Erlang C of 2 erlangs and 3 servers is 4/9; of one server it is its load.
    assert EngineQueue(running=2, slots=3, share=1, service=1).waiting == pytest.approx(4 / 9)
    assert EngineQueue(running=0.3, slots=1, share=1, service=1).waiting == pytest.approx(0.3)


def test_an_engine_without_jobs_has_no_waits_and_one_with_too_many_endless_ones() -> None:
    assert EngineQueue(running=0.0, slots=4, share=1, service=1).wait(0.95, final=True) == 0
    full = EngineQueue(running=9.0, slots=4, share=1, service=1)
    assert full.wait(0.95, final=True) == math.inf
    assert full.waiting == 1


def test_the_jobs_of_an_engine_are_those_that_come_while_one_runs() -> None:
    queue = queue_of(engine(slots=8, tokens_s=200), jobs=8.0, tokens=20.0, share=0.5)
    assert queue.running == pytest.approx(8.0 * queue.service, rel=1e-6)
    assert 1 < queue.running < 8


def test_an_engine_of_a_plan_is_used_to_its_share_at_most() -> None:
    assert planned(MeetingLoad(meetings=500))["use of slots"] <= 0.7


def test_finals_alone_need_fewer_engines() -> None:
    plan = planned(MeetingLoad(meetings=500))
    assert plan["engines for finals"] < plan["engines"]
    whole = planned(
        MeetingLoad(meetings=500, growing=False), replace(WORK, partials=0.0, made=16.0)
    )
    assert whole["engines for finals"] == whole["engines"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (7, "7"), (0.0523, "0.052"), (1.26, "1.3"), (12.6, "13"), (99, "99"),
        (126, "130"), (1_234_567, "1,200,000"), (math.inf, "endless"),
    ],
)  # fmt: skip
def test_a_figure_has_two_digits(value: float, text: str) -> None:
    assert rough(value) == text
