"""A plan as it is printed."""

from __future__ import annotations

from gateway.cli.plan.command import speech
from gateway.cli.plan.model import output
from gateway.cli.plan.model.load import MeetingLoad
from gateway.cli.plan.model.simulation import of_share
from tests.cli.plan.model.examples import CORE, planned, whole


def test_a_plan_is_a_table_and_what_its_figures_mean() -> None:
    printed = output.text(planned(), {}, ("a source",), explain=False)
    assert "\nengines for finals" in printed
    assert " x " not in printed.partition("First text:")[0]
    assert "a source" not in printed
    assert "encodes each of its events once" in printed


def test_an_explained_plan_has_formulas_and_sources() -> None:
    printed = output.text(planned(), {}, ("a source",), explain=True)
    assert "10 meetings x 0.8 of the time x 150 words a minute / 16 words" in printed
    assert printed.endswith("Figures: a source")


def test_a_simulation_is_printed_beside_the_plan() -> None:
    found = of_share(MeetingLoad(), planned(), whole(MeetingLoad()), CORE, 10.0, speech)
    printed = output.text(planned(), {"": found}, (), explain=False)
    assert "Simulated, one engine: " in printed
    assert "p95" in printed
