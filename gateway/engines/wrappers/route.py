"""One engine beside others: the language pairs that it is given, and its load.

Owns: whether an engine takes a pair, and how busy it is. Must not know: the other engines, texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gateway.core.base.model import Model
from gateway.engines.base.engine import Engine, EngineWrapper
from gateway.engines.base.service import Health
from gateway.text import languages

ANY = "*"
"""Stands for every language in the pairs of a route."""

Pairs = tuple[tuple[str, str], ...]

KNOWN_PAIRS = 4_096
"""Pairs whose answer is remembered. Tags come from clients, so there must be a bound."""


class EngineRoute(EngineWrapper):
    """One of several engines: its pairs and its jobs.

    :param name: unique name, for metrics
    :param pairs: pairs that it is given, with `ANY`; None: all pairs of its model
    :param weight: share of the jobs that it gets, compared with one of as many slots
    :param spare: whether it gets only the jobs that no other engine can do
    """

    name: str = ""

    def __init__(
        self,
        name: str,
        engine: Engine,
        *,
        pairs: Pairs | None = None,
        weight: float = 1.0,
        spare: bool = False,
    ) -> None:
        super().__init__(engine)
        self.name = name
        self.weight = weight
        self.spare = spare
        self.jobs = 0
        """Jobs that it has now."""
        self.takeovers = 0
        """Jobs that it repeated because another engine had failed at them."""
        self._pairs = pairs

    def takes(self, source: str, target: str) -> bool:
        """Tell whether it is given a pair, ready or not."""
        return _takes(self.engine.profile, self._pairs, source, target)

    def covers(self, other: EngineRoute) -> bool:
        """Tell whether it is given all pairs that another one is given."""
        if self._pairs is None or other._pairs is None:
            return self._pairs is None
        return set(other._pairs) <= set(self._pairs)

    def serves(self, source: str, target: str) -> bool:
        ready = self.engine.health is Health.READY
        # An engine may not have loaded what it needs for a pair.
        return ready and self.takes(source, target) and self.engine.serves(source, target)

    def stats(self) -> Mapping[str, float]:
        return {**self.engine.stats(), "taken_over": self.takeovers}

    @property
    def free(self) -> int:
        """Number of jobs that it takes without making others wait."""
        return max(0, self.capacity - self.jobs)

    @property
    def load(self) -> float:
        """Jobs of each slot, and one more of them all, divided by the weight.

        An engine that is faster than another one ends its jobs sooner, and so is given more.
        """
        return (1 + self.jobs / max(1, self.capacity)) / self.weight


@lru_cache(maxsize=KNOWN_PAIRS)
def _takes(model: Model, pairs: Pairs | None, source: str, target: str) -> bool:
    """Tell whether a model has a pair, which ``pairs`` name, if they are given."""
    allowed = pairs is None or any(
        _fits(first, source) and _fits(second, target) for first, second in pairs
    )
    return allowed and model.supports(source, target)


def _fits(tag: str, asked: str) -> bool:
    return tag == ANY or languages.same(tag, asked)
