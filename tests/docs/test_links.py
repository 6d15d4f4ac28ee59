"""Links between pages lead somewhere, in the checkout and on the built site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, name


def links(page: Path) -> list[tuple[str, Path, str]]:
    """Return every link to a file: the link as written, its target and its anchor."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"\w+:", link):
            path, _, anchor = link.partition("#")
            found.append((link, (page.parent / path).resolve() if path else page, anchor))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_files_and_headings_lead_somewhere(page: Path) -> None:
    for link, target, anchor in links(page):
        assert target.exists(), f"{name(page)} links to {link}"
        if anchor and target.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in slugs, f"{name(page)} links to {link}"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name)
def test_pages_of_the_site_link_only_to_files_of_the_site(page: Path) -> None:
    for link, target, _ in links(page):
        assert target.is_relative_to(DOCS), f"{name(page)} links to {link}, which is not published"


def test_every_page_of_docs_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/.-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
