"""Dashboards and alert rules name metrics and labels that exist."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.errors import ErrorCode
from tests.deploy.expressions import (
    Use,
    dashboards,
    expressions,
    filled,
    grouping,
    panel_targets,
    rules,
    uses,
)
from tests.server.test_metrics import exposed

ADDED = {"job", "instance"}
"""Labels that Prometheus adds to every series."""

OWN = {"up": ADDED}
"""Metrics of Prometheus itself."""


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """Return all series of a gateway by name: their labels, and the values of these."""
    found: dict[str, dict[str, set[str]]] = {
        name: {one: set() for one in OWN[name]} for name in OWN
    }
    with pytest.MonkeyPatch.context() as patch:
        text = exposed(tmp_path_factory.mktemp("metrics"), patch)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {one: set() for one in ADDED})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


@pytest.mark.parametrize("text", expressions())
def test_every_metric_and_label_of_an_expression_exists(
    text: str, series: dict[str, dict[str, set[str]]]
) -> None:
    found = uses(text)
    assert found, "an expression is about a metric"
    for metric, matchers in found:
        assert metric in series, metric
        for label, value in matchers.items():
            assert label in series[metric], f"{metric} has no label {label}"
            if label not in ADDED:
                known = set(ErrorCode) if label == "code" else series[metric][label]
                assert value in known, f"{label} of {metric} is never {value!r}"
    shared = set.intersection(*(set(series[metric]) for metric, _ in found))
    assert grouping(text) <= shared


def labels_of_result(text: str, series: dict[str, dict[str, set[str]]]) -> set[str]:
    """Return the labels that the result of an expression can have."""
    return grouping(text) or set.union(*(set(series[metric]) for metric, _ in uses(text)))


def test_every_label_in_a_legend_is_one_of_the_result(
    series: dict[str, dict[str, set[str]]],
) -> None:
    for dashboard in dashboards():
        for panel in dashboard["panels"]:
            for target in panel_targets(panel):
                named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                assert named <= labels_of_result(filled(target["expr"]), series), target


def test_every_label_in_an_annotation_is_one_of_the_result(
    series: dict[str, dict[str, set[str]]],
) -> None:
    for rule in rules():
        for text in rule["annotations"].values():
            named = set(re.findall(r"\$labels\.(\w+)", text))
            assert named <= labels_of_result(rule["expr"], series), rule["alert"]


def test_every_metric_of_the_gateway_is_in_a_dashboard(
    series: dict[str, dict[str, set[str]]],
) -> None:
    shown = {
        use.metric
        for dashboard in dashboards()
        for panel in dashboard["panels"]
        for target in panel_targets(panel)
        for use in uses(filled(target["expr"]))
    }
    stems = {re.sub(r"_(bucket|sum|count)$", "", metric) for metric in shown}
    gateway = {name for name in series if name.startswith("gateway_")}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in gateway} - stems == set()


def test_the_uses_of_an_expression_are_found_wherever_they_stand() -> None:
    text = (
        'sum by (a)(rate(b{c="d"}[5m])) / on (e) (f offset 1m)'
        " and -topk(2, g) or max_over_time(h[1h:1m])"
    )
    assert uses(text) == [Use("b", {"c": "d"}), Use("f", {}), Use("g", {}), Use("h", {})]
    assert grouping(text) == {"a", "e"}


def test_no_expression_reads_a_bucket_without_its_bounds() -> None:
    """Without ``le`` in the grouping, `histogram_quantile` returns nothing."""
    for text in expressions():
        if "_bucket" in text:
            assert "histogram_quantile" in text and "le" in grouping(text)
