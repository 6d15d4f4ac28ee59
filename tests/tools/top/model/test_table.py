"""The table of `gateway top`: cells, order, and what is left out of a narrow terminal."""

from __future__ import annotations

import pytest

from caption_tools.top.model.figures import GatewayFigures
from caption_tools.top.model.table import COLUMNS, GatewayTable, table

TITLES = [column.title for column in COLUMNS]
FULL = GatewayFigures(
    name="a:8000",
    status="ready",
    engine="vllm:EuroLLM",
    sockets=1234,
    rooms=3,
    running=7,
    capacity=16,
    queued=0,
    tokens=1234.4,
    utterances=60,
    first50=0.2504,
    first95=1.26,
    total95=0.9,
    failed=0.0125,
    cpu=0.4999,
    memory=3 * 2**29,
    notes=("x",),
)
DOWN = GatewayFigures(name="b:8000", status="down")


def titles(found: GatewayTable) -> list[str]:
    return [column.title for column in found.columns]


def cells(row: GatewayFigures) -> dict[str, str]:
    (found,) = table([row], width=1000).rows
    return dict(zip(TITLES, found, strict=True))


def test_every_figure_has_its_unit() -> None:
    assert cells(FULL) == {
        "gateway": "a:8000",
        "state": "ready",
        "engine": "vllm:EuroLLM",
        "sockets": "1,234",
        "rooms": "3",
        "jobs": "7/16",
        "queue": "0",
        "tokens/s": "1,234",
        "texts/min": "60",
        "first p50": "250 ms",
        "first p95": "1.3 s",
        "final p95": "900 ms",
        "failed": "1.2 %",
        "CPU": "0.50",
        "memory": "1.5 GiB",
    }


def test_what_is_not_known_is_a_dash() -> None:
    known = {"gateway": "b:8000", "state": "down"}
    assert cells(DOWN) == dict.fromkeys(TITLES, "-") | known


@pytest.mark.parametrize(
    ("share", "shown"), [(0, "0 %"), (0.0001, "0.1 %"), (0.5, "50 %"), (1, "1e+02 %")]
)
def test_no_failure_looks_like_none(share: float, shown: str) -> None:
    assert cells(GatewayFigures(name="a", status="ready", failed=share))["failed"] == shown


def test_memory_below_a_gibibyte_is_in_mebibytes() -> None:
    assert cells(GatewayFigures(name="a", status="ready", memory=2**28))["memory"] == "256 MiB"


def test_rows_are_sorted_by_a_column_and_those_without_a_value_come_last() -> None:
    rows = [
        DOWN,
        GatewayFigures(name="c", status="ready", queued=5),
        GatewayFigures(name="d", status="ready", queued=9),
    ]
    queue = TITLES.index("queue")

    def order(*, reverse: bool) -> list[str]:
        found = table(rows, width=1000, sort=queue, reverse=reverse)
        return [row[0] for row in found.rows]

    assert order(reverse=False) == ["c", "d", "b:8000"]
    assert order(reverse=True) == ["d", "c", "b:8000"]


def test_a_narrow_terminal_shows_the_columns_that_matter_most() -> None:
    found = titles(table([FULL], width=60))
    assert found == ["gateway", "state", "sockets", "jobs", "queue", "tokens/s", "first p95"]
    assert titles(table([FULL], width=1)) == ["gateway"]


def test_the_column_that_rows_are_sorted_by_is_always_shown() -> None:
    memory = TITLES.index("memory")
    assert titles(table([FULL], width=1, sort=memory)) == ["gateway", "memory"]


def test_what_is_shown_fits() -> None:
    for width in range(20, 200, 7):
        found = table([FULL, DOWN], width=width)
        widths = [
            max(len(text) for text in (column.title, *column_cells))
            for column, column_cells in zip(
                found.columns, zip(*found.rows, strict=True), strict=True
            )
        ]
        assert sum(widths) + 2 * (len(widths) - 1) <= width


def test_wide_characters_are_measured_by_the_caller() -> None:
    named = GatewayFigures(name="会議" * 5, status="ready")
    narrow = table([named], width=25, measure=lambda text: 2 * len(text))
    assert titles(narrow) == ["gateway"]
