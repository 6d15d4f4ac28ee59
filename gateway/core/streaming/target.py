"""The part of a growing caption that is committed, and the part that is shown already.

Owns: agreement of successive hypotheses, and the mask on the tail. Must not know: jobs, readers,
the source text, time.

The rules are local agreement (Liu et al. 2020, https://arxiv.org/abs/2005.11185), hold-n, and
mask-k of re-translation (Arivazhagan et al. 2020, https://arxiv.org/abs/2004.03643). Units are
words, or characters in scripts that put no space between words.
"""

from __future__ import annotations

import msgspec

from gateway.text import units


class StabilityRules(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers, in words. ``docs/captions.md`` has the sweep that chose them."""

    hold: int = 4
    """Words at the end of a hypothesis that are never committed, though they were agreed on."""
    mask: int = 4
    """Words at the end of a hypothesis that are not shown while the source grows."""
    early: int = 1
    """Words shown at the beginning of a caption whatever the mask: a first word late hurts more
    than one that changes."""
    dense: int = 3
    """Characters that count as a word where a script has no spaces."""


class Agreement:
    """The hypotheses of one caption, in the order in which they were made.

    ``committed`` only grows, and every later hypothesis is forced to begin with it; until `void`.
    """

    __slots__ = ("_last", "_rules", "_size", "_spaced", "committed", "ids")

    def __init__(self, lang: str, rules: StabilityRules) -> None:
        self._spaced = units.spaced(lang)
        self._size = 1 if self._spaced else rules.dense
        self._rules = rules
        self._last: list[str] = []
        self.committed = ""
        self.ids: tuple[int, ...] = ()
        """Token ids of the last hypothesis, as far as the engine told them."""

    def hear(self, text: str, ids: tuple[int, ...] = ()) -> str:
        """Take a complete hypothesis; what is committed by it, beyond what was."""
        now = units.split(text, self._spaced)
        agreed = units.common(self._last, now)
        self._last, self.ids = now, ids
        free = max(0, len(now) - self._rules.hold * self._size)
        sure = "".join(now[: min(agreed, free)])
        if len(sure) <= len(self.committed) or not sure.startswith(self.committed):
            return ""
        added = sure[len(self.committed) :]
        self.committed = sure
        return added

    def visible(self, text: str) -> str:
        """What is shown of a hypothesis, complete or not: never less than is committed."""
        now = units.split(text, self._spaced)
        masked = len(now) - self._rules.mask * self._size
        early = min(len(now), self._rules.early * self._size)
        shown = "".join(now[: max(masked, early)])
        return shown if shown.startswith(self.committed) else self.committed

    def keep(self, text: str) -> None:
        """``text`` stays committed after all: a hypothesis made without it begins with it."""
        self.committed = text

    def void(self) -> None:
        """The source changed in what the hypotheses were made of: begin anew."""
        self._last, self.committed, self.ids = [], "", ()
