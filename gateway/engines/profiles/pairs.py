"""The language pairs of a model, and of several together, some of them through a pivot language.

Owns: which pairs are possible, by which way, and the faults for the others. Must not know: any
engine, jobs, which engine is ready now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from gateway.core.base.model import Model
from gateway.errors import ClientFault, ErrorCode
from gateway.text import languages


class PairTable:
    """Languages of several models, as `gateway.core.base.model.Model` describes them.

    :param pivot: language through which the other pairs are translated; None: they are impossible
    """

    def __init__(
        self, models: Sequence[Model], direct: Callable[[str, str], bool], pivot: str | None = None
    ) -> None:
        self.name = ", ".join(dict.fromkeys(model.name for model in models))
        self.pivot = pivot
        self.glossary = all(model.glossary for model in models)
        # At most the pairs of the known tags: callers match the tags of clients first.
        self._is_direct = cache(direct)
        sources = tuple(dict.fromkeys(tag for model in models for tag in model.sources))
        targets = tuple(dict.fromkeys(tag for model in models for tag in model.targets))
        # Engines may be given less than their models have, and may lack a language then.
        self.sources = tuple(
            source for source in sources if any(self.supports(source, target) for target in targets)
        )
        self.targets = tuple(
            target for target in targets if any(self.supports(source, target) for source in sources)
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
        """Return the table's own tags for two canonical tags. Raises `ClientFault`
        (``lang_unsupported``, ``pair_unsupported``) with what is possible.
        """
        return find_pair(source, target, self, self.supports, "gateway")


def find_pair(
    source: str, target: str, model: Model, able: Callable[[str, str], bool], noun: str
) -> tuple[str, str]:
    """Return the languages of ``model`` for two tags. Raises `ClientFault` if it lacks the pair.

    :param able: tells whether it translates from one of its languages into another
    :param noun: word for it in messages
    """
    spoken, wanted = find_language(source, model.sources), find_language(target, model.targets)
    if not able(spoken, wanted):
        what = f"This {noun} does not translate from `{spoken}` into `{wanted}`."
        possible = ", ".join(tag for tag in model.targets if able(spoken, tag))
        hint = f"From `{spoken}` it translates into {possible}."
        raise ClientFault(ErrorCode.PAIR_UNSUPPORTED, what, hint)
    return spoken, wanted


def find_language(tag: str, among: tuple[str, ...]) -> str:
    """Return the language of ``among`` for ``tag``. Raises `ClientFault` if there is none."""
    known = languages.match(tag, among)
    if known is None:
        what = f"This model does not have the language `{tag}`."
        raise ClientFault(ErrorCode.LANG_UNSUPPORTED, what, f"It has {', '.join(among)}.")
    return known
