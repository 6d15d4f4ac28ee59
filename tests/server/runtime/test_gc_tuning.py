"""Garbage collection in short pauses that skips settled objects."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from gateway.server.runtime import gc_tuning
from gateway.server.runtime.gc_tuning import SETTLE, STEPS_S, YOUNG, GarbageCollector
from tests.support.live import until


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


class Node:
    """An object in a reference cycle, which no session is in."""

    def __init__(self) -> None:
        self.me = self


def collecting(idle: bool = True) -> GarbageCollector:
    return GarbageCollector(lambda: idle)


async def survive(collector: GarbageCollector) -> list[list[int]]:
    """Create objects until the collector settles survivors once more."""
    before = collector.settled
    kept: list[list[int]] = []
    while collector.settled == before:
        kept += ([len(kept)] for _ in range(YOUNG))
        await asyncio.sleep(0)
    return kept


async def test_objects_that_survived_are_not_visited_again() -> None:
    with collecting() as collector:
        frozen = gc.get_freeze_count()
        kept = await survive(collector)
        assert len(kept) <= 2 * SETTLE * YOUNG
        assert gc.get_freeze_count() - frozen >= SETTLE * YOUNG / 2
        assert len(gc.get_objects(generation=2)) < SETTLE * YOUNG


async def test_a_cycle_that_becomes_garbage_before_it_settles_is_freed() -> None:
    with collecting() as collector:
        gone = weakref.ref(Node())
        await survive(collector)
        assert gone() is None


async def test_a_cycle_that_becomes_garbage_after_it_settled_is_freed_when_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gc_tuning, "THAW_S", 0.01)
    nobody = [False]
    with GarbageCollector(lambda: nobody[0]) as collector:
        node: Node | None = Node()
        gone = weakref.ref(node)
        await survive(collector)
        node = None
        await survive(collector)
        assert gone() is not None
        nobody[0] = True
        await until(lambda: gone() is None)
        assert sum(collector.pauses) > 0 and collector.longest == 0


async def test_settled_garbage_is_freed_before_it_doubles_all_objects_in_a_busy_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gc_tuning, "THAW_S", 0.01)
    with collecting(idle=False) as collector:
        collector.thaw()
        node: Node | None = Node()
        gone = weakref.ref(node)
        kept = await survive(collector)
        node = None
        kept += await survive(collector)
        assert gone() is not None
        monkeypatch.setattr(gc_tuning, "GROWTH", 1.0)
        await until(lambda: gone() is None)


async def test_pauses_are_counted_by_their_length() -> None:
    times = iter((0.0, 0.001, 1.0, 1.0025, 2.0, 3.0))

    gc.disable()
    try:
        with GarbageCollector(lambda: True, clock=lambda: next(times)) as collector:
            for _ in range(3):
                gc.collect()
    finally:
        gc.enable()
    counted = dict(zip((*STEPS_S, None), collector.pauses, strict=True))
    assert {step: n for step, n in counted.items() if n} == {0.001: 1, 0.003: 1, None: 1}
    assert collector.longest == 1.0
    assert collector.seconds == pytest.approx(1.0035)


async def test_stopping_restores_the_settings_of_the_collector() -> None:
    before = gc.get_threshold(), len(gc.callbacks)
    with collecting() as collector:
        assert gc.get_threshold()[0] == YOUNG
        await survive(collector)
    assert (gc.get_threshold(), len(gc.callbacks)) == before
