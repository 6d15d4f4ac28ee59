"""One frame of `gateway top`, drawn by Rich.

Owns: colours and layout. Must not know: where figures come from. What a gateway or a proxy answers
is not trusted: no text is read as markup, and control characters become spaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from gateway.cli.console.terminal import printable, width
from gateway.cli.top.model.figures import DOWN, GatewayFigures
from gateway.cli.top.model.table import COLUMNS, table

STYLES = {"ready": "green", "starting": "yellow", "draining": "yellow"}
"""Colours of states; any other is red."""


def frame(
    figures: Sequence[GatewayFigures],
    *,
    columns: int,
    title: str,
    sort: int = 0,
    reverse: bool = False,
) -> Group:
    """Return what is shown: a title, the table, and a sentence for all that is not well.

    :param columns: columns of the terminal
    :param title: first line
    :param sort: index of the column by which rows are sorted
    """
    shown = table(figures, width=columns, sort=sort, reverse=reverse, measure=width)
    drawn = Table(
        box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, header_style="bold"
    )
    for column in shown.columns:
        # An arrow beside the title would make the column wider, and another one might not fit.
        style = "bold reverse" if column is COLUMNS[sort] and len(figures) > 1 else "bold"
        drawn.add_column(
            Text(column.title, style), justify="left" if column.left else "right", no_wrap=True
        )
    for cells in shown.rows:
        drawn.add_row(
            *(
                Text(printable(cell), STYLES.get(cell, "red") if column.title == "state" else "")
                for column, cell in zip(shown.columns, cells, strict=True)
            )
        )
    return Group(Text(title, "dim"), drawn, *_notes(figures))


def _notes(figures: Sequence[GatewayFigures]) -> Iterator[Text]:
    for row in figures:
        for note in row.notes:
            colour = "red" if row.status == DOWN else "yellow"
            yield Text(printable(f"{row.name}: {note}"), colour)
