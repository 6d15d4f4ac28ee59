"""The table of `gateway top`: columns, cells, the order of rows, and what fits.

Owns: titles, formats and which columns go first if there is no space. Must not know: the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from caption_tools.top.model.figures import GatewayFigures

GAP = 2  # columns of the terminal between two columns of the table
UNKNOWN = "-"


class Column(NamedTuple):
    """A column of the table.

    ``rank`` tells which column goes first if there is no space: that with the highest. ``field`` is
    the figure that rows are sorted by, ``form`` writes it.
    """

    title: str
    rank: int
    field: str
    form: Callable[[Any], str]
    left: bool = False

    def value(self, row: GatewayFigures) -> Any:
        """Return the value that rows are sorted by; None: not known."""
        return getattr(row, self.field)

    def cell(self, row: GatewayFigures) -> str:
        """Return the visible text."""
        value = self.value(row)
        if value is None or value == "":
            return UNKNOWN
        # Jobs at once stand beside the most that there can be.
        jobs = self.field == "running" and row.capacity is not None
        return self.form(value) + (f"/{row.capacity:.0f}" if jobs else "")


class GatewayTable(NamedTuple):
    """The columns that fit, and the cells of every row."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _share(value: float) -> str:
    # A failure in a thousand must not be shown as none.
    return "0 %" if not value else f"{max(value * 100, 0.1):.2g} %"


def _bytes(value: float) -> str:
    return f"{value / 2**20:,.0f} MiB" if value < 2**30 else f"{value / 2**30:.1f} GiB"


COLUMNS = (
    Column("gateway", 0, "name", str, left=True),
    Column("state", 1, "status", str, left=True),
    Column("engine", 10, "engine", str, left=True),
    Column("sockets", 4, "sockets", _count),
    Column("rooms", 7, "rooms", _count),
    Column("jobs", 6, "running", _count),
    Column("queue", 3, "queued", _count),
    Column("tokens/s", 5, "tokens", _count),
    Column("texts/min", 11, "utterances", _count),
    Column("first p50", 9, "first50", _seconds),
    Column("first p95", 2, "first95", _seconds),
    Column("final p95", 8, "total95", _seconds),
    Column("failed", 12, "failed", _share),
    Column("CPU", 13, "cpu", "{:.2f}".format),
    Column("memory", 14, "memory", _bytes),
)
"""All columns, in the order in which they are shown."""


def table(
    figures: Sequence[GatewayFigures],
    *,
    width: int,
    sort: int = 0,
    reverse: bool = False,
    measure: Callable[[str], int] = len,
) -> GatewayTable:
    """Return the table of the gateways.

    :param sort: index of a column, which is always shown; rows without a value come last
    :param measure: returns the columns that a text takes on the terminal
    """
    value = COLUMNS[sort].value
    known = [row for row in figures if value(row) is not None]
    known.sort(key=value, reverse=reverse)
    ordered = [*known, *(row for row in figures if value(row) is None)]
    widths = {
        column: max(measure(column.title), *(measure(column.cell(row)) for row in ordered))
        for column in COLUMNS
    }
    shown = list(COLUMNS)
    kept = {COLUMNS[0], COLUMNS[sort]}
    while len(shown) > len(kept) and sum(widths[column] + GAP for column in shown) - GAP > width:
        shown.remove(
            max((column for column in shown if column not in kept), key=lambda column: column.rank)
        )
    rows = tuple(tuple(column.cell(row) for column in shown) for row in ordered)
    return GatewayTable(tuple(shown), rows)
