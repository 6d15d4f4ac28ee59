"""The probability that an output is right, by the probabilities of its tokens.

Owns: how it is computed. Must not know: what computed the tokens, who is told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class Doubt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The doubt of a model about an output, fitted to graded outputs by ``training.doubt``.

    ``below``  probability under which an output is unsure
    ``mean``   weights of the mean and of the least log probability of the output's tokens, in a
    ``least``  logistic regression
    ``bias``   its constant for each direction, such as ``en-de``
    """

    below: float
    mean: float
    least: float
    bias: dict[str, float]

    def probability(self, direction: str, log_probs: Sequence[float]) -> float:
        """Return the probability that an output is right; 1 for an unknown direction."""
        bias = self.bias.get(direction)
        if bias is None or not log_probs:
            return 1.0
        mean = sum(log_probs) / len(log_probs)
        return 1 / (1 + math.exp(-bias - self.mean * mean - self.least * min(log_probs)))
