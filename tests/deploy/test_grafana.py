"""The dashboards: each panel says what it shows, and none covers another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deploy.expressions import DASHBOARDS, dashboards, panel_targets

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
"""The data source that the reader of a dashboard chooses."""


@pytest.fixture(params=dashboards(), ids=[path.name for path in DASHBOARDS])
def dashboard(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_there_is_a_dashboard() -> None:
    assert DASHBOARDS


def test_every_panel_has_a_title_a_sentence_a_unit_and_the_chosen_data_source(
    dashboard: dict[str, Any],
) -> None:
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard["panels"]:
        assert panel["title"]
        if panel["type"] == "row":
            continue
        assert panel["description"].endswith(".") and panel["datasource"] == SOURCE
        assert panel["type"] == "state-timeline" or panel["fieldConfig"]["defaults"]["unit"]
        assert panel_targets(panel)
        refs = [target["refId"] for target in panel_targets(panel)]
        assert len(set(refs)) == len(refs)


def test_no_panel_covers_another_or_leaves_the_grid(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        box = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(box["x"], box["x"] + box["w"])
            for y in range(box["y"], box["y"] + box["h"])
        }
        assert cells and not cells & taken, panel["title"]
        assert box["x"] + box["w"] <= 24, panel["title"]
        taken |= cells


def test_the_dashboard_can_show_one_of_several_gateways(dashboard: dict[str, Any]) -> None:
    variables = {one["name"] for one in dashboard["templating"]["list"]}
    assert variables == {"datasource", "job", "instance"}
    for panel in dashboard["panels"]:
        for target in panel_targets(panel):
            assert 'job=~"$job", instance=~"$instance"' in target["expr"], panel["title"]
