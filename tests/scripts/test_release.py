"""A release has a version and a dated section in the changelog."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.release import release

CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## 0.1.0 (2026-01-02)\n\n- All.\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with the two files that a release changes."""
    (tmp_path / "gateway").mkdir()
    (tmp_path / "gateway" / "__init__.py").write_text('"""A package."""\n\n__version__ = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_a_release_sets_the_version_and_dates_the_entries_of_the_changelog(root: Path) -> None:
    release(root, "0.2.0", "2026-03-04")
    assert '__version__ = "0.2.0"' in (root / "gateway" / "__init__.py").read_text()
    assert (root / "CHANGELOG.md").read_text() == CHANGELOG.replace(
        "## Unreleased\n", "## Unreleased\n\n## 0.2.0 (2026-03-04)\n"
    )


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "1", "v0.2.0", "0.2.0rc1"])
def test_a_version_that_is_not_above_the_present_one_is_refused(root: Path, version: str) -> None:
    with pytest.raises(ValueError, match="version"):
        release(root, version, "2026-03-04")
    assert (root / "CHANGELOG.md").read_text() == CHANGELOG


def test_a_release_without_entries_is_refused(root: Path) -> None:
    release(root, "0.2.0", "2026-03-04")
    with pytest.raises(ValueError, match="nothing under"):
        release(root, "0.3.0", "2026-03-05")
