"""Checks of the files in `deploy/` that no test can run here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.settings.catalogue import table
from tests.support.reverse_proxy import DEPLOY, program

BIN = Path(sys.executable).parent
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())


def check(*command: str) -> None:
    """Run a checker. Fails with its output."""
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_a_dockerfile_follows_the_rules_of_hadolint(name: str) -> None:
    check(str(BIN / "hadolint"), str(DEPLOY / "docker" / name))


def test_the_compose_file_follows_its_schema() -> None:
    check(
        str(BIN / "check-jsonschema"),
        *("--builtin-schema", "vendor.compose-spec"),
        str(DEPLOY / "compose" / "compose.yaml"),
    )


def test_files_that_the_compose_file_mounts_exist_or_are_named_at_its_top() -> None:
    text = (DEPLOY / "compose" / "compose.yaml").read_text()
    top = text[: text.index("\nname:")]
    for source in re.findall(r"- (\.[^:]+):", text):
        path = DEPLOY / "compose" / source
        assert path.exists() or path.name in top, source


@pytest.mark.parametrize("path", sorted((DEPLOY / "kubernetes").glob("*.yaml")), ids=str)
def test_a_manifest_follows_the_schemas_of_kubernetes(path: Path) -> None:
    check(str(BIN / "kubernetes-validate"), "--strict", str(path))


@pytest.mark.parametrize("name", ["gateway.service", "gateway.socket", "gateway@.service"])
def test_a_unit_is_understood_by_systemd(name: str, tmp_path: Path) -> None:
    for unit in (DEPLOY / "systemd").iterdir():  # a socket needs its service
        text = unit.read_text().replace("/opt/gateway/.venv/bin/gateway", "/bin/true")
        (tmp_path / unit.name).write_text(text.replace("User=gateway", "User=root"))
    unit_file = tmp_path / name.replace("@.", "@8001.")
    if "@" in name:
        (tmp_path / name).rename(unit_file)
    check(program("systemd-analyze"), "verify", "--man=no", str(unit_file))


@pytest.mark.parametrize("path", [*FILES, DEPLOY.parent / "Procfile"], ids=str)
def test_a_file_names_only_settings_that_exist(path: Path) -> None:
    named = set(re.findall(r"\bGATEWAY_[A-Z_]+\b", path.read_text()))
    proxies = {"GATEWAY_ONE", "GATEWAY_TWO", "GATEWAY_THREE"}  # servers of haproxy.cfg
    assert named - proxies <= {setting.variable for setting in table().values()}
