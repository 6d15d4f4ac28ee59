"""Tables for terminals.

Owns: column widths, folding where a line is too narrow, the form of numbers. Must not know: what a
number means, how wide the terminal is.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Sequence

GAP = "  "  # space between two columns

Cell = str | float | int | None
"""A cell of a table; None is written as ``-`` and means not measured."""


def number(value: Cell) -> str:
    """Return a cell as text: three figures, more only before the point, thousands with a comma."""
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


def text(
    heads: Sequence[str], rows: Sequence[Sequence[Cell]], left: int = 1, width: int | None = None
) -> str:
    """Return columns side by side, the first ``left`` of them flush left.

    :param width: letters of a line; columns that do not fit go on below, again behind the first
        ``left``. None: any number
    """
    cells = [list(heads), *([number(cell) for cell in row] for row in rows)]
    columns: list[list[str]] = []
    for place, column in enumerate(zip(*cells, strict=True)):
        wide = max(map(len, column))
        columns.append([cell.ljust(wide) if place < left else cell.rjust(wide) for cell in column])
    parts = [columns[:left]]
    for padded in columns[left:]:
        used = sum(len(shown[0]) + len(GAP) for shown in parts[-1]) + len(padded[0])
        if width is not None and used > width and len(parts[-1]) > left:
            parts.append(columns[:left])
        parts[-1].append(padded)
    return "\n\n".join(
        "\n".join(GAP.join(row).rstrip() for row in zip(*part, strict=True)) for part in parts
    )


def pairs(rows: Collection[tuple[str, str]], width: int | None = None) -> str:
    """Return names with a text beside each. A text longer than ``width`` letters is folded."""
    names = max((len(name) for name, _ in rows), default=0)
    return "\n".join(
        prose(f"{name:{names}}{GAP}{said}", width, " " * (names + len(GAP))) for name, said in rows
    )


def prose(said: str, width: int | None = None, indent: str = "") -> str:
    """Fold a sentence into lines of ``width`` letters; later ones begin with ``indent``."""
    if width is None or len(said) <= width:
        return said
    return textwrap.fill(
        said,
        max(width, len(indent) + 1),
        subsequent_indent=indent,
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    )
