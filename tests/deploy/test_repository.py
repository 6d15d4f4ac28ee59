"""Checks of the files that a code host and contributors' tools read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from tests.deploy.test_files import check

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("workflows/ci.yml", "github-workflows"),
        ("ISSUE_TEMPLATE/bug.yml", "github-issue-forms"),
        ("ISSUE_TEMPLATE/idea.yml", "github-issue-forms"),
        ("ISSUE_TEMPLATE/config.yml", "github-issue-config"),
    ],
)
def test_a_file_for_the_code_host_follows_its_schema(path: str, schema: str) -> None:
    checker = str(Path(sys.executable).parent / "check-jsonschema")
    check(checker, "--builtin-schema", f"vendor.{schema}", str(GITHUB / path))


def test_the_workflow_runs_what_every_change_must_pass() -> None:
    (job,) = yaml.safe_load((GITHUB / "workflows" / "ci.yml").read_text())["jobs"].values()
    assert job["steps"][-1]["run"].endswith(" .ci/run")
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_the_commit_hooks_call_targets_of_the_makefile() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    makefile = (ROOT / "Makefile").read_text()
    for hook in config["repos"][0]["hooks"]:
        assert f"\n{hook['entry'].removeprefix('make ')}: " in makefile
