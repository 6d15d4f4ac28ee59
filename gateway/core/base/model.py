"""The model as the core sees it: the languages that it reads and writes."""

from __future__ import annotations

from typing import Protocol


class Model(Protocol):
    """A translation model behind the gateway. `gateway.engines.profiles.Profile` is one."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Languages that it reads, as BCP 47 tags."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Languages that it writes, as BCP 47 tags."""

    def supports(self, source: str, target: str) -> bool:
        """Tell whether it translates from ``source`` to ``target``."""
