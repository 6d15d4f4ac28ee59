"""Lengths of translations for each pair of languages, learnt from finished captions.

Owns: the ratios of lengths, and how much of the translation of a growing text is needed. Must not
know: jobs, captions, engines.

The last words of such a translation are not shown (`StabilityRules.mask`), so an engine need not
decode them. Where they begin follows from the end, which is predicted.
"""

from __future__ import annotations

import math

from gateway.core.streaming.stability import StabilityRules
from gateway.text import word_units

MEMORY = 0.9
"""Weight of the captions before, for each caption that is learnt. So about ten captions count."""

MARGIN = 0.8
"""Share of the predicted length that is trusted. After a prediction that is too long, readers see
words that the mask is there to hide; after one that is too short, they see words later."""


class LengthRatios:
    """The ratios of one or more rooms. ``rules`` tell how many words are shown and hidden."""

    def __init__(self, rules: StabilityRules) -> None:
        self._rules = rules
        # Characters of sources, and characters and units of their translations.
        self._sums: dict[tuple[str, str], tuple[float, float, float]] = {}

    def learn(self, source: str, target: str, text: str, translation: str) -> None:
        """Learn from a finished translation."""
        given, made, count = self._sums.get((source, target), (0.0, 0.0, 0.0))
        self._sums[source, target] = (
            MEMORY * given + len(text),
            MEMORY * made + len(translation),
            MEMORY * count + len(word_units.split(translation, word_units.spaced(target))),
        )

    def needed(self, source: str, target: str, text: str, prefix: str = "") -> int:
        """Return how many characters of the translation of a growing text are needed.

        0 means all of them: no caption of this pair has been finished yet, or no word is masked.

        :param prefix: beginning of the translation, which is known already and is not counted
        """
        given, made, count = self._sums.get((source, target), (0.0, 0.0, 0.0))
        if not (self._rules.mask and given and made):
            return 0
        size = made / count
        masked = self._rules.mask * (1 if word_units.spaced(target) else self._rules.dense)
        # One word more than the early ones, because the last word of the output may be incomplete.
        early = (self._rules.early + 1) * word_units.density(target)
        most = max(MARGIN * len(text) * made / given - masked * size, early * size)
        return max(1, math.ceil(most) - len(prefix))
