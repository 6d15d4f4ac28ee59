"""The changelog is a page that a user reads, with dated releases."""

from __future__ import annotations

import re

from gateway import __version__
from tests.docs.pages import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_present_version_has_a_dated_section() -> None:
    assert re.search(rf"^## {re.escape(__version__)} \(\d{{4}}-\d\d-\d\d\)$", TEXT, re.MULTILINE)
    assert TEXT.count("\n## Unreleased\n") == 1
    # An entry that was written for a section twice, as by a merge, would be here as well.
    lines = [line for line in TEXT.splitlines() if line.startswith("- ")]
    assert len(lines) == len(set(lines))


def test_a_release_fits_on_a_page() -> None:
    """Readers look for the contents of a release, and not for the steps that led to it."""
    for section in TEXT.split("\n## ")[1:]:
        assert len(section.split()) < 1_000, section[:40]
