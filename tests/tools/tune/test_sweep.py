"""A search: which steps are taken, on which engines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from random import Random

import pytest

from caption_tools.speech.text import lines
from caption_tools.tune.model.load import Load, described
from caption_tools.tune.model.steps import Figures
from caption_tools.tune.sweep import HELD, LimitedEngine, Sweep, measure, searched, tunable
from gateway.engines.base.engine import Engine
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.errors import EngineFault
from gateway.job import Job
from gateway.settings.catalogue import Settings, SettingsError
from tests.tools.tune.model.test_steps import figures

SCRIPTED = Settings(engine="scripted", scripted_pace=0.0)
LOAD = described("20 a second, 1-8 words", 2.0, lines(), "en", Random(0))
SEQS = {HELD: (2, 4, 8, 16)}
TOKENS = {"max_num_batched_tokens": (512, 2048, 8192)}


class Broken(ScriptedEngine):
    async def start(self) -> None:
        raise EngineFault("no memory")


class Search:
    """A sweep with engines that do nothing and figures that a test makes up.

    :param of: the figures of a value of `SEQS` or `TOKENS`, and how often it was measured before
    :param broken: a value of max_num_batched_tokens with which no engine starts
    """

    def __init__(self, of: Callable[[int, int], Figures], broken: int = 0) -> None:
        self.started: list[tuple[int, int]] = []
        self.taken: list[int] = []
        self.said: list[str] = []
        self.engines: list[ScriptedEngine] = []
        self._of = of
        self._broken = broken
        self.sweep = Sweep(
            SCRIPTED, LOAD, ("de",), say=self.said.append, build=self.build, measure=self.measure
        )

    def run(self, wanted: Mapping[str, Sequence[int]]) -> Sweep:
        asyncio.run(self.sweep.run(wanted))
        assert all(one.health.value in ("closed", "starting") for one in self.engines)
        return self.sweep

    def build(self, settings: Settings) -> Engine:
        made = (settings.max_num_seqs, settings.max_num_batched_tokens)
        self.started.append(made)
        self.engines.append((Broken if self._broken in made else ScriptedEngine)(capacity=made[0]))
        return self.engines[-1]

    async def measure(
        self, engine: LimitedEngine, settings: Settings, load: Load, to: Sequence[str]
    ) -> Figures:
        value = self.started[-1][1] if engine.most is None else engine.most
        assert engine.most in (None, engine.capacity)
        self.taken.append(value)
        return self._of(value, self.taken.count(value) - 1)


def test_one_engine_is_held_to_each_number_of_jobs() -> None:
    search = Search(lambda value, _: figures(final=4000 / value, running=value))
    (tried,) = search.run(SEQS).tried
    assert search.started == [(16, 8192)]
    assert search.taken == [2, 4, 8, 16]
    assert (tried.usual, tried.best, search.sweep.settings.max_num_seqs) == (16, 16, 16)
    assert search.said[:2] == ["scripted starts with max_num_seqs = 16 ...",
                               "max_num_seqs = 2: 2 s ..."]  # fmt: skip


def test_a_search_stops_at_a_step_that_is_worse_twice() -> None:
    search = Search(lambda value, _: figures(final=900 * value, running=value))
    assert search.run(SEQS).tried[0].best == 2
    assert search.taken == [2, 4, 4]
    assert search.said[-1] == "max_num_seqs = 4: 2 s ..."


def test_a_step_that_was_worse_by_chance_does_not_stop_the_search() -> None:
    search = Search(
        lambda value, times: figures(final=2000 if value == 4 and not times else 1000, running=16)
    )
    (tried,) = search.run(SEQS).tried
    assert search.taken == [2, 4, 4, 8, 16]
    assert tried.best == 2


def test_a_search_stops_where_there_were_never_as_many_jobs() -> None:
    search = Search(lambda value, _: figures(running=min(value, 3)))
    (tried,) = search.run(SEQS).tried
    assert search.taken == [2, 4]
    assert tried.best == 2


def test_unused_places_do_not_end_a_search_while_captions_are_lost() -> None:
    search = Search(lambda value, _: figures(running=1, lost=1.0, made=float(value)))
    search.run(SEQS)
    assert search.taken == [2, 4, 8, 16]


def test_the_second_setting_is_tried_with_the_best_of_the_first_measured_once() -> None:
    search = Search(
        lambda value, _: figures(final={2: 900, 4: 1200, 2048: 700}.get(value, 5000), running=9)
    )
    search.run({**SEQS, **TOKENS})
    first, second = search.sweep.tried
    assert first.best == 2
    assert search.started[1:] == [(2, 512), (2, 2048)]
    assert (second.usual, second.best) == (8192, 2048)
    assert second.steps[8192] == first.steps[2]


def test_the_value_before_is_recommended_if_all_smaller_ones_are_worse() -> None:
    search = Search(lambda value, _: figures(final=5000 if value == 512 else 900, running=2))
    search.run({HELD: (2,), "max_num_batched_tokens": (512,)})
    assert search.sweep.tried[1].best == 8192


def test_a_value_with_which_no_engine_starts_is_left_out() -> None:
    search = Search(lambda *_: figures(), broken=512)
    (tried,) = search.run(TOKENS).tried
    assert set(tried.steps) == {2048, 8192}
    assert tried.unusable == {512: "no memory"}
    assert "max_num_batched_tokens = 512 cannot be used: no memory" in search.said


def test_there_is_nothing_to_recommend_if_no_engine_starts() -> None:
    with pytest.raises(EngineFault, match="No max_num_batched_tokens could be used: .*no memory"):
        Search(lambda *_: figures(), broken=512).run({"max_num_batched_tokens": (512,)})
    with pytest.raises(EngineFault, match="no memory"):
        Search(lambda *_: figures(), broken=16).run(SEQS)


def test_measurements_before_an_interruption_are_kept() -> None:
    def interrupted(value: int, _: int) -> Figures:
        if value == 4:
            raise KeyboardInterrupt
        return figures(running=value)

    search = Search(interrupted)
    with pytest.raises(KeyboardInterrupt):
        search.run(SEQS)
    (tried,) = search.sweep.tried
    assert set(tried.steps) == {2} == {tried.best}


def test_an_engine_that_fails_in_a_step_ends_the_search() -> None:
    def failed(value: int, _: int) -> Figures:
        raise EngineFault("3 of 3 captions failed")

    with pytest.raises(EngineFault, match="3 of 3"):
        Search(failed).run(SEQS)


def test_each_engine_is_tuned_by_its_own_settings() -> None:
    assert list(tunable(SCRIPTED)) == ["max_num_seqs"]
    assert list(tunable(Settings(engine="openai"))) == ["max_num_seqs"]
    assert tunable(Settings(engine="vllm")) == {
        "max_num_seqs": (1, 2, 4, 8, 16, 32, 64),
        "max_num_batched_tokens": (512, 2048, 8192, 16384),
    }
    found = tunable(Settings())
    assert list(found) == ["batch", "inter_threads"]
    threads = found["inter_threads"]
    assert threads[-1] == len(os.sched_getaffinity(0))
    assert list(threads) == sorted(set(threads))


def test_only_the_given_settings_and_values_are_tried() -> None:
    given = {"max_num_batched_tokens": (4096, 1024)}
    vllm = Settings(engine="vllm")
    assert searched(vllm, given) == {"max_num_batched_tokens": (1024, 4096)}
    assert searched(vllm, {}) == tunable(vllm)
    with pytest.raises(SettingsError, match="ctranslate2 engine is not tuned by max_num_seqs, but"):
        searched(Settings(), {"max_num_seqs": (1,)})


# --- one step, for real --------------------------------------------------------------------------


async def measured(
    engine: Engine,
    most: int | None = None,
    load: Load = LOAD,
    to: tuple[str, ...] = ("de",),
    settings: Settings = SCRIPTED,
) -> Figures:
    async def main() -> Figures:
        held = LimitedEngine(engine)
        held.most = most
        await held.start()
        try:
            return await measure(held, settings, load, to)
        finally:
            assert engine.unfinished == 0
            await held.aclose()

    return await main()


async def test_a_step_loads_a_gateway_around_the_engine_and_counts_what_comes() -> None:
    found = await measured(ScriptedEngine(pace=0.005), to=("de", "fr"))
    assert found.kept and found.lost == 0
    assert found.final.count > 20
    assert 0 < found.first.p50 <= found.final.p50
    assert found.asked == pytest.approx(40, rel=0.5), "two captions for each utterance"
    assert found.running >= 2, "both languages of an utterance"


async def test_an_engine_is_given_no_more_jobs_than_the_step_says() -> None:
    found = await measured(ScriptedEngine(capacity=16, pace=0.01), most=2)
    assert found.running == 2
    assert (await measured(ScriptedEngine(capacity=1, pace=0.001), most=8)).running == 1


async def test_nothing_is_dropped_or_refused_if_the_engine_is_too_slow() -> None:
    load = described("6 a second, 1-8 words, partials", 2.0, lines(), "en", Random(0))
    engine = ScriptedEngine(capacity=1, pace=0.01)
    found = await measured(engine, load=load)
    assert found.lost == 0
    assert len(engine.started) > found.final.count, "texts were translated while they grew"


async def test_failed_captions_count_as_lost_and_a_step_in_which_most_fail_is_an_error() -> None:
    def sometimes(job: Job, n: int) -> None:
        if len(job.text) % 4 == 0:
            raise EngineFault("As the test wanted.")

    found = await measured(ScriptedEngine(fault=sometimes))
    assert 0 < found.lost < 0.5 and not found.kept
    with pytest.raises(EngineFault, match=r"of \d+ captions failed: engine_unavailable"):
        await measured(ScriptedEngine(fault=failing(EngineFault("No."), times=10_000)))


async def test_a_load_in_which_nothing_is_said_is_refused() -> None:
    with pytest.raises(ValueError, match="Nothing is said in 2 s of this load"):
        await measured(
            ScriptedEngine(),
            load=described("0.001 a second", 2.0, lines(), "en", Random(0)),
        )
