"""The model as the core sees it: the languages that it reads and writes."""

from __future__ import annotations

from typing import Protocol


class Model(Protocol):
    """A translation model behind the gateway. `gateway.engines.profiles.Profile` is one."""

    @property
    def name(self) -> str:
        """Name of the model, for lists of languages."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Languages that it reads, as BCP 47 tags."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Languages that it writes, as BCP 47 tags."""

    def supports(self, source: str, target: str) -> bool:
        """Tell whether it translates from ``source`` to ``target``."""

    @property
    def pivot(self) -> str | None:
        """Language through which pairs are translated that no engine has; None if there is none."""

    def pivots(self, source: str, target: str) -> bool:
        """Tell whether it translates from ``source`` to ``target`` through `pivot`."""

    @property
    def glossary(self) -> bool:
        """True if it is told the terms of a job. Else captions are only checked for them."""

    def resolve(self, source: str, target: str) -> tuple[str, str]:
        """Return its own tags for two canonical tags. Raises `ClientFault` (``lang_unsupported``,
        ``pair_unsupported``) with what is possible.
        """

    def __hash__(self) -> int:
        """Return its hash: what is known of a model is kept by it."""
