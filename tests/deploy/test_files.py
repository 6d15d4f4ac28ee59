"""Checks of the files in `deploy/` that no test can run here."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

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


def test_the_image_for_gpus_has_the_newest_vllm_that_the_extra_allows() -> None:
    text = (DEPLOY / "docker" / "Dockerfile.cuda").read_text()
    image = re.search(r"^FROM vllm/vllm-openai:v(\d+)\.(\d+)\.", text, re.MULTILINE)
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    (extra,) = project["optional-dependencies"]["vllm"]
    assert image is not None
    major, minor = map(int, image.groups())
    assert extra.endswith(f",<{major}.{minor + 1}")


CHART = DEPLOY / "helm"
EVERYTHING = {"serviceMonitor": {"enabled": True}, "autoscaling": {"enabled": True}}
OWN_REDIS = {"redis": {"enabled": False, "url": "redis://there:6379/0"}}


def rendered(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the manifests that Helm would apply for a release called "captions"."""
    helm = pytest.importorskip("helm_python")
    with helm.Chart.load(str(CHART)) as chart:
        files = chart.render(values, name="captions", namespace="default")
    return [one for text in files.values() for one in yaml.safe_load_all(text) if one]


@pytest.mark.parametrize("values", [{}, EVERYTHING, OWN_REDIS], ids=["defaults", "all", "redis"])
def test_the_chart_renders_manifests_that_follow_the_schemas_of_kubernetes(
    values: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "manifests.yaml"
    # The schemas of the Prometheus operator are not among those of Kubernetes.
    known = [one for one in rendered(values) if one["kind"] != "ServiceMonitor"]
    file.write_text(yaml.safe_dump_all(known))
    check(str(BIN / "kubernetes-validate"), "--strict", str(file))


def test_helm_finds_no_fault_in_the_chart() -> None:
    found = pytest.importorskip("helm_python").lint(str(CHART))
    assert found["errors"] == []


def test_prometheus_in_a_cluster_reads_metrics_with_the_key_of_the_secret() -> None:
    kinds = {one["kind"]: one for one in rendered(EVERYTHING)}
    (monitored,) = kinds["ServiceMonitor"]["spec"]["endpoints"]
    credentials = monitored["authorization"]["credentials"]
    pod = kinds["Deployment"]["spec"]["template"]
    (volume,) = pod["spec"]["volumes"]
    assert credentials == {"name": volume["secret"]["secretName"], "key": "metrics.key"}
    selector = kinds["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    services = [one for one in rendered(EVERYTHING) if one["kind"] == "Service"]
    (labels,) = [
        one["metadata"]["labels"] for one in services if one["spec"]["ports"][0]["port"] == 80
    ]
    assert selector == labels and pod["metadata"]["labels"] == labels
    assert labels[kinds["ServiceMonitor"]["spec"]["jobLabel"]] == "gateway"


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
