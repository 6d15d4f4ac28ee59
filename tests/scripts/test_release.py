"""A release has a version and a dated section in the changelog."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.release import ROOT, VERSIONS, present, release

CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## 0.1.0 (2026-01-02)\n\n- All.\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with the files that a release changes."""
    for name in VERSIONS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text().replace(present(ROOT), "0.1.0"))
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_a_release_sets_the_version_and_dates_the_entries_of_the_changelog(root: Path) -> None:
    release(root, "0.2.0", "2026-03-04")
    for name in VERSIONS:
        text = (root / name).read_text()
        assert text.count("0.2.0") == (ROOT / name).read_text().count(present(ROOT)), name
        assert "0.1.0" not in text, name
    assert (root / "CHANGELOG.md").read_text() == CHANGELOG.replace(
        "## Unreleased\n", "## Unreleased\n\n## 0.2.0 (2026-03-04)\n"
    )


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "1", "v0.2.0", "0.2.0rc1"])
def test_a_version_that_is_not_above_the_present_one_is_refused(root: Path, version: str) -> None:
    with pytest.raises(ValueError, match="version"):
        release(root, version, "2026-03-04")
    assert (root / "CHANGELOG.md").read_text() == CHANGELOG


def test_the_first_release_may_have_the_version_that_the_files_have(root: Path) -> None:
    changelog = root / "CHANGELOG.md"
    changelog.write_text(CHANGELOG.partition("## 0.1.0")[0])
    release(root, "0.1.0", "2026-01-02")
    assert "## Unreleased\n\n## 0.1.0 (2026-01-02)\n" in changelog.read_text()


def test_every_file_has_the_version_of_the_gateway() -> None:
    for name, pattern in VERSIONS.items():
        found = re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE)
        assert found and set(found) == {present(ROOT)}, name


def test_a_release_without_entries_is_refused(root: Path) -> None:
    release(root, "0.2.0", "2026-03-04")
    with pytest.raises(ValueError, match="nothing under"):
        release(root, "0.3.0", "2026-03-05")
