"""The version and the changelog of a new release: ``python scripts/release.py 0.2.0``.

Owns: the two files that a release changes. Must not know: git, package indexes.
"""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNRELEASED = "## Unreleased\n"


def release(root: Path, version: str, day: str) -> None:
    """Set the version, and move the entries under "Unreleased" to this version.

    :param day: date of the release, as in ISO 8601

    Raises `ValueError` if the version is not above the present one, or if there are no entries.
    """
    package = root / "gateway" / "__init__.py"
    text = package.read_text(encoding="utf-8")
    present = re.search(r'__version__ = "(.+)"', text)
    assert present is not None
    if _numbers(version) <= _numbers(present[1]):
        raise ValueError(f"{version} is not above {present[1]}, the present version.")
    changelog = root / "CHANGELOG.md"
    before, heading, entries = changelog.read_text(encoding="utf-8").partition(UNRELEASED)
    if not heading or not entries.partition("\n## ")[0].strip():
        raise ValueError('There is nothing under "Unreleased" in CHANGELOG.md.')
    changelog.write_text(f"{before}{UNRELEASED}\n## {version} ({day})\n{entries}", encoding="utf-8")
    package.write_text(text.replace(present[0], f'__version__ = "{version}"'), encoding="utf-8")


def _numbers(version: str) -> tuple[int, ...]:
    """Return the three numbers of a version. Raises `ValueError`."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"{version!r} is not a version such as 0.2.0.")
    return tuple(map(int, version.split(".")))


if __name__ == "__main__":
    try:
        (version,) = sys.argv[1:]
        release(ROOT, version, datetime.now(UTC).date().isoformat())
    except ValueError as exc:
        sys.exit(f"{exc} Usage: python scripts/release.py VERSION")
