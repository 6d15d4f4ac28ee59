"""The expressions of dashboards and alert rules, and the metrics and labels that they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import promql_parser as promql
import yaml

from tests.docs.pages import ROOT

RULES = ROOT / "deploy" / "prometheus" / "gateway.rules.yml"
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))

VARIABLES = {"$__rate_interval": "5m", "$job": "gateway", "$instance": "a"}
"""Variables of Grafana, and what stands for them here."""


class Use(NamedTuple):
    """A metric in an expression, and the labels that its selector asks for by value."""

    metric: str
    matchers: dict[str, str]


def rules() -> list[dict[str, Any]]:
    """Return the alert rules."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboards() -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS]


def expressions() -> list[str]:
    """Return all expressions of rules, panels, annotations and variables."""
    found = [rule["expr"] for rule in rules()]
    for dashboard in dashboards():
        found += [
            target["expr"] for panel in dashboard["panels"] for target in panel_targets(panel)
        ]
        found += [one["expr"] for one in dashboard["annotations"]["list"] if "expr" in one]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                selected = re.fullmatch(r"label_values\((.+), \w+\)", variable["definition"])
                assert selected is not None, variable["definition"]
                found.append(selected[1])
    return [filled(text) for text in found]


def panel_targets(panel: dict[str, Any]) -> list[dict[str, Any]]:
    targets: list[dict[str, Any]] = panel.get("targets", [])
    return targets


def filled(text: str) -> str:
    """Return an expression with values instead of Grafana's variables."""
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    assert "$" not in text, text
    return text


def nodes(node: Any) -> Iterator[Any]:
    """Yield a parsed expression and everything in it."""
    yield node
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        child = getattr(node, name, None)
        if isinstance(child, promql.Expr):
            yield from nodes(child)
    args = getattr(node, "args", ())
    for child in args if isinstance(args, list) else ():
        yield from nodes(child)


def uses(text: str) -> list[Use]:
    """Return the metrics of an expression."""
    found = []
    for node in nodes(promql.parse(text)):
        if isinstance(node, promql.VectorSelector):
            matchers = {one.name: one.value for one in node.matchers.matchers}
            found.append(Use(str(node.name), matchers))
    return found


def grouping(text: str) -> set[str]:
    """Return the labels by which an expression groups or joins."""
    found: set[str] = set()
    for node in nodes(promql.parse(text)):
        if isinstance(node, (promql.AggregateExpr, promql.BinaryExpr)):
            modifier: Any = node.modifier
            for part in (modifier, getattr(modifier, "matching", None)):
                found |= set(getattr(part, "labels", None) or ())
    return found
