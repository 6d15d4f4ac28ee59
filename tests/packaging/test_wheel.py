"""Contents of the wheel that the project's description promises."""

from __future__ import annotations

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

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
