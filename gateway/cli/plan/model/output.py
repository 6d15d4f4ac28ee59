"""A plan as text for the terminal.

Owns: the table, and which figures stand in it. Must not know: formulas, files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.cli.plan.model.capacity import CapacityPlan, rough
from gateway.cli.report import table

if TYPE_CHECKING:  # SimPy is imported with it, which is an extra
    from gateway.cli.plan.model.simulation import SimulationReport

MEANT = (
    "First text: from the second agreed word of a growing text, or from a whole one, to the first"
    " text of its caption. Final: from the end of an utterance to its finished caption. Both"
    " without the network. Two digits at most mean anything."
)


def text(
    plan: CapacityPlan,
    simulated: Mapping[str, SimulationReport],
    sources: Sequence[str],
    *,
    explain: bool,
    width: int | None = None,
) -> str:
    """Return the report.

    :param simulated: one report for each engine that was simulated, by the end of its rows' names
    :param sources: of the figures, for ``explain``
    :param explain: whether formulas and sources are printed
    :param width: letters of a line; None: any number
    """
    if explain:
        parts = [table.pairs([(f"{row.name}: {row.text}", row.how) for row in plan.rows], width)]
    else:
        parts = [table.pairs([(row.name, row.text) for row in plan.rows], width)]
    parts += [_simulated(label, found, width) for label, found in simulated.items()]
    parts += ["\n".join(table.prose(line, width) for line in (MEANT, *plan.limits))]
    if explain:
        parts.append("\n".join(table.prose(f"Figures: {one}", width) for one in sources))
    return "\n\n".join(parts)


def _simulated(label: str, found: SimulationReport, width: int | None) -> str:
    rows = [
        (name, *(f"{rough(value)} ms" for value in (times.p50, times.p95)))
        for name, times in (("first text", found.first), ("final", found.final))
    ]
    head = (
        f"Simulated, one engine{label}: {found.utterances} utterances, {found.refused} refused;"
        f" {rough(found.captions_s)} captions a second, {rough(found.partials)} growing texts each;"
        f" finals wait {rough(found.queue)} ms for {rough(found.engine)} ms in the engine"
    )
    return f"{table.prose(head, width)}\n{table.text(('', 'p50', 'p95'), rows)}"
