"""Commands that install this project name distributions and extras that exist."""

from __future__ import annotations

import re
import tomllib

import pytest

from scripts.check_dist import requirements
from tests.docs.pages import PAGES, ROOT, name

DISTRIBUTIONS = {
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"]["name"]: folder
    for folder in (".", "clients/python", "tools")
}
CHECKOUT = re.compile(r"pip install (?:-\S+ )*['\"]?\.(?!/word-book)")
"""An install from a checkout, which a reader of the published pages does not have. The word book is
an engine that the reader writes."""


@pytest.mark.parametrize("requirement", sorted(requirements(ROOT)))
def test_a_distribution_that_is_to_be_installed_exists_with_its_extra(requirement: str) -> None:
    """`make dist` runs each of these commands."""
    found = re.fullmatch(r"([\w-]+)(?:\[(\w+)\])?", requirement)
    assert found is not None
    project = tomllib.loads((ROOT / DISTRIBUTIONS[found[1]] / "pyproject.toml").read_text("utf-8"))
    assert found[2] is None or found[2] in project["project"]["optional-dependencies"]


def test_the_pages_install_distributions_and_not_a_checkout() -> None:
    assert {name(page) for page in PAGES if CHECKOUT.search(page.read_text("utf-8"))} == set()
