"""The table of `gateway top`: columns, cells, the order of rows, and what fits.

Owns: titles, formats and which columns go first if there is no space. Must not know: the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.cli.top.model.figures import GatewayFigures

GAP = 2
"""Columns of the terminal between two columns of the table."""

UNKNOWN = "-"


class Column(NamedTuple):
    """A column of the table.

    ``rank`` tells which column goes first if there is no space: that with the highest. ``value`` is
    what rows are sorted by, ``cell`` what is shown.
    """

    title: str
    rank: int
    value: Callable[[GatewayFigures], float | str | None]
    cell: Callable[[GatewayFigures], str]
    left: bool = False


class GatewayTable(NamedTuple):
    """The columns that fit, and the cells of every row."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _share(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    # A failure in a thousand must not be shown as none.
    return "0 %" if not value else f"{max(value * 100, 0.1):.2g} %"


def _bytes(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value / 2**20:,.0f} MiB" if value < 2**30 else f"{value / 2**30:.1f} GiB"


def _jobs(row: GatewayFigures) -> str:
    if row.running is None or row.capacity is None:
        return UNKNOWN
    return f"{row.running:.0f}/{row.capacity:.0f}"


COLUMNS = (
    Column("gateway", 0, lambda row: row.name, lambda row: row.name, left=True),
    Column("state", 1, lambda row: row.status, lambda row: row.status, left=True),
    Column("engine", 10, lambda row: row.engine, lambda row: row.engine or UNKNOWN, left=True),
    Column("sockets", 4, lambda row: row.sockets, lambda row: _count(row.sockets)),
    Column("rooms", 7, lambda row: row.rooms, lambda row: _count(row.rooms)),
    Column("jobs", 6, lambda row: row.running, _jobs),
    Column("queue", 3, lambda row: row.queued, lambda row: _count(row.queued)),
    Column("tokens/s", 5, lambda row: row.tokens, lambda row: _count(row.tokens)),
    Column("texts/min", 11, lambda row: row.utterances, lambda row: _count(row.utterances)),
    Column("first p50", 9, lambda row: row.first50, lambda row: _seconds(row.first50)),
    Column("first p95", 2, lambda row: row.first95, lambda row: _seconds(row.first95)),
    Column("final p95", 8, lambda row: row.total95, lambda row: _seconds(row.total95)),
    Column("failed", 12, lambda row: row.failed, lambda row: _share(row.failed)),
    Column(
        "CPU", 13, lambda row: row.cpu, lambda row: UNKNOWN if row.cpu is None else f"{row.cpu:.2f}"
    ),
    Column("memory", 14, lambda row: row.memory, lambda row: _bytes(row.memory)),
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

    :param width: columns of the terminal
    :param sort: index of a column, which is always shown; rows without a value come last
    :param measure: returns the columns that a text takes on the terminal
    """
    value = COLUMNS[sort].value
    known = [row for row in figures if value(row) is not None]
    known.sort(key=value, reverse=reverse)  # type: ignore[arg-type]  # no value is None
    ordered = [*known, *(row for row in figures if value(row) is None)]
    widths = {
        column: max(measure(column.title), *(measure(column.cell(row)) for row in ordered))
        for column in COLUMNS
    }
    shown = list(COLUMNS)
    kept = {COLUMNS[0], COLUMNS[sort]}
    while len(shown) > len(kept) and sum(widths[one] + GAP for one in shown) - GAP > width:
        shown.remove(max((one for one in shown if one not in kept), key=lambda one: one.rank))
    rows = tuple(tuple(column.cell(row) for column in shown) for row in ordered)
    return GatewayTable(tuple(shown), rows)
