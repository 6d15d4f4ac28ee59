"""The alert rules: valid, tested by Prometheus' own tool, and each with a section of the docs."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import yaml

from tests.deploy.expressions import RULES, rules
from tests.docs.pages import ROOT

UNIT_TESTS = RULES.with_name("gateway.test.yml")
HANDBOOK = ROOT / "docs" / "how-to" / "alerts.md"

promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool (Debian package prometheus)"
)


def test_every_alert_has_a_severity_and_a_sentence_for_each_annotation() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description", "runbook"}
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["description"].endswith(".")


def test_every_alert_has_its_section_in_the_handbook_and_no_section_is_left_over() -> None:
    sections = re.findall(r"^## (Gateway\w+)$", HANDBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == [rule["alert"] for rule in rules()]
    for rule in rules():
        anchor = rule["alert"].lower()
        assert rule["annotations"]["runbook"] == f"docs/how-to/alerts.md#{anchor}"


def test_every_alert_fires_in_a_unit_test() -> None:
    text = UNIT_TESTS.read_text(encoding="utf-8")
    tested = set(re.findall(r"\bGateway\w+", yaml.safe_dump(yaml.safe_load(text))))
    assert tested == {rule["alert"] for rule in rules()}


@promtool
def test_promtool_accepts_the_rules_and_their_unit_tests_pass() -> None:
    for command in (("check", "rules", RULES.name), ("test", "rules", UNIT_TESTS.name)):
        done = subprocess.run(
            ("promtool", *command), cwd=RULES.parent, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
