"""The statistics of `benchmarks.crowd`, and the scripted steps of the benchmarks."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.crowd import interval, verdict
from benchmarks.stepper import SOURCE, TOKENS, Plan, Stepper
from gateway.errors import EngineFault
from gateway.job import Chunk, Job

TURNS = 200
"""Turns of the event loop, far more than a step that is due takes."""


class Count:
    """A sink that counts."""

    def __init__(self) -> None:
        self.chunks = 0
        self.begun = asyncio.Event()
        self.over = asyncio.Event()

    def chunk(self, chunk: Chunk) -> None:
        self.chunks += 1
        self.begun.set()

    def end(self, fault: EngineFault | None) -> None:
        assert fault is None
        self.over.set()


def job(id: str) -> Job:
    return Job(id=id, text=SOURCE, source="en", target="de")


def test_the_third_and_tenth_of_twelve_values_hold_the_median_in_95_of_100_samples() -> None:
    assert interval([float(n) for n in range(1, 13)]) == [6.5, 3, 10]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80))
def test_an_interval_holds_its_median_and_below_six_values_all_of_them(values: list[float]) -> None:
    median, low, high = interval(values)
    assert min(values) <= low <= median <= high <= max(values)
    if len(values) < 6:
        assert (low, high) == (min(values), max(values))


def test_a_goal_that_the_interval_straddles_is_neither_met_nor_missed() -> None:
    assert verdict([1.0, 0.9, 1.1], 1.15) == "met"
    assert verdict([1.0, 0.9, 1.2], 1.15) == "not told"
    assert verdict([1.3, 1.2, 1.4], 1.15) == "NOT MET"


async def test_streams_that_are_held_stand_still_and_go_on_where_they_were() -> None:
    await hold()


async def hold() -> None:
    stepper = Stepper()
    plan = Plan(streams=2, step_s=1e-6, hold=True)
    early, late = Count(), Count()
    stepper.begin(plan)
    stepper.submit(job("early"), early)
    await early.begun.wait()
    held = stepper.end()
    before = early.chunks
    stepper.submit(job("late"), late)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert (early.chunks, late.chunks) == (before, 0) == (held.tokens, 0)
    stepper.begin(plan)
    await asyncio.gather(early.over.wait(), late.over.wait())
    assert (early.chunks, late.chunks) == (TOKENS, TOKENS)
    assert stepper.end().tokens == 2 * TOKENS - before


def test_a_step_for_one_stream_does_not_change_the_turns_of_others() -> None:
    stepper = Stepper()
    stepper.begin(Plan(streams=2, step_s=0, batch=1))
    sinks = [Count(), Count()]
    for name, sink in zip(("one", "two"), sinks, strict=True):
        stepper.submit(job(name), sink)
    stepper.step([stepper.running[1]])
    assert [sink.chunks for sink in sinks] == [0, 1]
    stepper.step()
    stepper.step()
    assert [sink.chunks for sink in sinks] == [1, 2]
