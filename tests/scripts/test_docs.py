"""The generated pages of docs/ are complete and up to date."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.errors import CloseCode, ErrorCode
from scripts.docs import FILES, codes, write
from scripts.schema import asyncapi, json_schema

ROOT = Path(__file__).parents[2]


def test_the_page_of_codes_has_every_code() -> None:
    page = codes()
    for code in (*ErrorCode, *CloseCode):
        assert code.doc in page
    assert "| `busy` | yes |" in page
    assert "| 4008 | yes |" in page
    assert "| 4400 | no |" in page


def test_write_creates_every_generated_file(tmp_path: Path) -> None:
    write(tmp_path)
    written = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert written == set(FILES)
    assert json.loads((tmp_path / "docs/schema/asyncapi.v1.json").read_bytes()) == asyncapi()
    assert (
        json.loads((tmp_path / "docs/schema/gateway.v1.schema.json").read_bytes()) == json_schema()
    )


@pytest.mark.parametrize("name", FILES)
def test_the_generated_files_are_up_to_date(name: str) -> None:
    path = ROOT / name
    on_disk = path.read_text(encoding="utf-8") if path.exists() else ""
    assert on_disk == FILES[name](), (
        f"{name} is out of date: run `make docs-pages`, and check the pages about the protocol too."
    )
