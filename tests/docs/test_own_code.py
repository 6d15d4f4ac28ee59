"""The pages that list own code and stock clients name existing files."""

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


def test_every_stock_client_is_imported_by_the_test_in_its_row() -> None:
    rows = re.findall(r"^\| (.*?) \| .* \| `(.+?)` \|$", CLIENTS, re.MULTILINE)
    clients = {client for client, _ in rows if client}
    assert len(clients) >= 10
    named = ""
    for client, test in rows:
        named = client or named  # an empty cell repeats the one above
        (package, *_) = re.findall(r"`(.+?)`", named)
        # The tests in Node.js share a client of the gateway's own protocol.
        files = [ROOT / test, *(ROOT / test).parent.glob("client.js")]
        text = "\n".join(file.read_text(encoding="utf-8") for file in files)
        imported = rf"(import |from |[\"/]){re.escape(package)}[\"/. \n]"
        assert re.search(imported, text), f"{test} does not import {package}"
