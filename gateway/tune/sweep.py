"""All steps of a search: which settings are tried, on which engines, in which order.

Owns: the settings that an engine can be tuned by, starting and closing engines, the time each step
takes. Must not know: what makes a step better, where results go.

Two settings are looked at, one after the other: first how many jobs are done at once, then what
else there is, with the best of the first. Not all pairs: each pair takes a start of the engine, and
the second matters where the first is right.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from gateway.engines import build
from gateway.engines.base import Engine
from gateway.errors import EngineFault
from gateway.settings import Settings, SettingsError
from gateway.tune.load import Load
from gateway.tune.probe import Probe
from gateway.tune.report import Tried
from gateway.tune.steps import Figures, Ladder, best, pooled

PLACES = (1, 2, 4, 8, 16, 32, 64)
"""Jobs at once."""

TOKENS = (512, 2048, 8192, 16384)
"""Tokens of one step of the model."""


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that is tried.

    ``places``  its values are jobs at once, or in proportion to that
    ``capped``  the dispatcher can hold an engine to any smaller value: one start is enough
    """

    setting: str
    values: tuple[int, ...]
    places: bool = False
    capped: bool = False


def knobs(settings: Settings, given: Mapping[str, Sequence[int]] | None = None) -> list[Knob]:
    """The settings that this engine can be tuned by; only those that are ``given``, with these
    values, where there are any. Raises `SettingsError` for one that it cannot be tuned by."""
    if settings.engine == "ctranslate2":
        cpus = _cpus()
        threads = tuple(1 << n for n in range(cpus.bit_length()) if 1 << n < cpus)
        found = [
            Knob(setting="batch", values=PLACES[:6]),
            Knob(setting="inter_threads", values=(*threads, cpus)),
        ]
    else:
        found = [Knob(setting="max_num_seqs", values=PLACES, places=True, capped=True)]
        if settings.engine == "vllm":
            found.append(Knob(setting="max_num_batched_tokens", values=TOKENS))
    if not given:
        return found
    names = [knob.setting for knob in found]
    if unknown := [name for name in given if name not in names]:
        raise SettingsError(
            f"The {settings.engine} engine is not tuned by {unknown[0]}, but by"
            f" {' and '.join(names)}."
        )
    return [
        replace(knob, values=tuple(sorted(given[knob.setting])))
        for knob in found
        if knob.setting in given
    ]


class Sweep:
    """A search for the best settings under a load.

    :param restart: start an engine for each value, also where one could be held to it
    :param say: told, in a line, what is being done
    :param build: how an engine is made of settings
    :param clock: as `gateway.tune.probe.Probe` takes it
    """

    def __init__(
        self,
        settings: Settings,
        load: Load,
        to: Sequence[str],
        *,
        restart: bool = False,
        say: Callable[[str], None] = lambda _: None,
        build: Callable[[Settings], Engine] = build,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.tried: list[Tried] = []
        """What was found so far, however it ended."""
        self._load = load
        self._to = to
        self._restart = restart
        self._say = say
        self._build = build
        self._clock = clock

    async def run(self, knobs: Sequence[Knob]) -> None:
        """Try one setting after the other. Raises `EngineFault` where no step can be measured."""
        known: list[Figures] = []
        for knob in knobs:
            known = await self._try(knob, known)

    async def _try(self, knob: Knob, known: Sequence[Figures]) -> list[Figures]:
        """Find the best value of a setting and take it over; what was measured with it."""
        usual = getattr(self.settings, knob.setting) or knob.values[-1]
        if known:  # the last setting was tried under the usual value of this one
            ladders = list(_around(knob.values, usual, known))
        else:
            ladders = [Ladder(knob.values, places=knob.places)]
        capped = knob.capped and not self._restart
        steps: dict[int, list[Figures]] = {usual: list(known)} if known else {}
        verdicts: dict[int, str] = {}
        stops: list[str] = []
        whole = False
        try:
            for ladder in ladders:
                try:
                    await (self._capped if capped else self._started)(knob, ladder)
                finally:
                    steps |= ladder.found
                    verdicts |= ladder.verdicts
                stops.append(ladder.stopped)
            whole = True
        finally:
            if not whole:
                stops.append("It was ended before it was done.")
            if verdicts and steps:
                self._found(knob, usual, steps, verdicts, stops, usual if known else None)
        if not steps:
            raise EngineFault(f"No {knob.setting} could be used: {'; '.join(verdicts.values())}")
        return steps[self.tried[-1].best]

    def _found(
        self,
        knob: Knob,
        usual: int,
        steps: Mapping[int, Sequence[Figures]],
        verdicts: dict[int, str],
        stops: Sequence[str],
        known: int | None,
    ) -> None:
        """Keep what became of a setting, and take its best value over."""
        pools = {value: pooled(found) for value, found in sorted(steps.items())}
        value = best(pools, known)
        self.tried.append(
            Tried(
                setting=knob.setting,
                usual=usual,
                best=value,
                steps=pools,
                verdicts=verdicts,
                stopped=" ".join(stop for stop in dict.fromkeys(stops) if stop),
                times={value: len(found) for value, found in steps.items()},
            )
        )
        self.settings = replace(self.settings, **{knob.setting: value})

    async def _capped(self, knob: Knob, ladder: Ladder) -> None:
        """One engine with the largest value, held to each by the dispatcher."""
        async with self._engine({knob.setting: max(knob.values)}) as engine:
            for value in ladder:
                await self._step(knob.setting, value, engine, ladder, most=value)

    async def _started(self, knob: Knob, ladder: Ladder) -> None:
        """An engine for each value."""
        for value in ladder:
            try:
                async with self._engine({knob.setting: value}) as engine:
                    await self._step(knob.setting, value, engine, ladder, most=None)
            except EngineFault as fault:
                ladder.skip(value, f"cannot be used: {fault}")
                self._say(f"{knob.setting} = {value} {ladder.verdicts[value]}")

    async def _step(
        self, name: str, value: int, engine: Engine, ladder: Ladder, *, most: int | None
    ) -> None:
        again = ", again" if value in ladder.found else ""
        self._say(f"{name} = {value}{again}: {self._load.seconds:g} s ...")
        ladder.tell(value, await self._measure(engine, most, self._load))

    async def _measure(self, engine: Engine, most: int | None, load: Load) -> Figures:
        probe = Probe(engine, most, load, self._to, self.settings, clock=self._clock)
        return await probe.run()

    @asynccontextmanager
    async def _engine(self, changes: dict[str, Any]) -> AsyncIterator[Engine]:
        """An engine with some settings changed, started and warm. Raises `EngineFault`."""
        # A substitute would be measured in the place of what does not start.
        engine = self._build(replace(self.settings, fallback=None, **changes))
        shown = ", ".join(f"{name} = {value}" for name, value in changes.items())
        self._say(f"{engine.name} starts with {shown} ...")
        try:
            await engine.start()
            warm = replace(self._load, seconds=WARM_S, voices=_short(self._load))
            await self._measure(engine, None, warm)
            yield engine
        finally:
            await engine.aclose()


WARM_S = 1.0
"""Seconds of a load that an engine is given before the first step: what it does once, it does
then."""


def _short(load: Load) -> Any:
    """The first thing that some say in a load."""
    return tuple(
        (replace(voice[0], t0=0.0, t1=WARM_S / 2, updates=()),) for voice in load.voices[:4]
    )


def _around(values: Sequence[int], usual: int, known: Sequence[Figures]) -> Iterator[Ladder]:
    """A ladder down from the usual value and one up, each until it gets worse."""
    for side in (
        sorted((value for value in values if value < usual), reverse=True),
        sorted(value for value in values if value > usual),
    ):
        if side:
            yield Ladder(side, usual=usual, known=known)


def _cpus() -> int:
    """CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
