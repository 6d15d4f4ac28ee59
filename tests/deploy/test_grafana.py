"""The dashboards: each panel says what it shows, and none covers another."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

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


BESIDE_SCHEMA = {"titleFormat", "definition"}
"""Keys that Grafana reads and writes, and that its schema does not have: the text of an annotation,
and the query of a variable as its editor shows it."""


def missing(given: Any, known: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each key of a file that is not in the parsed model."""
    if isinstance(given, dict):
        for key, value in given.items():
            if key not in known:
                yield f"{path}/{key}"
            else:
                yield from missing(value, known[key], f"{path}/{key}")
    elif isinstance(given, list):
        assert len(given) == len(known), path
        for number, (value, other) in enumerate(zip(given, known, strict=True)):
            yield from missing(value, other, f"{path}/{number}")
    else:
        assert given == known, path


def wrong_values(model: Any) -> Iterator[str]:
    """Yield each value of a model that its type does not have."""
    if isinstance(model, list):
        for one in model:
            yield from wrong_values(one)
    elif type(model).__module__.startswith("grafana_foundation_sdk"):
        for name, kind in get_type_hints(type(model)).items():
            value = getattr(model, name)
            kinds: list[Any] = [kind, *get_args(kind)]  # an enum, or an enum or None
            values = [one.value for it in kinds if isinstance(it, enum.EnumMeta) for one in it]  # type: ignore[var-annotated]
            if values and value not in (*values, None):
                yield f"{type(model).__name__}.{name} = {value!r}"
            yield from wrong_values(value)


def faults(dashboard: dict[str, Any]) -> list[str]:
    """Return the keys and values of a dashboard that Grafana's own schema does not know."""
    register_default_plugins()
    model = Dashboard.from_json(dashboard)
    known = json.loads(JSONEncoder().encode(model))
    found = [path for path in missing(dashboard, known) if path.split("/")[-1] not in BESIDE_SCHEMA]
    return found + [*wrong_values(model)]


def test_a_dashboard_has_only_keys_and_values_of_grafanas_schema(dashboard: dict[str, Any]) -> None:
    assert faults(dashboard) == []


def test_misspelt_keys_and_values_of_a_dashboard_are_found(dashboard: dict[str, Any]) -> None:
    stat = next(panel for panel in dashboard["panels"] if panel["type"] == "stat")
    stat["options"] |= {"graphMod": "area", "graphMode": "aera"}
    stat["fieldConfig"]["defaults"]["unti"] = "s"
    stat["targets"][0]["exprr"] = "up"
    place = f"/panels/{dashboard['panels'].index(stat)}"
    assert faults(dashboard) == [
        f"{place}/targets/0/exprr",
        f"{place}/fieldConfig/defaults/unti",
        f"{place}/options/graphMod",
        "Options.graph_mode = 'aera'",
    ]
