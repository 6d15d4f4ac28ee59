"""The report of a journey: tables for a terminal, and goals.

Owns: which figures are shown together, and their goals. Must not know: how they were measured.
"""

from __future__ import annotations

import msgspec

from benchmarks.journey import published
from benchmarks.journey.cell import Cell
from benchmarks.journey.plan import name
from caption_tools.report import table

BESIDE = 25
"""Requests at once of the published figures."""

HEADS = (
    *("", "load", "", "requests/s", "to (a)", "p50 s", "p95 s", "p99 s", "first p50 s"),
    *("queue s", "engine s", "tokens/s", "device", "its p5", "idle", "failed"),
)
GOALS = {"requests a second": 7.0, "p95": 0.1}
"""Goals of (f) relative to (a) on a GPU, with variable lengths and `BESIDE` at once."""

UTILISATION = f"Published of the device's use: {published.UTILISATION}"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A run, or several on one machine, put together.

    ``command`` and ``versions`` tell how to repeat it; ``starts`` are seconds until an architecture
    was ready.
    """

    command: str
    versions: dict[str, str]
    backend: str
    model: str
    device: str
    cpus: int
    tokens: dict[str, float]
    """Tokens of a source text on average, for each load."""
    starts: dict[str, float]
    notes: tuple[str, ...]
    cells: tuple[Cell, ...]


class Goal(msgspec.Struct, frozen=True):
    """A ratio of (f) to (a), and whether it is reached."""

    name: str
    wanted: str
    ratio: float
    met: bool


def text(report: Report, width: int | None = None) -> str:
    """Return all tables for a terminal.

    :param width: letters of a line; None: any number
    """
    parts = [about(report)]
    heads, rows = list(HEADS), _rows(report)
    parts.append(table.text(heads, rows, left=3, width=width) if rows else "Nothing was measured.")
    heads, rows = _compared(report)
    parts.append(table.text(heads[:-1], [row[:-1] for row in rows], left=2, width=width))
    parts.append("\n".join(f"({one.architecture}) {one.note}." for one in published.FIGURES))
    parts.append(UTILISATION)
    parts += [
        f"Goal: {goal.name} of (f) to (a) {goal.wanted}: {table.number(goal.ratio)},"
        f" {'met' if goal.met else 'missed'}."
        for goal in goals(report)
    ]
    parts += report.notes
    parts += doubts(report)
    return "\n\n".join(part if "\n" in part else table.prose(part, width) for part in parts)


def about(report: Report) -> str:
    """Return a description of the run and the machine in a sentence or two."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    lengths = ", ".join(f"{load} {mean:.0f}" for load, mean in report.tokens.items())
    return (
        f"{report.backend}, model {report.model}, device {report.device} ({report.cpus} CPUs);"
        f" {versions}. Tokens of a source text on average: {lengths}."
    )


def goals(report: Report) -> list[Goal]:
    """Return the ratios that count, if both architectures were measured on a GPU."""
    if report.backend == "embedded":
        return []
    base, last = (_at(report, letter, "variable") for letter in "af")
    if base is None or last is None or not base.throughput or not base.p95:
        return []
    more, late = last.throughput / base.throughput, last.p95 / base.p95
    speed, tail = GOALS.values()
    return [
        Goal("requests a second", f"at least {speed:g}", more, more >= speed),
        Goal("p95", f"at most {tail:g}", late, late <= tail),
    ]


def doubts(report: Report) -> list[str]:
    """Return reasons why some figures are not valid."""
    found = []
    for one in report.cells:
        if one.client > 0.8:
            found.append(
                f"{one.name}: the client used {one.client:.0%} of"
                " a core and may have been the bottleneck."
            )
        if one.mode == "open" and one.slip > 0.1:
            found.append(
                f"{one.name}: a request was sent {1000 * one.slip:.0f} ms after it was due."
            )
        if one.mode == "open" and one.answered and one.p50 > one.seconds / 2:
            found.append(
                f"{one.name}: requests were due for {one.seconds:.0f} s, half of the answers took"
                f" {one.p50:.1f} s, so few came in that time, and requests/s says little:"
                " more --seconds."
            )
        if one.failed:
            errors = ", ".join(f"{name} {count}" for name, count in one.errors.items())
            found.append(
                f"{one.name}: {one.failed} of"
                f" {one.failed + one.answered} requests had no translation ({errors})."
            )
    return found


def _at(report: Report, letter: str, load: str) -> Cell | None:
    for one in report.cells:
        if (one.architecture, one.load, one.clients) == (letter, load, BESIDE):
            return one
    return None


def _like(report: Report, cell: Cell) -> Cell | None:
    """Return the cell of (a) that a cell is compared with."""
    for one in report.cells:
        if one.architecture == "a" and (one.load, one.mode, one.clients) == (
            cell.load,
            cell.mode,
            cell.clients,
        ):
            if abs(one.offered - cell.offered) < 1e-6:
                return one
    return None


def _rows(report: Report) -> list[list[table.Cell]]:
    found: list[list[table.Cell]] = []
    for one in sorted(report.cells, key=lambda one: (one.load, one.mode, one.architecture)):
        base = _like(report, one)
        ratio = one.throughput / base.throughput if base and base.throughput else None
        found.append(
            [
                *(f"({one.architecture})", one.load, one.how, one.throughput, ratio),
                *(one.p50, one.p95, one.p99, one.first_p50, one.queue, one.engine, one.tokens_s),
                *(_percent(one.busy), _percent(one.busy_p5), _percent(one.idle), one.failed),
            ]
        )
    return found


def _compared(report: Report) -> tuple[list[str], list[list[table.Cell]]]:
    """Return ours at `BESIDE` at once and the published figures, each also relative to its (a)."""
    heads = ["", "architecture"]
    for load in ("uniform", "variable"):
        heads += [f"{load}/s", "to (a)", "published/s", "to (a)"]
    heads.append("what was told of it")
    rows: list[list[table.Cell]] = []
    first = published.FIGURES[0]
    for figure in published.FIGURES:
        letter = figure.architecture
        row: list[table.Cell] = [f"({letter})", name(letter, report.backend)]
        for load, told, base in (
            ("uniform", figure.uniform, first.uniform),
            ("variable", figure.variable, first.variable),
        ):
            one, a = (_at(report, letter, load) for letter in (figure.architecture, "a"))
            row.append(one.throughput if one else None)
            row.append(one.throughput / a.throughput if one and a and a.throughput else None)
            row.append(told)
            row.append(told / base if told and base else None)
        rows.append([*row, figure.note])
    return heads, rows


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"
