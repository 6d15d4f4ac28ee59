"""The pages that list own code and stock clients name what there is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DESIGN = (ROOT / "docs" / "design" / "own-code.md").read_text(encoding="utf-8")
CLIENTS = (ROOT / "docs" / "reference" / "clients.md").read_text(encoding="utf-8")


def test_every_folder_of_the_package_is_in_the_table_of_own_code() -> None:
    rows = re.findall(r"^\| (`.+?`) \|", DESIGN, re.MULTILINE)
    named = {path for row in rows for path in re.findall(r"`([^`]+)`", row)}
    assert {path for path in named if not (ROOT / path).exists()} == set()
    folders = {path.parent.name for path in (ROOT / "gateway").glob("*/__init__.py")}
    assert folders - {path.split("/")[1] for path in named if path.startswith("gateway/")} == set()


def test_every_file_in_the_table_of_own_code_is_in_its_folder() -> None:
    for folders, own in re.findall(r"^\| (`gateway.+?`) \| (.+?) \|", DESIGN, re.MULTILINE):
        for file in re.findall(r"`(\w+\.\w+)`", own):
            places = [ROOT / path / file for path in re.findall(r"`([^`]+)`", folders)]
            places += [Path(ROOT, "gateway", "core", "base", file)]
            assert any(place.exists() for place in places), file


def test_every_stock_client_has_a_test_that_names_its_package() -> None:
    rows = re.findall(r"^\| (?:\[(.+?)\])?.*\| `(.+?)` \|$", CLIENTS, re.MULTILINE)
    assert len({name for name, _ in rows if name}) >= 10
    assert {test for _, test in rows if not (ROOT / test).is_file()} == set()
