"""The pages that people read: docs/ and the Markdown files of the root."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), ROOT / "clients" / "js" / "README.md"])


def name(page: Path) -> str:
    """Return the path of a page below the root, as the id of a test."""
    return str(page.relative_to(ROOT))
