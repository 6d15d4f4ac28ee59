"""Tables for terminals and for Markdown.

Owns: columns of equal width, how a number is written. Must not know: what it means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Cell = str | float | int | None
"""None is written as ``-``: not measured."""


def number(value: Cell) -> str:
    """A cell as text: three figures, more only before the point, thousands with a comma."""
    if isinstance(value, str):
        return value
    if value is None or math.isnan(value):
        return "-"
    if isinstance(value, int) or abs(value) >= 100 or math.isinf(value):
        return f"{value:,.0f}"
    digits = 2 if abs(value) < 10 else 1
    if 0 < abs(value) < 0.1:
        digits = 4 if abs(value) < 0.01 else 3
    return f"{value:,.{digits}f}"


def text(heads: Sequence[str], rows: Sequence[Sequence[Cell]], left: int = 1) -> str:
    """Columns beside each other, the first ``left`` of them flush left."""
    cells = [list(heads), *([number(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def markdown(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The same as a table of Markdown."""
    cells = [list(heads), ["---"] * len(heads), *([number(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)
