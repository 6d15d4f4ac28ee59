"""Contents of the wheel that the project's description promises."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

import gateway

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_tells_type_checkers_that_the_package_is_typed() -> None:
    builder = WheelBuilder(str(ROOT))
    assert "Typing :: Typed" in builder.metadata.core.classifiers
    assert "gateway/py.typed" in {
        file.distribution_path for file in builder.recurse_included_files()
    }


def test_the_wheel_has_the_schemas_that_a_command_prints() -> None:
    files = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert {"gateway/schema/asyncapi.v1.json", "gateway/schema/gateway.v1.schema.json"} <= files


def test_the_wheel_has_all_files_of_the_page_beside_each_other() -> None:
    files = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert {"gateway/web_demo/index.html", "gateway/clients/js/captions.js"} <= files


def test_the_metadata_of_a_published_wheel_lead_to_its_repository(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CAPTION_GATEWAY_URL", "https://example.org/us/gateway/")
    core = WheelBuilder(str(ROOT)).metadata.core
    files = f"https://example.org/us/gateway/blob/v{gateway.__version__}"
    assert core.urls["Homepage"] == "https://example.org/us/gateway"
    assert core.urls["Changelog"] == f"{files}/CHANGELOG.md"
    links = re.findall(r"\]\(([^)]+)\)", core.readme)
    assert f"{files}/docs/how-to/embed.md" in links
    assert "https://example.org/us/gateway/raw/v" in core.readme  # the picture
    assert [link for link in links if not link.startswith("http")] == []


def test_without_an_address_the_readme_is_as_in_the_repository() -> None:
    core = WheelBuilder(str(ROOT)).metadata.core
    assert core.readme == (ROOT / "README.md").read_text(encoding="utf-8")
    assert core.urls == {}


def test_an_image_is_built_from_all_files_that_the_wheel_needs() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = [line.removeprefix("!") for line in lines if line.startswith("!")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    hatch = project["tool"]["hatch"]
    wheel = hatch["build"]["targets"]["wheel"]
    needed = ["README.md", *project["project"]["license-files"], *wheel["packages"]]
    needed += [*wheel["force-include"], hatch["metadata"]["hooks"]["custom"]["path"]]
    missing = [one for one in needed if not any(f"{one}/".startswith(f"{s}/") for s in sent)]
    assert missing == []
