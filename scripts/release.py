"""A release, as far as no account is needed: ``python scripts/release.py 0.2.0 --url https://...``.

Sets the version and dates the changelog, commits, builds and tries what is published by
``make sbom``, and sets the tag. Prints the commands that publish it. A release that broke off, or
whose changelog is dated already, goes on from there.

Owns: the files that have the version, the order of the steps. Must not know: accounts.
"""

import argparse
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNRELEASED = "## Unreleased\n"
VERSIONS = {
    "gateway/__init__.py": r'(?<=__version__ = ").+?(?=")',
    "clients/js/package.json": r'(?<="version": ").+?(?=")',
    "deploy/helm/Chart.yaml": r'(?<=^version: ).+$|(?<=^appVersion: ").+(?=")',
    "deploy/helm/values.yaml": r'(?<=^  tag: ").+(?=")',
}
"""Files with the version, and a pattern of it. The clients and tools in Python read the first."""


def release(root: Path, version: str, day: str) -> None:
    """Set the version, and move the entries under "Unreleased" to this version.

    :param day: date of the release, as in ISO 8601

    Raises `ValueError` if the version is below the present one or released already, or if there are
    no entries.
    """
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    now = present(root)
    if _numbers(version) < _numbers(now) or dated(root, version):
        raise ValueError(f"{version} is not above {now}, the present version.")
    before, heading, entries = text.partition(UNRELEASED)
    if not heading or not entries.partition("\n## ")[0].strip():
        raise ValueError('There is nothing under "Unreleased" in CHANGELOG.md.')
    changelog.write_text(f"{before}{UNRELEASED}\n## {version} ({day})\n{entries}", encoding="utf-8")
    for name, pattern in VERSIONS.items():
        path = root / name
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(pattern, version, text, flags=re.MULTILINE), encoding="utf-8")


def present(root: Path) -> str:
    """Return the version that the files have."""
    text = (root / "gateway" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(VERSIONS["gateway/__init__.py"], text)
    assert found is not None
    return found[0]


def dated(root: Path, version: str) -> bool:
    """Tell whether the changelog has a section of this version."""
    return f"\n## {version} (" in (root / "CHANGELOG.md").read_text(encoding="utf-8")


def _numbers(version: str) -> tuple[int, ...]:
    """Return the three numbers of a version. Raises `ValueError`."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"{version!r} is not a version such as 0.2.0.")
    return tuple(map(int, version.split(".")))


def main(argv: list[str]) -> None:
    """Make a release. Raises `ValueError` and `CalledProcessError`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--url", required=True, help="address of the repository")
    args = parser.parse_args(argv)
    if _run("git", "status", "--porcelain", output=True):
        raise ValueError("Commit or remove your changes first: git status lists them.")
    if args.version != present(ROOT) or not dated(ROOT, args.version):
        release(ROOT, args.version, datetime.now(UTC).date().isoformat())
        _run("git", "commit", "--all", "--message", f"Release {args.version}")
    _run("make", "sbom", f"URL={args.url}")
    tag = f"v{args.version}"
    _run("git", "tag", "--annotate", tag, "--message", f"Caption Gateway {args.version}")
    print(
        f"\n{tag} is tagged, and dist/ is built and tried. With your accounts:\n"
        f"  git push origin HEAD {tag}\n"
        "  twine upload dist/*.whl dist/*.tar.gz\n"
        f"  npm publish dist/caption-gateway-client-{args.version}.tgz\n"
        f"Then make a release of {tag} from its section in CHANGELOG.md, with dist/sbom.cdx.json."
    )


def _run(*command: str, output: bool = False) -> str:
    done = subprocess.run(
        command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE if output else None
    )
    return (done.stdout or "").strip()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (ValueError, subprocess.CalledProcessError) as exc:
        sys.exit(str(exc))
