"""One step: what is measured of a load in front of an engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from gateway.engines.scripted import ScriptedEngine, failing
from gateway.errors import EngineFault, ErrorCode
from gateway.replay.script import Update, Utterance
from gateway.settings import Settings
from gateway.tune import probe
from gateway.tune.load import Load, described, imagined
from gateway.tune.probe import Probe
from gateway.tune.steps import Figures
from tests import virtual


def load(*texts: str, seconds: float = 0.4, partials: bool = False) -> Load:
    """Each text is a voice of its own, and said just before the end."""
    updates = (Update(0.1, "one two"), Update(0.11, "one two")) if partials else ()
    voices = tuple(
        (Utterance(id=f"u{n}", lang="en", text=text, t0=0.0, t1=seconds - 0.1, updates=updates),)
        for n, text in enumerate(texts)
    )
    return Load(told="", seconds=seconds, voices=voices, languages=1, partials=partials)


@asynccontextmanager
async def started(engine: ScriptedEngine) -> AsyncIterator[ScriptedEngine]:
    await engine.start()
    yield engine
    assert engine.unfinished == 0
    await engine.aclose()


def measure(
    engine: ScriptedEngine, load: Load, most: int | None = None, to: tuple[str, ...] = ("de",)
) -> Figures:
    async def main(clock: Callable[[], float]) -> Figures:
        async with started(engine):
            return await Probe(engine, most, load, to, Settings(), clock=clock).run()

    return virtual.run(main)


def test_every_caption_that_is_asked_for_is_counted_and_timed() -> None:
    engine = ScriptedEngine(delay=0.02, pace=0.01)
    found = measure(engine, load("one two", "three four five"), to=("de", "fr"))
    assert (found.captions, found.lost) == (4, 0)
    assert found.kept
    assert found.tokens * found.seconds == pytest.approx(3 + 3 + 4 + 4)
    assert found.made * found.seconds == pytest.approx(4)
    assert found.first.p50 == found.first.p99 == pytest.approx(0.02, abs=0.002)
    assert found.token.p50 == pytest.approx(0.01, abs=0.002)
    assert found.final.p50 == pytest.approx(0.045, abs=0.005)
    assert found.final.p99 == pytest.approx(0.05, abs=0.005)
    assert found.late < 0.001


def test_the_speakers_own_language_is_no_caption() -> None:
    assert measure(ScriptedEngine(), load("one two"), to=("en", "de")).captions == 1


def test_growing_texts_are_jobs_and_no_captions() -> None:
    engine = ScriptedEngine()
    found = measure(engine, load("one two three", partials=True))
    assert found.captions == 1
    assert len(engine.started) == 2


def test_an_engine_is_given_no_more_jobs_than_the_step_has_places() -> None:
    texts = [f"text {n}" for n in range(9)]
    found = measure(ScriptedEngine(capacity=16, pace=0.1), load(*texts), most=2)
    assert found.running == 2
    assert found.waiting == 7
    assert found.queue.p95 > found.queue.p50 > 0.1
    assert found.first.p95 >= found.queue.p95


def test_a_capacity_is_never_raised() -> None:
    texts = [f"text {n}" for n in range(9)]
    assert measure(ScriptedEngine(capacity=3, pace=0.1), load(*texts), most=8).running == 3


def test_captions_that_do_not_come_count_as_lost_for_as_long_as_they_were_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "PATIENCE_S", 0.3)
    engine = ScriptedEngine()
    engine.hold()

    async def main(clock: Callable[[], float]) -> Figures:
        await engine.start()
        found = await Probe(engine, None, load("one two"), ("de",), Settings(), clock=clock).run()
        await engine.aclose()
        return found

    found = virtual.run(main)
    assert (found.captions, found.lost) == (1, 1)
    assert not found.kept
    assert found.final.p95 >= 0.3


def test_captions_that_fail_are_lost() -> None:
    fault = EngineFault("As the test wanted.", ErrorCode.REJECTED)
    found = measure(ScriptedEngine(fault=failing(fault)), load("one two", "three four"))
    assert (found.captions, found.lost) == (2, 1)
    assert found.made * found.seconds == pytest.approx(1), "what failed was not made"


def test_where_most_captions_fail_there_is_nothing_to_measure() -> None:
    fault = EngineFault("The model lacks a token.")
    with pytest.raises(EngineFault) as told:
        measure(ScriptedEngine(fault=failing(fault, times=3)), load("one two", "three", "four"))
    assert str(told.value) == ("3 of 3 captions failed: The model lacks a token.")


def test_texts_that_are_refused_are_lost() -> None:
    found = measure(ScriptedEngine(), load("x " * 1500, "one two"))
    assert (found.captions, found.lost) == (2, 1)


def test_what_comes_at_the_beginning_is_not_counted() -> None:
    early = Utterance(id="e", lang="en", text="good morning", t0=0.0, t1=0.01)
    late = Utterance(id="l", lang="en", text="good morning", t0=0.2, t1=0.35)
    made = Load(told="", seconds=0.4, voices=((early, late),), languages=1, partials=False)
    engine = ScriptedEngine()
    assert measure(engine, made).captions == 1
    assert len(engine.started) == 2


def test_what_an_engine_makes_counts_also_where_it_is_late_by_more_than_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else two engines that do not keep up would make nothing, the one as much as the other."""
    monkeypatch.setattr(probe, "PATIENCE_S", 0.05)
    texts = ("one two three four",)
    made = imagined(described("100 a second, 4-4.1 words"), 2.0, texts, "en", Random(0))
    found = measure(ScriptedEngine(capacity=2, pace=0.05), made)
    assert not found.kept
    assert found.made * 5 == pytest.approx(found.tokens, rel=0.3)


def test_more_is_asked_for_than_the_engine_makes_and_nothing_is_left_out() -> None:
    made = imagined(
        described("40 a second, 1-4 words"), 2.0, ("one two three four",), "en", Random(0)
    )
    found = measure(ScriptedEngine(capacity=2, pace=0.05), made)
    assert found.growing
    assert not found.kept
    assert found.captions == pytest.approx(40 * 2 * (1 - probe.LEAD), rel=0.3)
