"""Texts of a wanted length in tokens, the same for every architecture.

Owns: the two mixtures of lengths, cutting to a length. Must not know: models (the number of tokens
is passed in), time, randomness. There is none: a model gets the same texts in the same order in
every run.

Both loads have the same mean, so that only the mixture differs. ``variable`` is spread evenly over
the logarithm of the length: much is short, as in speech, and some of it long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

Load = Literal["uniform", "variable"]

LOADS: tuple[Load, ...] = ("uniform", "variable")

LOW, HIGH = 10, 200
"""Tokens of the shortest and of the longest text of ``variable``."""

COUNT = 64
"""Texts of a load; then they begin again."""

STRIDE = 27
"""Step through the lengths that mixes them; it has no divisor in common with `COUNT`."""


def lengths(load: Load) -> list[int]:
    """Return the tokens of each text of a load, in the order in which they are sent."""
    ratio = HIGH / LOW
    spread = [round(LOW * ratio ** ((n + 0.5) / COUNT)) for n in range(COUNT)]
    if load == "uniform":
        return [round(sum(spread) / COUNT)] * COUNT
    return [spread[n * STRIDE % COUNT] for n in range(COUNT)]


def texts(load: Load, words: Sequence[str], count: Callable[[str], int]) -> list[str]:
    """Return the texts of a load.

    A text has as many whole words as its length needs. Each begins elsewhere in ``words``, which
    begin again after the last.

    :param count: returns the number of tokens of a text
    """
    wanted = enumerate(lengths(load))
    return [cut(words, n * len(words) // COUNT, length, count) for n, length in wanted]


def cut(words: Sequence[str], begin: int, wanted: int, count: Callable[[str], int]) -> str:
    """Return the fewest words from ``begin`` on that have ``wanted`` tokens, found by bisection."""

    def some(number: int) -> str:
        return " ".join(words[(begin + n) % len(words)] for n in range(number))

    low, high = 1, 1
    while count(some(high)) < wanted:
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        if count(some(middle)) < wanted:
            low = middle + 1
        else:
            high = middle
    return some(low)


def guess(text: str) -> int:
    """Return the approximate tokens of a text, for a model whose tokenizer is not available."""
    return math.ceil(1.3 * len(text.split()))


def mean(values: Sequence[str], count: Callable[[str], int]) -> float:
    """Return the mean tokens of a text."""
    return sum(map(count, values)) / len(values)
