"""All steps of a search, on engines that are started for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.engines.base import Engine
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import EngineFault
from gateway.settings import Settings, SettingsError
from gateway.tune import sweep
from gateway.tune.sweep import Knob, Sweep, knobs
from tests import virtual
from tests.tune.test_probe import load

SCRIPTED = Settings(engine="scripted", max_num_seqs=16)
TEXTS = load("one", "two", "three", "four five six")


class Makers:
    """Makes engines, and keeps what for."""

    def __init__(self, pace: Callable[[Settings], float] = lambda _: 0.0, broken: int = 0) -> None:
        self.made: list[Settings] = []
        self.engines: list[ScriptedEngine] = []
        self._pace = pace
        self._broken = broken

    def __call__(self, settings: Settings) -> Engine:
        self.made.append(settings)
        engine: ScriptedEngine = Broken() if settings.max_num_seqs == self._broken else (
            ScriptedEngine(capacity=settings.max_num_seqs, pace=self._pace(settings))
        )  # fmt: skip
        self.engines.append(engine)
        return engine


class Broken(ScriptedEngine):
    async def start(self) -> None:
        raise EngineFault("no memory")


def search(makers: Makers, *wanted: Knob, restart: bool = False) -> tuple[Sweep, list[str]]:
    said: list[str] = []

    async def main(clock: Callable[[], float]) -> Sweep:
        found = Sweep(
            SCRIPTED, TEXTS, ("de",), restart=restart, say=said.append, build=makers, clock=clock
        )
        await found.run(wanted)
        return found

    found = virtual.run(main)
    assert all(engine.health.value in ("closed", "starting") for engine in makers.engines)
    return found, said


SEQS = Knob(setting="max_num_seqs", values=(2, 4, 8), places=True, capped=True)
TOKENS = Knob(setting="max_num_batched_tokens", values=(512, 8192))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "WARM_S", 0.02)


def test_one_engine_is_held_to_each_number_of_places() -> None:
    makers = Makers(pace=lambda _: 0.05)
    found, said = search(makers, SEQS)
    assert [settings.max_num_seqs for settings in makers.made] == [8]
    (tried,) = found.tried
    assert {value: one.running for value, one in tried.steps.items()} == {2: 2, 4: 4, 8: 4}
    assert tried.verdicts[4] == "better: 95 of 100 captions take 153 ms, not 204 ms"
    assert tried.best == found.settings.max_num_seqs == 4
    assert tried.times == {2: 1, 4: 2, 8: 1}, "the best is measured again"
    assert tried.stopped == "There were never more than 4 jobs at once."
    assert said[0] == "scripted starts with max_num_seqs = 8 ..."
    assert said[1] == "max_num_seqs = 2: 0.4 s ..."


def test_an_engine_is_started_for_each_where_that_is_asked_for() -> None:
    makers = Makers(pace=lambda _: 0.05)
    search(makers, SEQS, restart=True)
    assert [settings.max_num_seqs for settings in makers.made] == [2, 4, 8, 4]


def test_the_second_setting_is_tried_with_the_best_of_the_first() -> None:
    makers = Makers(pace=lambda settings: 0.3 if settings.max_num_batched_tokens == 512 else 0.0)
    found, _ = search(makers, SEQS, TOKENS)
    first, second = found.tried
    assert {settings.max_num_seqs for settings in makers.made[1:]} == {first.best}
    assert (second.usual, second.best) == (8192, 8192)
    assert second.verdicts[512].startswith("worse: 95 of 100 captions take")
    assert second.stopped.startswith("512 is worse than 8192")
    assert second.steps[8192] == first.steps[first.best]


def test_a_value_with_which_no_engine_starts_is_left_out() -> None:
    found, said = search(Makers(broken=2), SEQS, restart=True)
    assert 2 not in found.tried[0].steps
    assert "max_num_seqs = 2 cannot be used: no memory" in said


def test_where_no_engine_starts_there_is_nothing_to_recommend() -> None:
    with pytest.raises(EngineFault, match="No max_num_seqs could be used: .*no memory"):
        search(Makers(broken=2), Knob(setting="max_num_seqs", values=(2,)))
    with pytest.raises(EngineFault, match="no memory"):
        search(Makers(broken=8), SEQS)


def test_what_was_measured_before_it_was_ended_is_kept() -> None:
    async def main(clock: Callable[[], float]) -> None:
        task = asyncio.current_task()
        assert task is not None

        def say(line: str) -> None:
            if line.startswith("max_num_seqs = 4:"):
                task.cancel()

        found = Sweep(SCRIPTED, TEXTS, ("de",), say=say, build=Makers(), clock=clock)
        with pytest.raises(asyncio.CancelledError):
            await found.run([SEQS])
        (tried,) = found.tried
        assert set(tried.steps) == {2} == {tried.best}
        assert tried.stopped == "It was ended before it was done."

    virtual.run(main)


def test_engines_are_tuned_by_what_they_have() -> None:
    assert [knob.setting for knob in knobs(SCRIPTED)] == ["max_num_seqs"]
    assert [knob.setting for knob in knobs(Settings(engine="openai"))] == ["max_num_seqs"]
    places, tokens = knobs(Settings(engine="vllm"))
    assert (places.setting, places.values) == ("max_num_seqs", (1, 2, 4, 8, 16, 32, 64))
    assert (tokens.setting, tokens.values) == ("max_num_batched_tokens", (512, 2048, 8192, 16384))
    batch, threads = knobs(Settings())
    assert (batch.setting, threads.setting) == ("batch", "inter_threads")
    assert threads.values[-1] == sweep._cpus()
    assert list(threads.values) == sorted(set(threads.values))


def test_only_what_is_given_is_tried() -> None:
    given = {"max_num_batched_tokens": (4096, 1024)}
    (only,) = knobs(Settings(engine="vllm"), given)
    assert (only.setting, only.values) == ("max_num_batched_tokens", (1024, 4096))
    with pytest.raises(SettingsError, match="ctranslate2 engine is not tuned by max_num_seqs, but"):
        knobs(Settings(), {"max_num_seqs": (1,)})
