"""What is to be translated: texts of a wanted length in tokens, the same for every architecture.

Owns: the two mixtures of lengths, cutting to a length. Must not know: models (how many tokens a
text has is asked), time, chance. There is none: a model gets the same texts in the same order in
every run.

Both loads have the same mean, so that what differs between them is the mixture alone. ``variable``
is spread evenly over the logarithm of the length: much is short, as in speech, and some of it long.
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
"""Steps through the lengths in order to mix them; it has no divisor in common with `COUNT`."""


def lengths(load: Load) -> list[int]:
    """How many tokens each text of a load has, in the order in which they are sent."""
    ratio = HIGH / LOW
    spread = [round(LOW * ratio ** ((n + 0.5) / COUNT)) for n in range(COUNT)]
    if load == "uniform":
        return [round(sum(spread) / COUNT)] * COUNT
    return [spread[n * STRIDE % COUNT] for n in range(COUNT)]


def texts(load: Load, words: Sequence[str], count: Callable[[str], int]) -> list[str]:
    """The texts of a load. ``count`` tells how many tokens a text has.

    A text is as many whole words as it takes to have its length; each begins elsewhere in
    ``words``, which begin again after the last.
    """
    wanted = enumerate(lengths(load))
    return [cut(words, n * len(words) // COUNT, length, count) for n, length in wanted]


def cut(words: Sequence[str], begin: int, wanted: int, count: Callable[[str], int]) -> str:
    """The fewest words from ``begin`` on that have ``wanted`` tokens, found by halving."""

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
    """How many tokens a text has about, for a model whose vocabulary cannot be asked."""
    return math.ceil(1.3 * len(text.split()))


def mean(values: Sequence[str], count: Callable[[str], int]) -> float:
    """Tokens of a text on average."""
    return sum(map(count, values)) / len(values)
