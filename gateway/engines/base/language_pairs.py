"""The language pairs of several engines together, and the pairs that take a pivot language.

Owns: which pairs are possible, and by which way. Must not know: any particular engine, jobs, which
engine is ready now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.core.base.model import Model
from gateway.engines.profiles.profile import find_pair
from gateway.text import languages


class PairTable:
    """Languages of several models, as `gateway.core.base.model.Model` describes them.

    :param direct: tells whether a model translates from one tag into another by itself
    :param pivot: language through which the other pairs are translated; None: they are impossible
    """

    def __init__(
        self, models: Sequence[Model], direct: Callable[[str, str], bool], pivot: str | None = None
    ) -> None:
        self.name = ", ".join(dict.fromkeys(model.name for model in models))
        self.pivot = pivot
        self.glossary = all(model.glossary for model in models)
        self._ask = direct
        self._direct: dict[tuple[str, str], bool] = {}
        sources = tuple(dict.fromkeys(tag for model in models for tag in model.sources))
        targets = tuple(dict.fromkeys(tag for model in models for tag in model.targets))
        # Engines may be given less than their models have, and may lack a language then.
        self.sources = tuple(
            one for one in sources if any(self.supports(one, other) for other in targets)
        )
        self.targets = tuple(
            other for other in targets if any(self.supports(one, other) for one in sources)
        )

    def supports(self, source: str, target: str) -> bool:
        """Tell whether a pair is possible, directly or through `pivot`."""
        return self._is_direct(source, target) or self.pivots(source, target)

    def pivots(self, source: str, target: str) -> bool:
        """Tell whether a pair is possible through `pivot` only."""
        pivot = self.pivot
        return (
            pivot is not None
            and not languages.same(source, target)
            and not self._is_direct(source, target)
            and self._is_direct(source, pivot)
            and self._is_direct(pivot, target)
        )

    def resolve(self, source: str, target: str) -> tuple[str, str]:
        """Return the table's own tags for two canonical tags.

        Raises `ClientFault` (``lang_unsupported``, ``pair_unsupported``) with what is possible.
        """
        return find_pair(source, target, self, self.supports, "gateway")

    def _is_direct(self, source: str, target: str) -> bool:
        # At most the pairs of the known tags: callers match the tags of clients first.
        known = self._direct.get((source, target))
        if known is None:
            known = self._direct[source, target] = self._ask(source, target)
        return known
